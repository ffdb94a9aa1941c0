"""The gradient noise scale of a run: from how many transitions on a gradient holds more signal than noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchwright.doctor.finding import figure
from batchwright.doctor.run_history import Column, RunHistory

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

    As measured between environments; of the policy, where a run has too few of these, between minibatches. That of
    the values is unknown then: transitions of one rollout err together, and its minibatches are 5 to 12 times off.
    None, unknown, also where the signal is within its error of 0.
    """
    signal, noise = _measured(history, role, "_by_env", begin, end)
    if len(signal) < LEAST_RECORDS and role == "policy":
        signal, noise = _measured(history, role, "", begin, end)
    if len(signal) < LEAST_RECORDS:
        return None
    means = np.array([block.mean() for block in np.array_split(signal, min(BLOCKS, len(signal)))])
    mean, error = float(signal.mean()), STANDARD_ERRORS * float(means.std(ddof=1)) / len(means) ** 0.5
    variance = float(noise.mean())
    if mean <= error or variance <= 0.0:
        return None
    return NoiseScale(variance / mean, variance / (mean + error), variance / (mean - error))


def _measured(history: RunHistory, role: str, way: str, begin: float, end: float) -> tuple[Column, Column]:
    """Signal and noise of the iterations of a part of the run that have them."""
    signal, noise = (history.column(f"{role}_gradient_{name}{way}") for name in ("signal", "noise"))
    part = slice(int(begin * len(signal)), max(1, int(end * len(signal))))
    known = np.isfinite(signal[part]) & np.isfinite(noise[part]) & (noise[part] != 0.0)
    return signal[part][known], noise[part][known]
