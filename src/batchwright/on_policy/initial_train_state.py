"""What updates change, before the first of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from batchwright.on_policy.component_weighting import start_weighting_state
from batchwright.on_policy.on_policy_settings import UpdateSettings
from batchwright.on_policy.on_policy_state import TrainState
from batchwright.on_policy.on_policy_update import make_optimiser


def start_train_state(params: jax.Array, settings: UpdateSettings) -> TrainState:
    """A train state before the first update."""
    size = len(settings.components)
    weighting = start_weighting_state(size, size + settings.success_head) if settings.learned_weighting else None
    zero, one = jnp.zeros((), jnp.int32), jnp.ones((), jnp.float32)
    return TrainState(params, make_optimiser(settings).init(params), zero, one, weighting)
