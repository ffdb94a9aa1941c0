"""Running statistics of numbers that not every row has, such as those of agents of one group."""

# B rows, V numbers.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from batchwright.nets.normalise import SMALLEST_STD, ObsStats, RunningMoments


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EntryMoments(RunningMoments):
    """Moments of numbers that not every row has: a count [V] for each; those that no row has pass unchanged."""

    count: NDArray[np.float64]  # type: ignore[assignment]

    @classmethod
    def empty(cls, size: int) -> EntryMoments:
        return cls(*(np.zeros(size) for _ in range(3)))

    @property
    def std(self) -> NDArray[np.float64]:
        std = np.sqrt(self.squares / np.maximum(self.count, 1.0))
        return np.where((self.count < 2) | (std < SMALLEST_STD), 1.0, std)

    def merge(self, count: Any, mean: Any, squares: Any) -> EntryMoments:
        added, mean, squares = (np.asarray(x, np.float64) for x in (count, mean, squares))
        total = self.count + added
        share = added / np.maximum(total, 1.0)
        delta = np.where(added > 0, mean - self.mean, 0.0)
        return EntryMoments(total, self.mean + delta * share, self.squares + squares + delta**2 * (self.count * share))

    def obs_stats(self, enabled: bool) -> ObsStats:
        if not enabled:
            return super().obs_stats(False)
        return ObsStats(np.where(self.count < 2, 0.0, self.mean).astype(np.float32), self.std.astype(np.float32))


def entry_moments(rows_BV: jax.Array, weight_BV: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`batch_moments` of numbers with weights of their own: (count [V], mean [V], summed squared deviations [V])."""
    count = weight_BV.sum(0)
    mean = (rows_BV * weight_BV).sum(0) / jnp.maximum(count, 1.0)
    return count, mean, (jnp.square(rows_BV - mean) * weight_BV).sum(0)
