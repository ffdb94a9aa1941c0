"""Frame stacks without repeats: a row of the buffer keeps the newest frame, the others are in the rows before it.

`ages` holds how many of those rows belong to the stack of a row, at most S - 1. Beyond them a stack repeats its oldest
frame, or is zero where `ZEROS` is set: the two ways in which environments begin an episode. Every stack is compared
with what it will be read back as before it is stored: one that is neither is refused, none is changed.
"""

# T steps of a rollout, N environments, S frames of a stack, C channels of a frame, F = S x C, R rows of the buffer.

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError

ZEROS = 0x80
"""Bit of an age: frames before the first one are zero."""
REACH = 0x7F
MOST_FRAMES = REACH + 1


class FrameStack:
    """The stacks of observations of shape [F, ...], oldest frame first."""

    def __init__(self, frames: int, shape: tuple[int, ...], rows: int) -> None:
        if not shape or shape[0] % frames or not 1 < frames <= MOST_FRAMES:
            raise UserError(
                f"observations of shape {shape} are no stack of {frames} frames along their first axis.",
                ["--stacked-frames 1"],
            )
        self.frames = frames
        self.frame_shape = (shape[0] // frames, *shape[1:])
        self.ages = np.zeros(rows, np.uint8)

    @property
    def zero_row(self) -> int:
        """The row of the stored frames that is zero: one more than the buffer has."""
        return len(self.ages)

    def newest(self, obs: Any) -> Any:
        """The last frame [..., C, ...] of stacks [T, N, F, ...]."""
        return obs[:, :, -self.frame_shape[0] :]

    def ages_of(
        self, obs_TN: NDArray[Any], before_N: NDArray[Any] | None, before_age_N: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """Ages [T, N] of stacks; `before_N` and its ages are those of the row in front of the first, where one is."""
        stack = obs_TN.reshape(*obs_TN.shape[:2], self.frames, -1)
        old, new = stack[:, :, :-1], stack[:, :, 1:]
        repeats = (old == stack[:, :, -1:]).all((-2, -1))
        zeros = ~old.any((-2, -1))
        follows = np.zeros(stack.shape[:2], bool)
        follows[1:] = (old[1:] == new[:-1]).all((-2, -1))
        if before_N is not None:
            follows[0] = (old[0] == before_N.reshape(len(before_N), self.frames, -1)[:, 1:]).all((-2, -1))
        unknown = ~(follows | repeats | zeros)
        if unknown.any():
            raise UserError(
                f"an observation is no stack of {self.frames} frames: what came before its newest frame is neither the "
                "observation before it, nor that frame repeated, nor zero.",
                ["--stacked-frames 1 in another --run-dir"],
            )
        ages = np.empty(stack.shape[:2], np.uint8)
        fresh = np.where(repeats, 0, ZEROS).astype(np.uint8)
        for t in range(len(stack)):
            reach = np.minimum((before_age_N & REACH) + 1, self.frames - 1)
            ages[t] = before_age_N = np.where(follows[t], reach | (before_age_N & ZEROS), fresh[t]).astype(np.uint8)
        return ages

    def rows(self, row: NDArray[Any], steps: int, num_envs: int) -> NDArray[np.int32]:
        """Rows [..., S] that hold the frames of the stacks of `row`, oldest first, in columns of `steps` rows."""
        age = self.ages[row]
        back = np.arange(self.frames - 1, -1, -1)
        reach = (age & REACH).astype(np.int64)[..., None]
        step, column = row[..., None] // num_envs, row[..., None] % num_envs
        found = (step - np.minimum(back, reach)) % steps * num_envs + column
        blank = (back > reach) & ((age & ZEROS) > 0)[..., None]
        return np.where(blank, self.zero_row, found).astype(np.int32)
