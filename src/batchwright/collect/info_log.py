"""Means of chosen entries of `info` over the steps of an iteration (`--log-info`); nothing is trained on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

LAST = "last"


class InfoLog:
    """Sums of the entries since they were last taken; steps without a finite value do not count."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self._clear()

    def _clear(self) -> None:
        names = [name for key in self.keys for name in (f"info/{key}", f"info/{key}/{LAST}")]
        self._sums, self._counts = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)

    def add(self, extras: Mapping[str, np.ndarray], valid_N: np.ndarray, ended_N: np.ndarray) -> None:
        """The entries [N] of one step: of all transitions, and of those that ended an episode."""
        for key in self.keys:
            value_N = np.asarray(extras[key], np.float64)
            finite_N = np.isfinite(value_N) & valid_N
            for name, counts_N in ((f"info/{key}", finite_N), (f"info/{key}/{LAST}", finite_N & ended_N)):
                self._sums[name] += float(value_N[counts_N].sum())
                self._counts[name] += int(counts_N.sum())

    def take(self) -> dict[str, float]:
        """Metrics of what was added; an entry that no step had is left out."""
        found = {name: self._sums[name] / count for name, count in self._counts.items() if count}
        self._clear()
        return found
