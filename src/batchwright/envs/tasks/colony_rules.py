"""Rules for Colony that learn nothing, from the observations of any policy: the baselines of a trained one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from batchwright.envs import registration  # noqa: F401  (registers Colony-v0)
from batchwright.envs.tasks.colony import (
    DELETE,
    FEATURES_PER_NODE,
    KEPT_NODES,
    MAX_NODES,
    SPAWN,
    STAY,
    SUCCESS_NODES,
)

Rule: TypeAlias = Callable[[Any, Any, np.random.Generator], dict[str, np.ndarray]]
"""From an observation, its mask and a random generator to an action."""

FULL_DISTANCE = 1.0


def random_rule(observation: Any, mask: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Any allowed choice of every node, in any direction, at any distance."""
    choice = [rng.choice(np.flatnonzero(allowed)) for allowed in mask["choice"]]
    spawn = rng.uniform(-1.0, 1.0, (MAX_NODES, 2)).astype(np.float32)
    return {"choice": np.asarray(choice, np.int64), "spawn": spawn}


def greedy_rule(observation: Any, mask: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The stiffest node that may spawns up the slope under it, as far as it can; the softest of more than four goes."""
    nodes = np.asarray(observation)[: MAX_NODES * FEATURES_PER_NODE].reshape(MAX_NODES, FEATURES_PER_NODE)
    alive, ground, slope = nodes[:, 0] > 0, nodes[:, 3], nodes[:, 4:6]
    may_spawn = np.asarray([allowed[SPAWN] for allowed in mask["choice"]], bool)
    choice = np.full(MAX_NODES, STAY, np.int64)
    if may_spawn.any():
        choice[np.argmax(np.where(may_spawn, ground, -np.inf))] = SPAWN
    if alive.sum() > SUCCESS_NODES:
        may_go = alive & (np.arange(MAX_NODES) >= KEPT_NODES)
        choice[np.argmin(np.where(may_go, ground, np.inf))] = DELETE
    direction = np.arctan2(slope[:, 1], slope[:, 0]) / np.pi
    spawn = np.stack((direction, np.full(MAX_NODES, FULL_DISTANCE)), -1).astype(np.float32)
    return {"choice": choice, "spawn": spawn}


RULES: dict[str, Rule] = {"random": random_rule, "greedy": greedy_rule}


def play(rule: Rule, episodes: int, seed: int) -> dict[str, np.ndarray]:
    """{"returns", "lengths", "successes"} of whole episodes under a rule."""
    env: gymnasium.Env[Any, Any] = gymnasium.make("Colony-v0")
    rng = np.random.default_rng(seed)
    rows = []
    obs, info = env.reset(seed=seed)
    for _ in range(episodes):
        total, steps, ended = 0.0, 0, False
        while not ended:
            obs, reward, terminated, truncated, info = env.step(rule(obs, info["action_mask"], rng))
            total, steps, ended = total + float(reward), steps + 1, terminated or truncated
        rows.append((total, steps, info["is_success"]))
        obs, info = env.reset()
    returns, lengths, successes = zip(*rows, strict=True)
    return {"returns": np.array(returns), "lengths": np.array(lengths), "successes": np.array(successes)}
