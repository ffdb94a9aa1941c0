"""What reward components look like before training, by random actions: their scales, and whether they are all of it."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.envs.failures import close_env
from batchwright.envs.gymnasium_source import EnvSource, registered_spec, user_factory
from batchwright.envs.reward_components import REST, reward_parts, vector_names

PROBE_STEPS = 1000
SAME_REWARD = 1e-4


@dataclass(frozen=True)
class ComponentProbe:
    """Measured over `steps` random steps."""

    names: tuple[str, ...]
    """Components asked for, and `rest` where they leave out a part of the reward."""
    spreads: tuple[float, ...]
    """Standard deviation of the running discounted return of each."""
    steps: int


def probe_components(name: str, wanted: tuple[str, ...] | None, gamma: float) -> ComponentProbe | None:
    """None where the environment has no Gymnasium form or does not play; that is reported when training starts."""
    with contextlib.suppress(Exception):
        if user_factory(name) is None and registered_spec(name) is None:
            return None
        env, limit_steps = EnvSource(name).make()
        try:
            return _played(env, limit_steps or math.inf, name, wanted, gamma)
        finally:
            close_env(env)
    return None


def _played(env: Any, limit_steps: float, name: str, wanted: tuple[str, ...] | None, gamma: float) -> ComponentProbe:
    offered = vector_names(env)
    parts = reward_parts(offered, wanted, name)
    keys = bool(wanted) and not offered and REST not in parts.names
    parts = reward_parts(offered, (*parts.names, REST), name) if keys else parts
    env.action_space.seed(0)
    (_, info), length = env.reset(seed=0), 0
    total_K, returns, rest = np.zeros(len(parts.names)), [], 0.0
    for _ in range(PROBE_STEPS):
        mask = {} if "action_mask" not in info else {"mask": info["action_mask"]}
        _, reward, terminated, truncated, info = env.step(env.action_space.sample(**mask))
        whole, paid_K = parts.split(reward, info, name)
        total_K, length = gamma * total_K + np.asarray(paid_K, np.float64), length + 1
        returns.append(total_K)
        rest = max(rest, abs(float(paid_K[-1])) / max(1.0, abs(float(whole)))) if keys else 0.0
        if terminated or truncated or length >= limit_steps:
            (_, info), length, total_K = env.reset(), 0, np.zeros(len(parts.names))
    spreads = tuple(float(std) for std in np.std(returns, axis=0))
    if keys and rest < SAME_REWARD:
        return ComponentProbe(parts.names[:-1], spreads[:-1], PROBE_STEPS)
    return ComponentProbe(parts.names, spreads, PROBE_STEPS)
