"""The KL-adaptive learning rate: one factor on the rate, moved after every epoch."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from batchwright.on_policy.on_policy_state import Hyper, Metrics, TrainState


def adapt_learning_rate(train: TrainState, metrics_M: Metrics, hyper: Hyper, first: jax.Array) -> TrainState:
    """The learning rate down by 1.5 above twice the target KL, up by 1.5 below half of it.

    The KL before the first update of a rollout is 0 at any rate, and after a stop nothing moves: both are left out.
    """
    counts = metrics_M["measured"].at[0].multiply(jnp.where(first, 0.0, 1.0))
    kl = (metrics_M["kl"] * counts).sum() / jnp.maximum(counts.sum(), 1.0)
    factor = jnp.where(kl > 2 * hyper.kl_target, 1 / 1.5, jnp.where(kl < hyper.kl_target / 2, 1.5, 1.0))
    factor = jnp.where(counts.sum() > 0, factor, 1.0)
    return train._replace(learning_rate_factor=jnp.clip(train.learning_rate_factor * factor, 1e-2, 1e2))
