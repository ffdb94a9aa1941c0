"""Bytes: of one transition, one batch, the buffer; and the memory of a policy as fixed + per sample x batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

DTYPE_BYTES = {"float32": 4, "float16": 2, "uint8": 1, "int32": 4, "int64": 8, "float64": 8, "bool": 1, "int8": 1}
MIB, GIB = 1024**2, 1024**3

# Share of a memory that a plan may fill: good to here, a warning above, danger from the second figure.
GOOD_SHARE, DANGER_SHARE = 0.90, 0.95

# Share of RAM that a buffer takes where its size is not stated: as much again is left for activations and compiled
# programs, the processes of environments, files on their way to disk, and whatever else the machine does.
DEFAULT_BUFFER_SHARE = 0.5

# Of a frame stack: how far back it reaches.
AGE_BYTES = 1

# Reward (float32) and whether it terminated (one byte) beside each stored transition.
REWARD_AND_END_BYTES = 4 + 1


@dataclass(frozen=True)
class TransitionBytes:
    """Bytes of the parts of one transition at the stored type."""

    obs: int
    action: int

    @property
    def batch(self) -> int:
        """One transition in a batch: observation, action, reward, ends, next observation."""
        return 2 * self.obs + self.action + REWARD_AND_END_BYTES

    @property
    def batch_without_next(self) -> int:
        return self.obs + self.action + REWARD_AND_END_BYTES

    def stored(self, with_next: bool, stacked_frames: int = 1) -> int:
        """One transition in the buffer; without its own next observation, neighbours share frames."""
        if with_next:
            return self.batch
        if stacked_frames == 1:
            return self.batch_without_next
        return self.obs // stacked_frames + AGE_BYTES + self.action + REWARD_AND_END_BYTES


def transition_bytes(obs_shape: tuple[int, ...], obs_dtype: str, action_size: int, discrete: bool) -> TransitionBytes:
    """Bytes of one transition; a discrete action is one int32, others float32 per dimension."""
    return TransitionBytes(math.prod(obs_shape) * DTYPE_BYTES[obs_dtype], 4 if discrete else 4 * action_size)


def show_bytes(count: float) -> str:
    """Bytes in a readable unit."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


@dataclass(frozen=True)
class PolicyMemory:
    """Memory of training a policy: max(floor, fixed + sample x micro-batch + input x samples that wait for theirs)."""

    fixed_bytes: float
    sample_bytes: float
    fixed_reason: str
    sample_reason: str
    floor_bytes: float = 0.0
    """Of the optimiser's step, whatever the batch."""
    input_bytes: float = 0.0
    """Of one sample as the loader gives it: the whole batch of an update lies on the device."""
    measured: bool = False
    small_batches: tuple[tuple[float, float], ...] = ()
    """Further (fixed, sample): small batches peak late in the backward pass, when gradients weigh more."""

    def total(self, samples: int, samples_per_update: int = 0) -> float:
        waiting = max(0, samples_per_update - samples)
        fixed, sample = self.line(samples)
        return max(self.floor_bytes, fixed + sample * samples + self.input_bytes * waiting)

    def line(self, samples: int) -> tuple[float, float]:
        """(fixed, sample) that decide at a micro-batch: those that need most."""
        return max(self._lines(), key=lambda line: line[0] + line[1] * samples)

    def _lines(self) -> tuple[tuple[float, float], ...]:
        return ((self.fixed_bytes, self.sample_bytes), *self.small_batches)

    def largest(self, memory_bytes: float, share: float = GOOD_SHARE, samples_per_update: int = 0) -> int:
        """The most samples that keep within a share of the memory; 0 where not even the fixed part fits.

        Of an update that needs several micro-batches the other samples wait in memory too.
        """
        if self.floor_bytes > memory_bytes * share:
            return 0
        return min(self._fits(memory_bytes * share - fixed, one, samples_per_update) for fixed, one in self._lines())

    def _fits(self, free_bytes: float, sample_bytes: float, samples_per_update: int) -> int:
        fits = max(0, math.floor(free_bytes / sample_bytes))
        if fits >= samples_per_update or sample_bytes <= self.input_bytes:
            return fits
        waiting = self.input_bytes * samples_per_update
        return max(0, math.floor((free_bytes - waiting) / (sample_bytes - self.input_bytes)))
