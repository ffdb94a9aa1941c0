"""Soft actor-critic (Haarnoja et al., 2018): the losses, as functions of arrays."""

# B rows, C critics.

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def soft_target(
    reward_B: jax.Array,
    terminated_B: jax.Array,
    next_value_CB: jax.Array,
    next_log_prob_B: jax.Array,
    temperature: jax.Array,
    gamma: Any,
) -> jax.Array:
    """What critics should say [B]: the smallest next value with its entropy, nothing after a termination.

    A time limit is no termination: the row's own next observation goes on.
    """
    soft = next_value_CB.min(0) - temperature * next_log_prob_B
    target: jax.Array = jax.lax.stop_gradient(reward_B + gamma * jnp.where(terminated_B, 0.0, soft))
    return target


def critic_loss(value_CB: jax.Array, target_B: jax.Array) -> jax.Array:
    """Half the squared error, summed over critics, mean over rows."""
    return 0.5 * jnp.square(value_CB - target_B).sum(0).mean()


def actor_loss(log_prob_B: jax.Array, value_CB: jax.Array, temperature: jax.Array) -> jax.Array:
    """The policy's distance to the softmax of the smaller critic."""
    return (temperature * log_prob_B - value_CB.min(0)).mean()


def temperature_loss(log_temperature: jax.Array, log_prob_B: jax.Array, target_entropy: Any) -> jax.Array:
    """Raises log alpha while the entropy is below its target, lowers it above: both on the scale of the log-prob."""
    loss: jax.Array = -(log_temperature * jax.lax.stop_gradient(log_prob_B + target_entropy)).mean()
    return loss


def polyak(target: jax.Array, online: jax.Array, rate: Any) -> jax.Array:
    """The target moved towards the online parameters: 1 copies them."""
    moved: jax.Array = target + rate * (online - target)
    return moved
