"""Two-tier normalisation of reward components: each to its own scale, then all to one another."""

# K components, B rows.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SMALLEST_STD = 1e-8
BALANCE_RANGE = (0.1, 10.0)
EXACT = 1e-4
"""Residual, as a share of a component's spread, below which it is taken for a sum of others."""

Floats = NDArray[np.float64]


def tier_one(
    method: str, reward_mean: Floats, reward_std: Floats, return_std: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """(shift [K], scale [K]): the normalised reward is (reward - shift) / scale.

    `scale` and `adaptive` divide by the spread of the discounted return and move nothing: a good episode stays good.
    `z-score` and `min-max` centre each step's reward, which pays or charges every step of a longer episode.
    """
    nothing = np.zeros_like(reward_mean)
    if method in ("scale", "adaptive"):
        return nothing, _safe(return_std)
    if method == "z-score":
        return np.array(reward_mean), _safe(reward_std)
    if method == "min-max":
        return np.array(low), _safe(high - low)
    return nothing, np.ones_like(reward_mean)


def tier_two(output_std: Floats, varies: NDArray[np.bool_]) -> Floats:
    """Factors [K] median(std) / std of what tier one gave, clipped to [0.1, 10]; 1 where nothing varies."""
    known = varies & (output_std > SMALLEST_STD)
    if not known.any():
        return np.ones_like(output_std)
    middle = np.median(output_std[known])
    return np.where(known, np.clip(middle / _safe(output_std), *BALANCE_RANGE), 1.0)


def varying(low: Floats, high: Floats, terminates: bool) -> NDArray[np.bool_]:
    """Components that can teach anything [K].

    One that never varies pays the same for everything that can be done, unless it is not 0 and episodes can be ended:
    then it pays for staying alive.
    """
    return np.asarray((high > low) | ((high != 0) & terminates), np.bool_)


def nested(reward_BK: NDArray[np.float32]) -> tuple[int, dict[int, float]] | None:
    """(a component, {another: coefficient}) where one is a weighted sum of others in every row, or None.

    Of all such relations the one that names the fewest others is given, its sum first.
    """
    rows = np.asarray(reward_BK, np.float64)
    centred = rows - rows.mean(0)
    spread = np.sqrt(np.square(centred).mean(0))
    moving = [k for k in range(rows.shape[1]) if spread[k] > SMALLEST_STD]
    best: tuple[int, dict[int, float]] | None = None
    for k in sorted(moving, key=lambda k: -spread[k]):
        others = [j for j in moving if j != k]
        if not others or len(rows) <= 2 * len(others):
            continue
        scaled = centred[:, others] / spread[others]
        found = np.linalg.lstsq(scaled, centred[:, k] / spread[k], rcond=1e-10)[0]
        residual = centred[:, k] / spread[k] - scaled @ found
        if np.sqrt(np.square(residual).mean()) > EXACT:
            continue
        parts = {j: float(c * spread[k] / spread[j]) for j, c in zip(others, found, strict=True) if abs(c) > 1e-3}
        if best is None or len(parts) < len(best[1]):
            best = k, parts
    return best


def _safe(std: Floats) -> Floats:
    return np.where(std > SMALLEST_STD, std, 1.0)
