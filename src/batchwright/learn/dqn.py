"""Double Q-learning (van Hasselt et al., 2016): the target and the loss, as functions of arrays."""

# B rows, A choices.

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def double_q_target(
    reward_B: jax.Array, terminated_B: jax.Array, next_online_BA: jax.Array, next_target_BA: jax.Array, gamma: Any
) -> jax.Array:
    """What the value of the taken choice should be [B]: the online network chooses, the target network values."""
    best_B = jnp.argmax(next_online_BA, -1)
    after_B = jnp.take_along_axis(next_target_BA, best_B[:, None], -1)[:, 0]
    target: jax.Array = jax.lax.stop_gradient(reward_B + gamma * jnp.where(terminated_B, 0.0, after_B))
    return target


def taken_value(value_BA: jax.Array, action_BD: jax.Array) -> jax.Array:
    """The value [B] of the choice that was taken; actions are flat, [B, 1]."""
    return jnp.take_along_axis(value_BA, action_BD.astype(jnp.int32), -1)[:, 0]


def huber(error_B: jax.Array, limit: Any) -> jax.Array:
    """Squared up to the limit, linear beyond: a wrong target does not rule the gradient. Mean over rows."""
    size = jnp.abs(error_B)
    return jnp.where(size < limit, 0.5 * jnp.square(size), limit * (size - 0.5 * limit)).mean()
