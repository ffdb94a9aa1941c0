"""The gradient noise scale of a run: from how many transitions on a gradient holds more signal than noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchwright.doctor.finding import figure
from batchwright.doctor.run_history import RunHistory

LEAST_RECORDS = 8
BLOCKS = 10
"""Parts of the record whose means show the spread: neighbouring iterations are alike."""
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class NoiseScale:
    """Transitions of a gradient at which noise and signal are equal, within two standard errors of the signal."""

    transitions: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{figure(round(self.transitions))} transitions ({figure(round(self.low))} to {figure(round(self.high))})"
        )


def noise_scale(history: RunHistory, role: str = "policy", begin: float = 0.0, end: float = 1.0) -> NoiseScale | None:
    """Noise over signal of the gradient of `policy` or `value`, both averaged over a part of the run first.

    None, unknown, where the record has too little of them, or where the signal is within its error of 0.
    """
    signal, noise = (history.column(f"{role}_gradient_{name}") for name in ("signal", "noise"))
    part = slice(int(begin * len(signal)), max(1, int(end * len(signal))))
    known = np.isfinite(signal[part]) & np.isfinite(noise[part]) & (noise[part] != 0.0)
    signal, noise = signal[part][known], noise[part][known]
    if len(signal) < LEAST_RECORDS:
        return None
    means = np.array([block.mean() for block in np.array_split(signal, min(BLOCKS, len(signal)))])
    mean, error = float(signal.mean()), STANDARD_ERRORS * float(means.std(ddof=1)) / len(means) ** 0.5
    variance = float(noise.mean())
    if mean <= error or variance <= 0.0:
        return None
    return NoiseScale(variance / mean, variance / (mean + error), variance / (mean - error))
