"""Metrics as columns, and columns reduced to few points: minimum, mean and maximum of buckets of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

MOST_NAMES = 1000
"""Metrics kept per run; a record with more is faulty."""
LARGEST_ITERATION = 2**53
AXES = ("env_steps", "iteration", "training_seconds")
_PARTS_OF_SECONDS = ("collect_seconds", "draw_seconds", "update_seconds", "wait_seconds", "evaluation_seconds")
_NUMBERS = {int, float, bool, type(None)}


class Columns:
    """The records of one run by metric; rows are ascending iterations, NaN where a metric was not logged."""

    def __init__(self) -> None:
        self.rows = 0
        self.repeated = 0
        """Records that repeat an earlier iteration, as a second writer produces them."""
        self.without_iteration = 0
        self.left_out: set[str] = set()
        """Metrics beyond `MOST_NAMES`."""
        self._values: dict[str, np.ndarray] = {}
        self._last = -1

    def names(self) -> list[str]:
        """The numeric metrics in order of their first appearance."""
        return [name for name in self._values if name not in AXES]

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> np.ndarray:
        """All values of a metric [rows]."""
        return self._values[name][: self.rows]

    def extend(self, records: Sequence[dict[str, Any]]) -> None:
        """Appends records; those without a new, higher iteration are skipped and counted."""
        fresh = self._with_new_iteration(records)
        if not fresh:
            return
        start, end = self.rows, self.rows + len(fresh)
        # Records of one run have few sets of names: grouped by them, columns are built without a loop over values.
        by_names: dict[tuple[str, ...], list[int]] = {}
        for row, record in enumerate(fresh):
            by_names.setdefault(tuple(record), []).append(row)
        for names, rows in by_names.items():
            places = start + np.array(rows)
            for name, values in zip(names, zip(*(fresh[row].values() for row in rows), strict=True), strict=True):
                self._put(name, end, places, values)
        self.rows = end
        for column in self._values:  # metrics that these records lack
            self._grown(column, end)

    def _put(self, name: str, end: int, places: np.ndarray, values: Sequence[Any]) -> None:
        found = _to_numbers(values)
        if found is None:
            return
        if name not in self._values and len(self._values) >= MOST_NAMES:
            self.left_out.add(name)
            return
        self._grown(name, end)[places] = found

    def axes(self) -> dict[str, np.ndarray]:
        """The x axes: environment steps if they never decrease, iterations, seconds of training."""
        found: dict[str, np.ndarray] = {}
        if "env_steps" in self._values:
            steps = self["env_steps"]
            if not np.isnan(steps).any() and (np.diff(steps) >= 0).all():
                found["env_steps"] = steps
        if "iteration" in self._values:
            found["iteration"] = self["iteration"]
        parts = [np.nan_to_num(self[name]) for name in _PARTS_OF_SECONDS if name in self._values]
        if parts:
            found["training_seconds"] = np.cumsum(np.maximum(np.sum(parts, axis=0), 0))
        return found

    def _with_new_iteration(self, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        fresh = []
        for record in records:
            iteration = record.get("iteration")
            if type(iteration) is not int or not 0 <= iteration < LARGEST_ITERATION:
                self.without_iteration += 1
            elif iteration <= self._last:
                self.repeated += 1
            else:
                self._last = iteration
                fresh.append(record)
        return fresh

    def _grown(self, name: str, rows: int) -> np.ndarray:
        """The column, enlarged to at least `rows` rows; new rows are NaN."""
        column = self._values.get(name)
        have = 0 if column is None else len(column)
        if have < rows:
            grown = np.full(max(rows, 2 * have, 256), np.nan)
            if column is not None:
                grown[:have] = column
            self._values[name] = column = grown
        assert column is not None
        return column


def rows_per_bucket(rows: int, most_points: int) -> int:
    """The smallest power of two that gives at most `most_points` buckets; bucket edges stay fixed as rows are added."""
    size = 1
    while -(-rows // size) > max(1, most_points):
        size *= 2
    return size


def buckets(values: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Minimum, mean and maximum of every `size` rows [buckets], non-finite values ignored; NaN for empty buckets."""
    values = np.where(np.isfinite(values), values, np.nan)
    if size == 1 or not len(values):
        return {"mean": values}
    starts = np.arange(0, len(values), size)
    finite = ~np.isnan(values)
    counts = np.add.reduceat(finite, starts, dtype=np.int64)
    sums = np.add.reduceat(np.where(finite, values, 0.0), starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return {"mean": mean, "low": np.fmin.reduceat(values, starts), "high": np.fmax.reduceat(values, starts)}


def last_of_buckets(values: np.ndarray, size: int) -> np.ndarray:
    """The last value of every `size` rows [buckets]: the position of a bucket on an axis."""
    ends = np.minimum(np.arange(size, len(values) + size, size), len(values)) - 1
    found: np.ndarray = values[ends]
    return found


def rounded(values: Iterable[float], digits: int = 6) -> list[float | None]:
    """Values for JSON, rounded to few significant digits; None for NaN and infinity."""
    numbers = np.asarray(list(values) if not isinstance(values, np.ndarray) else values, dtype=np.float64)
    with np.errstate(all="ignore"):
        shift = digits - 1 - np.floor(np.log10(np.abs(numbers)))
        ordinary = np.abs(shift) < 280  # neither 0 nor near the limits of floats
        shift = np.where(ordinary, shift, 0)
        # Powers of ten are exact only as whole numbers: small values are multiplied by one, large ones divided.
        up, down = 10.0 ** np.maximum(shift, 0), 10.0 ** np.maximum(-shift, 0)
        short = np.round(numbers * up / down) * down / up
    kept = np.where(ordinary, short, numbers)
    return [value if -math.inf < value < math.inf else None for value in kept.tolist()]


def _to_numbers(values: Sequence[Any]) -> np.ndarray | None:
    """A column of floats; None for a column without numbers, such as a digest."""
    kinds = set(map(type, values))
    if not kinds <= _NUMBERS:
        values = [value if type(value) in _NUMBERS else None for value in values]
        if all(value is None for value in values):
            return None
    elif kinds == {type(None)}:
        return np.full(len(values), np.nan)
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:  # an integer too large for a float
        return np.array([_or_nan(value) for value in values])


def _or_nan(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, TypeError):
        return float("nan")
