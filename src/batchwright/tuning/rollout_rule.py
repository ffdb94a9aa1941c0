"""What a learning curve says of the rollout size: returns swing widely, double it; learning crawls, halve it.

Both are tried; the rule takes one of two that score alike.
A larger rollout averages over more transitions and updates less often; a smaller one the reverse. What a learning curve
shows is read from the means of its tenths, which do not depend on how many iterations a unit has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SWINGS, CRAWLS, STEADY = "swings", "crawls", "steady"
TENTHS = 10
WIDE_FALL = 0.5
"""A fall of so much of the curve's whole range is a wide swing."""
CLEAR = 3.0
"""Standard errors from which on a difference of two tenths is more than noise."""
LATE_SHARE = 1 / 3
"""A curve that gains so much of its whole gain after its middle has not levelled off."""


def tenths_of(points: Sequence[tuple[int, float]], steps: int) -> tuple[list[float], float]:
    """Means of a curve of (steps, value) over tenths of `steps`, and their standard error.

    A tenth without a point keeps the value before it; before the first point the first value holds.
    """
    groups: list[list[float]] = [[] for _ in range(TENTHS)]
    for at, value in points:
        groups[min(TENTHS - 1, max(0, math.ceil(at * TENTHS / steps) - 1))].append(value)
    last = next((group[0] for group in groups if group), 0.0)
    means = [last := float(np.mean(group)) if group else last for group in groups]
    errors = [float(np.var(group, ddof=1)) / len(group) for group in groups if len(group) > 1]
    return means, math.sqrt(sum(errors) / len(errors)) if errors else 0.0


def curve_shape(units: Sequence[Mapping[str, Any]]) -> str | None:
    """`swings`, `crawls` or `steady`, from the ledger lines of a setting's units; None where one has no curve."""
    if not units or any(not unit.get("tenths") for unit in units):
        return None
    curve = np.mean([unit["tenths"] for unit in units], axis=0)
    error = math.sqrt(sum(unit["noise"] ** 2 for unit in units)) / len(units)
    fall = float(np.max(np.maximum.accumulate(curve) - curve))
    if fall > WIDE_FALL * float(np.ptp(curve)) and fall > CLEAR * error:
        return SWINGS
    third = TENTHS // 3
    gain = float(curve[-third:].mean() - curve[:third].mean())
    late = float(curve[-third:].mean() - curve[third:-third].mean())
    return CRAWLS if gain <= CLEAR * error or late >= LATE_SHARE * gain else STEADY
