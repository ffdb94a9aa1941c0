"""Which frames each update sees: a function of the seed and the update, so that a resumed run goes on with the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


class DataOrder:
    """Batches of frame indices. Each epoch is a fresh shuffle of all frames; batches run on from one to the next.

    Every batch is full and every frame is seen once per epoch. With `weights`, one per group of frames, each sample
    draws its group by weight and a frame of it at random instead. Of several processes each takes its own part.
    """

    def __init__(
        self,
        frames: int,
        samples_per_update: int,
        seed: int,
        groups: Sequence[tuple[int, int]] = (),
        weights: Sequence[float] = (),
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        self.frames, self.samples, self.seed = frames, samples_per_update, seed
        self.groups, self.weights = tuple(groups), tuple(weights)
        self.rank, self.processes = rank, processes
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def batch(self, update: int) -> list[int]:
        """The frames of one update, counted from 0: those of this process."""
        chosen = self._weighted(update) if self.weights else self._shuffled(update)
        return [int(frame) for frame in chosen[self.rank :: self.processes]]

    def batches(self, first_update: int) -> Iterator[list[int]]:
        """The batches from an update on, without end."""
        update = first_update
        while True:
            yield self.batch(update)
            update += 1

    def _shuffled(self, update: int) -> np.ndarray:
        start, parts, missing = update * self.samples, [], self.samples
        while missing:
            epoch, place = divmod(start, self.frames)
            part = self._shuffle(epoch)[place : place + missing]
            parts.append(part)
            start, missing = start + len(part), missing - len(part)
        return np.concatenate(parts)

    def _shuffle(self, epoch: int) -> np.ndarray:
        if epoch != self._epoch:
            self._epoch, self._order = epoch, np.random.default_rng([self.seed, 0, epoch]).permutation(self.frames)
        return self._order

    def _weighted(self, update: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, 1, update])
        share = np.array(self.weights) / sum(self.weights)
        first, end = (np.array([group[side] for group in self.groups])[:, None] for side in (0, 1))
        group = rng.choice(len(share), self.samples, p=share)
        return np.asarray(rng.integers(first[group, 0], end[group, 0]))
