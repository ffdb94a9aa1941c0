"""Which findings are alarms, by what the return says of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from batchwright.doctor.finding import DANGER, NOTE, Finding
from batchwright.doctor.harm import (
    HARMED,
    HEALTHY,
    OPEN,
    SHORT,
    UNLUCKY,
    has_settled,
    is_falling,
    is_slow,
    verdict,
)
from batchwright.doctor.levers import LEVER_FINDINGS
from batchwright.doctor.run_history import RunHistory

WHATEVER_THE_RETURN = frozenset(
    {"nan-from-environment", "divergence", "first-ratio-not-one", "memory-near-limit", "dead-head"}
    | {"rrd-constant-returns", "implied-reweighting", "wandering-share", "evaluation-against-weights"}
    | {"dominating-component", "constant-observation", "q-overestimation"}
)
"""Findings that stay alarms in a run whose return is as good as that of its preset."""
CLEARLY_LOW = 0.7
"""Confidence in a learning rate that is too low where KL shows it and the return still moves."""
CLEAR_HINT = 0.62
"""Confidence of a hint that is an alarm although the return has risen."""
SLOW_HINT = 0.55
"""The same of a number that makes learning slow where the return shows it."""
SLOW_LEAST = {"gamma-too-myopic": 0.85, "target-too-fast": 0.85}
"""Of those that seldom matter unless they are far off."""
SLOW_CAUSES = frozenset(
    {"learning-rate-too-low", "gradient-clip-too-tight", "clip-range-too-small", "too-few-updates", "rollout-too-large"}
    | {"too-few-minibatches", "replay-ratio", "target-too-slow", "huber-limit-too-small", "warm-up-too-long"}
    | {"reward-rate-too-low", "reward-timesteps-too-few", "target-too-fast", "gamma-too-myopic", "constant-observation"}
)
"""Findings that are alarms in a run whose return has risen barely, or late and rises still."""
SLOW_IF_SEEN = frozenset({"gamma-too-long"})
"""The same where the record shows their consequence."""
HELD_BACK = {
    "entropy-coef-too-high": 0.62,
    "unexplained-terminations": 0.0,
    "repeated-observations": 0.9,
    "reward-scale": 0.85,
}
"""Findings that hold a return down where it has settled too, with the least confidence, where the record shows them."""
FEW_ITERATIONS = 10
"""A run with fewer has no course: a rollout that long is an alarm by itself."""
TOO_LONG = 0.85
"""Confidence in that."""


def by_outcome(found: Sequence[Finding], history: RunHistory) -> list[Finding]:
    """Alarms that the return speaks for; all others become notes.

    A run that does as well as others of its kind, or has solved its task, needs no change. One that is harmed has all
    its findings. In between, an odd number is a note unless the return shows what it would cause.
    """
    if not any(finding.alarm for finding in found):
        return list(found)
    judged = verdict(history)
    if judged.state == HARMED:
        return list(found)
    course = Course.of(history) if judged.state == OPEN and judged.gained is None else None

    def counts(one: Finding) -> bool:
        if one.name in WHATEVER_THE_RETURN and not one.hint:
            return True
        if judged.state == HEALTHY:
            return False
        if course is not None:
            return course.shows(one)
        if is_held_back(one):
            return True
        steady = history.facts.known_curve is not None and history.facts.get("algo") not in UNLUCKY
        return (judged.state == SHORT or steady) and (not one.hint or one.confidence >= CLEAR_HINT)

    return [one if counts(one) else replace(one, severity=NOTE) for one in found]


def is_held_back(one: Finding) -> bool:
    """Whether a finding holds a return down that may have settled."""
    return one.name in HELD_BACK and one.seen and one.confidence >= HELD_BACK[one.name]


@dataclass(frozen=True)
class Course:
    """How the return of a run moves of which nobody knows what it could reach."""

    slow: bool
    moves: bool
    falls: bool
    short: bool

    @classmethod
    def of(cls, history: RunHistory) -> Course:
        short = len(history.returns()) < FEW_ITERATIONS
        return cls(is_slow(history), not has_settled(history), is_falling(history), short)

    def shows(self, one: Finding) -> bool:
        """Whether the return has the course that a finding would give it."""
        if is_held_back(one) or self._is_slowed_by(one):
            return True
        if one.hint and one.confidence < CLEAR_HINT:
            return False
        if "epsilon_end" in one.evidence:
            return True  # random actions to the end, which the return includes
        if one.name in LEVER_FINDINGS:
            sure = one.severity == DANGER or (one.name == "learning-rate-too-low" and one.confidence >= CLEARLY_LOW)
            return not one.hint and (self.falls or (self.moves and sure))
        return not one.hint or (one.seen and self.moves)

    def _is_slowed_by(self, one: Finding) -> bool:
        """Whether a finding makes learning slow in a run that is, or leaves so few iterations that nothing shows."""
        slows = one.name in SLOW_CAUSES or (one.seen and one.name in SLOW_IF_SEEN)
        too_long = self.short and one.name == "rollout-too-large" and one.confidence >= TOO_LONG
        return too_long or (self.slow and slows and one.confidence >= SLOW_LEAST.get(one.name, SLOW_HINT))
