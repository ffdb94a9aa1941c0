"""Exchange between the parts of a rollout that lie on several devices, inside of the compiled update.

Every device has the rows of its own environments. What a loss or a metric needs of all of them is summed or gathered
here, so that all devices make the same step.
"""

# P shards, T steps, n environments of one shard, N of all, M minibatches, S rows of one.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.learn.returns import normalise_advantages
from batchwright.store.minibatches import layout

AXIS = "envs"
"""The mesh axis over which the environments of a rollout are spread."""


@dataclass(frozen=True)
class Shards:
    """So many parts of a rollout, with as many environments each."""

    count: int

    def total(self, x: Any) -> jax.Array:
        return jnp.asarray(jax.lax.psum(x, AXIS))  # type: ignore[no-untyped-call]

    def largest(self, x: jax.Array) -> jax.Array:
        return jnp.asarray(jax.lax.pmax(x, AXIS))  # type: ignore[no-untyped-call]

    def in_all(self, flag: jax.Array) -> jax.Array:
        """Whether it is true in all shards."""
        return self.total(jnp.asarray(~flag, jnp.int32)) == 0

    def gather(self, *arrays: jax.Array, dim: int = 1) -> tuple[jax.Array, ...]:
        """Float arrays of one shape joined along `dim` in one exchange: [T, n] -> [T, N]."""
        return tuple(jax.lax.all_gather(jnp.stack(arrays), AXIS, axis=dim + 1, tiled=True))

    def of_all(self, measure: Callable[..., Any]) -> Callable[..., Any]:
        """A function of arrays [T, N] as one of arrays [T, n]."""
        return lambda *arrays: measure(*self.gather(*arrays))

    def normalise(self, advantage: jax.Array, weight: jax.Array, dim: int = 1) -> jax.Array:
        """Advantages of this shard, normalised over the rows of all."""
        size = advantage.shape[dim]
        normalised = normalise_advantages(*self.gather(advantage, weight, dim=dim))
        return jnp.asarray(jax.lax.dynamic_slice_in_dim(normalised, self.index * size, size, dim))

    def spread(self, rows_BV: jax.Array) -> jax.Array:
        """The standard deviation [V] of the rows of all shards, which have as many each."""
        mean_V = self.total(rows_BV.mean(0)) / self.count
        return jnp.sqrt(self.total(jnp.square(rows_BV - mean_V).mean(0)) / self.count)

    def moments(self, rows_BV: jax.Array, weight_B: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(count, mean [V], summed squared deviations [V]) of the rows with weight 1 of all shards."""
        count = self.total(weight_B.sum())
        mean = self.total((rows_BV * weight_B[:, None]).sum(0)) / jnp.maximum(count, 1.0)
        return count, mean, self.total((jnp.square(rows_BV - mean) * weight_B[:, None]).sum(0))

    @property
    def index(self) -> jax.Array:
        """Of this shard."""
        return jnp.asarray(jax.lax.axis_index(AXIS))

    def layout(self, rows: int, parts: int) -> tuple[jax.Array, jax.Array]:
        """(position, weight) [M, S] of this shard's rows in the minibatches."""
        position_PMS, inside_PMS = shard_layouts(rows, parts, self.count)
        return jnp.asarray(position_PMS)[self.index], jnp.asarray(inside_PMS)[self.index]

    def count_rows(self, weight_MS: jax.Array) -> jax.Array:
        """Transitions [M] of minibatches over all shards."""
        return self.total(weight_MS.reshape(weight_MS.shape[0], -1).sum(1))

    def sum_update(self, gradient: jax.Array, metrics: dict[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
        """A gradient and the metrics beside it, summed in one exchange; a largest ratio stays that of this shard."""
        names = [name for name in metrics if name != "ratio_error"]
        summed = self.total(jnp.concatenate([gradient, jnp.stack([metrics[name] for name in names])]))
        size = gradient.shape[0]
        return summed[:size], metrics | {name: summed[size + place] for place, name in enumerate(names)}

    def below_floor(self, floor_H: jax.Array, share_H: jax.Array) -> jax.Array:
        """This shard's share of how far a mean [H] is below its floor, from its share of that mean."""
        is_below = self.total(jax.lax.stop_gradient(share_H)) < floor_H
        return jnp.where(is_below, floor_H / self.count - share_H, 0.0)

    def even_envs(self, num_envs: int) -> jax.Array:
        """[n] every second one of all environments."""
        return (jnp.arange(num_envs) + self.index * num_envs) % 2 == 0


def shard_layouts(rows: int, parts: int, shards: int) -> tuple[np.ndarray, np.ndarray]:
    """(position, weight) [P, M, S] of every shard, where each of P shards has `rows` rows of its own.

    Larger parts go round, so that minibatches over all shards have the sizes of `layout(rows * shards, parts)`.
    """
    sizes_M = layout(rows, parts)[1].sum(1).astype(int)
    place_S = np.arange(sizes_M.max())[None, :]
    positions, insides = [], []
    for shard in range(shards):
        sizes = np.roll(sizes_M, shard * (rows % parts))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        insides.append(place_S < sizes[:, None])
        positions.append(np.where(insides[-1], starts[:, None] + place_S, 0))
    return np.stack(positions).astype(np.int32), np.stack(insides).astype(np.float32)
