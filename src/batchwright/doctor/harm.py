"""Whether a record shows that training goes wrong, whatever the cause."""

from __future__ import annotations

from batchwright.doctor.outcome_findings import smoothed, spread_within, stuck
from batchwright.doctor.policy_steps import hardly_moves, moved_too_far
from batchwright.doctor.run_history import RunHistory

MOVED_FAR = 0.5
WORSE_THAN_A_CONSTANT = -0.05
FALLEN = 0.5
"""Share of the range of returns."""


def shows_harm(history: RunHistory) -> bool:
    """Whether the return stands still or has fallen, the policy leaps or hardly moves, or numbers were not finite."""
    if any(event.get("kind") in ("non-finite", "diverged") for event in history.events):
        return True
    explained = history.typical("explained_variance", 0.3)
    poor_values = explained is not None and explained < WORSE_THAN_A_CONSTANT
    leaps = moved_too_far(history) >= MOVED_FAR
    return leaps or hardly_moves(history) or poor_values or stuck(history) is not None or has_fallen(history)


def has_fallen(history: RunHistory) -> bool:
    """Whether the return has lost half of its range since its best, and more than its noise."""
    curve = smoothed(history)
    if len(curve) < 6:
        return False
    lost = float(curve.max() - curve[-2:].mean())
    return lost > FALLEN * float(curve.max() - curve.min()) and lost > spread_within(history)
