"""A rollout cut into near-equal minibatches with static shapes: every row once per epoch, no tiny remainder."""

# B rows of a rollout, M minibatches, S rows of the largest minibatch.

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def layout(rows: int, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """(position [M, S] in a shuffled order, weight [M, S]): sizes differ by at most one; padding has weight 0."""
    large = -(-rows // parts)
    sizes = np.full(parts, rows // parts)
    sizes[: rows % parts] += 1
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    inside = np.arange(large)[None, :] < sizes[:, None]
    position = np.where(inside, starts[:, None] + np.arange(large)[None, :], 0)
    return position.astype(np.int32), inside.astype(np.float32)


def shuffled(key: jax.Array, rows: int, position_MS: np.ndarray) -> jax.Array:
    """Row numbers [M, S] of one epoch's minibatches."""
    order = jax.random.permutation(key, rows)
    if position_MS.size == rows:
        return order.reshape(position_MS.shape)
    return order[jnp.asarray(position_MS)]
