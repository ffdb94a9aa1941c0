"""Running statistics: merged on the host in float64 once per iteration, frozen while a rollout and its update last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

OBS_CLIP = 10.0
SMALLEST_STD = 1e-4


class ObsStats(NamedTuple):
    """Frozen observation statistics [V] of one iteration; mean 0, std 1 and no limit where nothing is normalised."""

    mean: Any
    std: Any
    limit: Any = np.float32(OBS_CLIP)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RunningMoments:
    """Count, mean and summed squared deviations [V] of everything seen, in float64; arrays that a checkpoint holds."""

    count: np.float64
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def empty(cls, size: int) -> RunningMoments:
        return cls(np.float64(0.0), np.zeros(size), np.zeros(size))

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation; 1 where nothing varies, so that constant dimensions pass unchanged."""
        if self.count < 2:
            return np.ones_like(self.mean)
        std = np.sqrt(self.squares / self.count)
        return np.where(std < SMALLEST_STD, 1.0, std)

    def merge(self, count: Any, mean: Any, squares: Any) -> RunningMoments:
        """With a batch of `count` rows of that mean and those summed squared deviations (Chan et al., 1979)."""
        added, before = float(count), float(self.count)
        if added <= 0:
            return self
        mean, squares = np.asarray(mean, np.float64), np.asarray(squares, np.float64)
        total = before + added
        delta = mean - self.mean
        return RunningMoments(
            np.float64(total),
            self.mean + delta * (added / total),
            self.squares + squares + delta**2 * (before * added / total),
        )

    def obs_stats(self, enabled: bool) -> ObsStats:
        """Mean and std as float32; observations pass unchanged where `enabled` is False."""
        unchanged = np.zeros(self.mean.shape, np.float32), np.ones(self.mean.shape, np.float32)
        if not enabled:
            return ObsStats(*unchanged, limit=np.float32(np.inf))
        if self.count < 2:
            return ObsStats(*unchanged)
        return ObsStats(np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32))


def batch_moments(rows_BV: jax.Array, weight_B: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(count, mean [V], summed squared deviations [V]) of the rows with weight 1."""
    count = weight_B.sum()
    mean = (rows_BV * weight_B[:, None]).sum(0) / jnp.maximum(count, 1.0)
    squares = (jnp.square(rows_BV - mean) * weight_B[:, None]).sum(0)
    return count, mean, squares


def normalise_obs(rows: jax.Array, mean: jax.Array, std: jax.Array, limit: Any = OBS_CLIP) -> jax.Array:
    """Centred, scaled and clipped observations."""
    return jnp.clip((rows - mean) / std, -limit, limit)
