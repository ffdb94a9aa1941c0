"""Where the loop over single environments writes: observations, rewards, flags and what else a step gives."""

# n environments of this loop (all of them, or one worker's share), K info keys

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchwright.envs.engines.host_arrays import Layout, observation_layout
from batchwright.envs.masks import mask_size
from batchwright.envs.spaces import Spec

SIGNALS = 9
"""Arrays of a loop beside its observations."""


@dataclass(frozen=True)
class LoopArrays:
    """Where a loop writes: observations in the order of the leaves, reward and flags [n], extras [K, n], and more."""

    observations: list[NDArray[Any]]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    extras: NDArray[np.float32]
    components: NDArray[np.float32]
    """[n, C] of the reward."""
    mask: NDArray[np.bool_]
    """[n, M], what may be done; all where the environment gives no mask."""
    masked: NDArray[np.bool_]
    """Whether the environment gave a mask."""
    success: NDArray[np.float32]
    """Written where an episode ends: 1, 0 or NaN (unknown)."""
    idle: NDArray[np.bool_]
    """Written for several agents alone: the row's next step is no transition."""

    @staticmethod
    def layout(spaces: tuple[Spec, Spec], num_envs: int, num_info_keys: int, num_components: int) -> Layout:
        """Shape and dtype of each array, observations first."""
        flag, real = np.dtype(np.bool_), np.dtype(np.float32)
        signals: Layout = [
            ((num_envs,), real),
            ((num_envs,), flag),
            ((num_envs,), flag),
            ((num_info_keys, num_envs), real),
            ((num_envs, num_components), real),
            ((num_envs, mask_size(spaces[1])), flag),
            ((num_envs,), flag),
            ((num_envs,), real),
            ((num_envs,), flag),
        ]
        return [*observation_layout(spaces[0], num_envs), *signals]

    @staticmethod
    def over(views: list[NDArray[Any]]) -> LoopArrays:
        """Arrays in the order of `layout`, whatever they hold."""
        return LoopArrays(views[:-SIGNALS], *views[-SIGNALS:])

    @staticmethod
    def of(views: list[NDArray[Any]]) -> LoopArrays:
        """Zeroed arrays in the order of `layout`, as a loop expects them before its first step."""
        arrays = LoopArrays.over(views)
        arrays.extras[:] = math.nan
        arrays.success[:] = math.nan
        arrays.mask[:] = True
        return arrays

    @staticmethod
    def allocate(spaces: tuple[Spec, Spec], num_envs: int, num_info_keys: int, num_components: int = 0) -> LoopArrays:
        """Arrays for `num_envs` environments."""
        layout = LoopArrays.layout(spaces, num_envs, num_info_keys, num_components)
        return LoopArrays.of([np.zeros(shape, dtype) for shape, dtype in layout])

    def rows(self, first: int, count: int) -> LoopArrays:
        """Views of `count` environments from `first` on."""
        part = slice(first, first + count)
        return LoopArrays(
            [array[part] for array in self.observations],
            self.reward[part],
            self.terminated[part],
            self.truncated[part],
            self.extras[:, part],
            self.components[part],
            self.mask[part],
            self.masked[part],
            self.success[part],
            self.idle[part],
        )

    def copy_from(self, other: LoopArrays) -> None:
        """Takes over the other arrays' values."""
        for mine, theirs in zip(self.observations, other.observations, strict=True):
            np.copyto(mine, theirs)
        np.copyto(self.reward, other.reward)
        np.copyto(self.terminated, other.terminated)
        np.copyto(self.truncated, other.truncated)
        np.copyto(self.extras, other.extras)
        np.copyto(self.components, other.components)
        np.copyto(self.mask, other.mask)
        np.copyto(self.masked, other.masked)
        np.copyto(self.success, other.success)
        np.copyto(self.idle, other.idle)

    def mark_cut(self) -> None:
        """Every episode that was running ended as truncated, with no reward, on the observation that is there."""
        self.reward[:] = 0.0
        self.terminated[:] = False
        np.logical_not(self.idle, out=self.truncated)
        self.extras[:] = math.nan
        self.components[:] = 0.0
        self.success[:] = math.nan
