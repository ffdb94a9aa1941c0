"""A rollout cut into near-equal minibatches with static shapes: every row once per epoch, no tiny remainder."""

# B rows of a rollout, E epochs, M minibatches, S rows of the largest minibatch.

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


def shuffled_orders(stream: int, rows: int, epochs: int) -> np.ndarray:
    """Row numbers [E, B] int32: a fresh order of all rows for every epoch.

    Drawn on the host: sorting random keys inside the program takes longer to compile and to run than NumPy's shuffle.
    """
    rng = np.random.Generator(np.random.PCG64(stream))
    return np.stack([rng.permutation(rows) for _ in range(epochs)]).astype(np.int32)


def cut(order_B: jax.Array, position_MS: np.ndarray | jax.Array) -> jax.Array:
    """Row numbers [M, S] of one epoch's minibatches."""
    if position_MS.size == order_B.shape[0]:
        return order_B.reshape(position_MS.shape)
    return order_B[jnp.asarray(position_MS)]
