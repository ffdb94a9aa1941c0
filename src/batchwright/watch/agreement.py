"""Agreement of predictions with true values: correlation, rank correlation, error relative to a constant."""

from __future__ import annotations

from typing import Any

import numpy as np


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values get the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[group], np.float64)


def pearson(first: np.ndarray, second: np.ndarray) -> float | None:
    """The correlation; None for fewer than two values, or where one side does not vary."""
    x, y = (np.asarray(side, np.float64) - np.mean(side, dtype=np.float64) for side in (first, second))
    scale = np.sqrt((x @ x) * (y @ y)) if len(x) > 1 else 0.0
    return float(x @ y / scale) if scale > 0 else None


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """The rank correlation; None where `pearson` is."""
    return pearson(ranks(np.asarray(first)), ranks(np.asarray(second)))


def agreement(predicted: np.ndarray, true: np.ndarray, constant: float) -> dict[str, Any]:
    """Correlations, and root mean square errors of the predictions and of always predicting `constant`."""
    predicted, true = np.asarray(predicted, np.float64), np.asarray(true, np.float64)
    error, constant_error = (
        float(np.sqrt(np.mean(np.square(guess - true)))) for guess in (predicted, np.float64(constant))
    )
    return {
        "episodes": len(true),
        "correlation": pearson(predicted, true),
        "spearman": spearman(predicted, true),
        "error": error,
        "constant_error": constant_error,
        "error_share": error / constant_error if constant_error > 0 else None,
    }
