"""Gradients of minibatches that are larger than a core's cache, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from batchwright.on_policy.on_policy_state import Metrics, TransitionRows


def sum_over_pieces(
    grad_fn: Callable[[TransitionRows], tuple[Any, Metrics]], minibatch: TransitionRows, pieces: int
) -> tuple[Any, Metrics]:
    """The gradient of a minibatch as the sum over equal pieces of its rows, and its metrics."""
    rows = minibatch.weight.shape[0]
    cut_rows = jax.tree.map(lambda x: x.reshape(pieces, rows // pieces, *x.shape[1:]), minibatch)

    def add(total: Any, piece: TransitionRows) -> tuple[Any, None]:
        (gradient, metrics), (more, new) = total, grad_fn(piece)
        largest = jnp.maximum(metrics["ratio_error"], new["ratio_error"])
        gradient, metrics = jax.tree.map(jnp.add, (gradient, metrics), (more, new))
        return (gradient, metrics | {"ratio_error": largest}), None

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), jax.eval_shape(jax.vmap(grad_fn), cut_rows))
    (gradient, metrics), _ = jax.lax.scan(add, zeros, cut_rows)
    return gradient, metrics
