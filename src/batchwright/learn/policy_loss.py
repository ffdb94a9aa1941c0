"""The three on-policy objectives, row by row: what one transition adds to the loss of the policy."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

PolicyLoss = Callable[[jax.Array, jax.Array, jax.Array, jax.Array | float], jax.Array]
"""(log-prob now, log-prob at collection, advantage, clip) -> loss per row."""


def reinforce(log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, clip: jax.Array | float) -> jax.Array:
    """-ratio x advantage (Williams, 1992).

    At the first update the ratio is 1 and the gradient is that of log-prob x advantage; at later ones the ratio weighs
    what the moved policy would have done, which reuse of a rollout needs.
    """
    del clip
    return -jnp.exp(log_prob - old_log_prob) * advantage


def a2c(log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, clip: jax.Array | float) -> jax.Array:
    """-log-prob x advantage (Mnih et al., 2016)."""
    del old_log_prob, clip
    return -log_prob * advantage


def ppo(log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, clip: jax.Array | float) -> jax.Array:
    """-min(ratio x advantage, clipped ratio x advantage) (Schulman et al., 2017)."""
    ratio = jnp.exp(log_prob - old_log_prob)
    return -jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def value_loss(
    value: jax.Array, target: jax.Array, old_value: jax.Array | None = None, clip: jax.Array | float = 0.0
) -> jax.Array:
    """Squared error per row; with `old_value`, the larger of it and that of the value clipped around the old one."""
    plain = jnp.square(value - target)
    if old_value is None:
        return plain
    near = old_value + jnp.clip(value - old_value, -clip, clip)
    return jnp.maximum(plain, jnp.square(near - target))


def kl_estimate(log_prob: jax.Array, old_log_prob: jax.Array) -> jax.Array:
    """(ratio - 1) - log ratio per row: unbiased and never negative (Schulman, 2020, "Approximating KL divergence")."""
    log_ratio = log_prob - old_log_prob
    return jnp.expm1(log_ratio) - log_ratio


POLICY_LOSSES: dict[str, PolicyLoss] = {"ppo": ppo, "a2c": a2c, "reinforce": reinforce}
