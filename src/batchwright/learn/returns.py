"""Returns and advantages of a rollout, terminations and time limits apart."""

# T steps, N environments, K reward components.

from __future__ import annotations

import jax
import jax.numpy as jnp

# Steps of a scan over time that are written out at once: 8 pays on CPUs, more only lengthens compilation.
UNROLL = 8


def gae(
    reward_TNK: jax.Array,
    value_TNK: jax.Array,
    next_value_TNK: jax.Array,
    terminated_TN: jax.Array,
    ended_TN: jax.Array,
    gamma: jax.Array | float,
    gae_lambda: jax.Array | float,
) -> jax.Array:
    """Advantages [T, N, K] (Schulman et al., 2016): a termination has no future, a time limit bootstraps.

    `next_value` is the value of the true successor, the last observation of an episode included; the sum over later
    steps is cut at every end. `gae_lambda` 0 looks one step ahead, 1 at the whole return.
    """
    alive = 1.0 - terminated_TN.astype(jnp.float32)[..., None]
    carry_on = 1.0 - ended_TN.astype(jnp.float32)[..., None]
    delta_TNK = reward_TNK + gamma * alive * next_value_TNK - value_TNK

    def back(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, on = step
        advantage = delta + gamma * gae_lambda * on * later
        return advantage, advantage

    start = jnp.zeros_like(delta_TNK[0])
    return jax.lax.scan(back, start, (delta_TNK, carry_on), reverse=True, unroll=UNROLL)[1]


def running_returns(
    reward_TN: jax.Array, ended_TN: jax.Array, start_N: jax.Array, gamma: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """Discounted sums of past rewards [T, N] and the sum to go on from [N]; begun anew after every end."""

    def forward(total: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        reward, ended = step
        total = gamma * total + reward
        return jnp.where(ended, 0.0, total), total

    last, totals = jax.lax.scan(forward, start_N, (reward_TN, ended_TN), unroll=UNROLL)
    return totals, last


def normalise_advantages(advantage: jax.Array, weight: jax.Array) -> jax.Array:
    """Zero mean and unit spread over the rows with weight 1; fewer than two rows, or no spread, are only centred."""
    count = weight.sum()
    mean = (advantage * weight).sum() / jnp.maximum(count, 1.0)
    centred = (advantage - mean) * weight
    std = jnp.sqrt(jnp.square(centred).sum() / jnp.maximum(count, 1.0))
    return jnp.where((count > 1) & (std > 1e-8), centred / (std + 1e-8), centred)


def explained_variance(value: jax.Array, target: jax.Array, weight: jax.Array) -> jax.Array:
    """1 - Var(target - value) / Var(target) over the rows with weight 1; 0 where the target does not vary."""
    count = jnp.maximum(weight.sum(), 1.0)

    def variance(x: jax.Array) -> jax.Array:
        mean = (x * weight).sum() / count
        return (jnp.square(x - mean) * weight).sum() / count

    spread = variance(target)
    return jnp.where(spread > 1e-12, 1.0 - variance(target - value) / jnp.maximum(spread, 1e-12), 0.0)
