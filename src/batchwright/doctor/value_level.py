"""The level of Q values beside what recent returns are worth at the discount of the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchwright.doctor.run_history import RunHistory

LATE = 0.7
"""Part of the record from which on values are compared."""
BEHIND, BEYOND = 0.35, 2.5
"""Ratios to the worth of returns that healthy runs do not have: theirs were 0.6 to 1.3."""


@dataclass(frozen=True)
class ValueLevel:
    """Q values and their expected level, which takes rewards to be spread evenly over an episode."""

    q: float
    expected: float
    reward_per_step: float

    @property
    def ratio(self) -> float:
        """1 where values are what returns are worth, 0 where nothing has been learned of them."""
        return self.q / self.expected if self.expected else 1.0


def value_level(history: RunHistory) -> ValueLevel | None:
    """The level of late values; None where there are no Q values or no returns, or rewards are learned ones."""
    if history.facts.get("redistribute"):
        return None
    q, late = history.typical("q_mean", LATE), history.typical("episode_return", LATE)
    length = history.typical("episode_length", LATE)
    if q is None or late is None or not length or length <= 0:
        return None
    gamma = min(history.facts.number("gamma") or 0.99, 0.9999)
    horizon = 1 / (1 - gamma)
    reward = late / length
    to_the_end = horizon * (1 - (1 - gamma**length) * horizon / length)
    known = history.typical("terminated_share", 0.5)
    terminated = float(history.episode_steps != length) if known is None else known
    worth = terminated * to_the_end + (1 - terminated) * horizon
    temperature, entropy = history.typical("temperature", LATE), history.typical("entropy", LATE)
    bonus = 0.0 if temperature is None or entropy is None else temperature * entropy
    return ValueLevel(q, (reward + bonus) * worth, reward)


def per_step_reward(history: RunHistory) -> float | None:
    """The typical size of a reward, by returns and lengths of the first half; None without episodes."""
    returns, length = history.column("episode_return"), history.column("episode_length")
    half = max(4, len(returns) // 2)
    sizes = np.abs(returns[:half]) / np.where(length[:half] > 0, length[:half], np.nan)
    sizes = sizes[np.isfinite(sizes)]
    return float(np.median(sizes)) if len(sizes) else None
