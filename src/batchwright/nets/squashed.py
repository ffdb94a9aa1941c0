"""Heads of replay learning: a tanh-squashed Gaussian for boxes, exploration by chance for choices.

Both are `Heads`, so that collection, evaluation and a loaded policy treat them as any other.
"""

# B any leading axes, D numbers of one action, n choices.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.spaces import Box, Discrete, Spec
from batchwright.nets.heads import HALF_LOG_TWO_PI, Heads, make_heads

LOG_STD_RANGE = (-20.0, 2.0)
"""Wider than that of unsquashed heads: SAC ends near-deterministic (the bounds of Haarnoja et al., 2018)."""
EXPLORED = np.float32(1e30)
"""What a chosen random action gets on top of its value: more than any value."""


@dataclass(frozen=True, eq=False)
class SquashedHeads(Heads):
    """Boxes as tanh of a Gaussian whose mean and log std are the raw output [B, 2 D]; actions lie in (-1, 1).

    Noise is (normal, forced): where `forced` is a number, it is the action whatever the policy says.
    """

    def noise(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        source = np.random.Generator(np.random.SFC64(stream))
        return source.standard_normal((*shape, self.action_size), np.float32), self._unforced(shape)

    def no_noise(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        return np.zeros((*shape, self.action_size), np.float32), self._unforced(shape)

    def random(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Noise with which every action is uniform in the whole box: warm-up."""
        source = np.random.Generator(np.random.SFC64(stream))
        forced = 2.0 * source.random((*shape, self.action_size), np.float32) - 1.0
        return np.zeros_like(forced), forced

    def _unforced(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full((*shape, self.action_size), np.nan, np.float32)

    def sample(
        self, params: Any, raw_BP: jax.Array, noise: tuple[jax.Array, ...], mask_BM: jax.Array | None = None
    ) -> jax.Array:
        mean, log_std = split(raw_BP)
        normal, forced = noise
        return jnp.where(jnp.isnan(forced), jnp.tanh(mean + jnp.exp(log_std) * normal), forced)


def split(raw_BP: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(mean, bounded log std) [B, D] of the Gaussian before it is squashed."""
    mean, log_std = jnp.split(raw_BP, 2, -1)
    return mean, jnp.clip(log_std, *LOG_STD_RANGE)


def sample_with_log_prob(raw_BP: jax.Array, normal_BD: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(action [B, D] in (-1, 1), its log-probability [B] on that scale).

    From u before the squash: log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), exact where tanh saturates.
    """
    mean, log_std = split(raw_BP)
    u = mean + jnp.exp(log_std) * normal_BD
    gaussian = -0.5 * jnp.square(normal_BD) - log_std - HALF_LOG_TWO_PI
    log_slope = 2.0 * (math.log(2.0) - u - jax.nn.softplus(-2.0 * u))
    return jnp.tanh(u), (gaussian - log_slope).sum(-1)


def make_squashed_heads(spec: Spec) -> SquashedHeads:
    """Heads for bounded boxes; anything else is refused with the algorithm that fits."""
    for path, leaf in spaces.leaves(spec):
        name = spaces.path_name(path) or "action"
        if not isinstance(leaf, Box):
            fits = ["--algo dqn"] if isinstance(spec, Discrete) else []
            raise UserError(f"sac is for continuous actions; {name} is a choice.", [*fits, "--algo ppo"])
        if not (np.isfinite(leaf.low).all() and np.isfinite(leaf.high).all()):
            raise UserError(
                f"sac squashes actions into their bounds; the action {name} has none.",
                ["--algo ppo", "wrap the environment with bounds (gymnasium.wrappers.RescaleAction)"],
            )
    plain = make_heads(spec)
    return SquashedHeads(spec, plain.heads, 2 * plain.action_size, plain.action_size, 0)


@dataclass(frozen=True, eq=False)
class GreedyHeads(Heads):
    """One choice by the largest value; noise adds so much to one random choice that it is taken."""

    epsilon: float = 0.0
    """Chance of a random choice where `noise` is not told another."""

    def noise(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        return self.explore(stream, shape, self.epsilon)

    def explore(self, stream: int, shape: tuple[int, ...], epsilon: float) -> tuple[np.ndarray, ...]:
        """Noise with which an action is random with chance `epsilon` and greedy otherwise."""
        source = np.random.Generator(np.random.SFC64(stream))
        added = np.zeros((*shape, self.raw_size), np.float32)
        explores = source.random(shape, np.float32) < epsilon
        choice = source.integers(0, self.raw_size, shape)
        np.put_along_axis(added, choice[..., None], np.where(explores, EXPLORED, np.float32(0))[..., None], -1)
        return (added,)


def make_greedy_heads(spec: Spec, epsilon: float) -> GreedyHeads:
    """Heads for one choice; anything else is refused with the algorithm that fits."""
    if not isinstance(spec, Discrete):
        continuous = not spaces.is_discrete(spec)
        raise UserError(
            f"dqn values one choice among a few; these actions are {type(spec).__name__}.",
            (["--algo sac"] if continuous else []) + ["--algo ppo"],
        )
    plain = make_heads(spec)
    return GreedyHeads(spec, plain.heads, plain.raw_size, plain.action_size, 0, epsilon)
