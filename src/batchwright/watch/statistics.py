"""Statistics of episode returns: robust averages with intervals, and the moving averages of the progress line."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

RESAMPLES = 2000
CONFIDENCE = 0.95
MOVING_ITERATIONS = 10
LARGEST_NUMBER = 1e300
_CHUNK_NUMBERS = 2_000_000  # resampled at once, to bound memory

Statistic = Callable[[np.ndarray], np.ndarray]
"""From [..., E] returns to [...] values."""


def summarise(returns: Iterable[float | None], cut_episodes: Sequence[int] = ()) -> dict[str, Any]:
    """Mean, median, IQR and IQM of episode returns, with 95% bootstrap intervals; plain values, ready for JSON.

    Intervals are None for fewer than two episodes. Returns that are not finite (None in a record) are excluded and
    counted under `nonfinite_episodes`. `cut_episodes` are the places in `returns` of episodes that had not ended at the
    step limit: their returns are those up to there.
    """
    everything = [math.nan if value is None else float(value) for value in returns]
    values = np.array([value for value in everything if np.isfinite(value)])
    some = len(values) > 0
    summary: dict[str, Any] = {
        "episodes": len(everything),
        "mean": float(values.mean()) if some else None,
        "median": float(np.median(values)) if some else None,
        "iqr": [float(value) for value in np.percentile(values, (25, 75))] if some else None,
        "iqm": float(interquartile_mean(values)) if some else None,
        "mean_interval": bootstrap_interval([values], _mean),
        "iqm_interval": bootstrap_interval([values], interquartile_mean),
        "returns": [value if np.isfinite(value) else None for value in everything],
    }
    if len(values) < len(everything):
        summary["nonfinite_episodes"] = len(everything) - len(values)
    if len(cut_episodes):
        summary["cut_episodes"] = [int(place) for place in cut_episodes]
    return summary


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis without the lowest and highest quarter, each rounded down (Agarwal et al., 2021)."""
    count = values.shape[-1]
    cut = count // 4
    middle: np.ndarray = np.sort(values, axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle


def bootstrap_interval(groups: Sequence[np.ndarray], statistic: Statistic, seed: int = 0) -> list[float] | None:
    """The 95% percentile bootstrap interval of a statistic of all groups together; None for fewer than two values.

    Each group (a run, a task) is resampled within itself, so that all keep their weight. The seed is fixed.
    """
    filled = [np.asarray(group, dtype=np.float64) for group in groups if len(group)]
    total = sum(len(group) for group in filled)
    if total < 2:
        return None
    rng = np.random.default_rng(seed)
    chunk = max(1, _CHUNK_NUMBERS // total)
    found = []
    for start in range(0, RESAMPLES, chunk):
        rows = min(chunk, RESAMPLES - start)
        drawn = [group[rng.integers(len(group), size=(rows, len(group)))] for group in filled]
        found.append(statistic(np.concatenate(drawn, axis=1)))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(np.concatenate(found), (tail, 100 - tail))
    return [float(low), float(high)]


def is_finite_number(value: Any) -> bool:
    """Whether a value of a record, which may be damaged, is a finite number that a float can hold."""
    return isinstance(value, int | float | np.number) and bool(-LARGEST_NUMBER < value < LARGEST_NUMBER)


class MovingStatistics:
    """R, MA and Best of the progress line; iterations in which no episode ended leave MA and Best as they are."""

    def __init__(self, iterations: int = MOVING_ITERATIONS) -> None:
        self._window: deque[float] = deque(maxlen=iterations)
        self.mean: float | None = None
        """R: the mean return of the episodes that ended in this iteration; None where none did."""
        self.best: float | None = None
        """The highest R so far."""

    @property
    def moving(self) -> float | None:
        """MA: the mean of R over the last iterations in which an episode ended; the first equals R."""
        return sum(self._window) / len(self._window) if self._window else None

    def add(self, mean_return: Any) -> None:
        """Adds the mean return of one iteration; None where no episode ended, anything where a record is damaged."""
        self.mean = float(mean_return) if is_finite_number(mean_return) else None
        if self.mean is not None:
            self._window.append(self.mean)
            self.best = self.mean if self.best is None else max(self.best, self.mean)

    def add_records(self, records: Iterable[Mapping[str, Any]], name: str) -> None:
        """Adds the metric `name` of past records, so that a resumed run continues its averages."""
        for record in records:
            self.add(record.get(name))


def _mean(values: np.ndarray) -> np.ndarray:
    mean: np.ndarray = values.mean(axis=-1)
    return mean
