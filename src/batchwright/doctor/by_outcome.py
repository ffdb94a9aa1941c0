"""Which findings are alarms, by what the return says of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from batchwright.doctor.finding import DANGER, NOTE, Finding
from batchwright.doctor.harm import HARMED, HEALTHY, OPEN, SHORT, has_settled, is_falling, is_slow, verdict
from batchwright.doctor.levers import LEVER_FINDINGS
from batchwright.doctor.run_history import RunHistory

WHATEVER_THE_RETURN = frozenset(
    {"nan-from-environment", "divergence", "first-ratio-not-one", "memory-near-limit", "dead-head"}
    | {"rrd-constant-returns", "implied-reweighting", "wandering-share", "evaluation-against-weights"}
    | {"dominating-component", "constant-observation", "q-overestimation"}
)
"""Findings that stay alarms in a run whose return is as good as that of its preset."""
CLEAR_HINT = 0.62
"""Confidence of a hint that is an alarm although the return has risen."""
SLOW_HINT = 0.55
"""The same of a number that makes learning slow where the return shows it."""
SLOW_CAUSES = frozenset(
    {"learning-rate-too-low", "gradient-clip-too-tight", "clip-range-too-small", "too-few-updates", "rollout-too-large"}
    | {"too-few-minibatches", "replay-ratio", "target-too-slow", "huber-limit-too-small", "warm-up-too-long"}
    | {"reward-rate-too-low", "reward-timesteps-too-few", "target-too-fast", "gamma-too-myopic", "gae-lambda-too-low"}
)
"""Findings that are alarms in a run whose return has risen barely, or late and rises still."""
HELD_BACK = frozenset({"entropy-coef-too-high", "unexplained-terminations"})
"""Findings that the record shows directly, and that hold a return down where it has settled too."""


def by_outcome(found: Sequence[Finding], history: RunHistory) -> list[Finding]:
    """Alarms that the return speaks for; all others become notes.

    A run that does as well as its preset, or has solved its task, needs no change. One that is harmed has all its
    findings. In between, an odd number is a note unless the return shows what it would cause.
    """
    if not any(finding.alarm for finding in found):
        return list(found)
    judged = verdict(history)
    if judged.state == HARMED:
        return list(found)
    unknown = judged.state == OPEN and judged.gained is None
    slow, moves = unknown and is_slow(history), unknown and not has_settled(history)
    falls = unknown and is_falling(history)

    def counts(one: Finding) -> bool:
        if one.name in WHATEVER_THE_RETURN and not one.hint:
            return True
        if slow and one.name in SLOW_CAUSES and one.confidence >= SLOW_HINT:
            return True
        if judged.state == HEALTHY or (one.hint and one.confidence < CLEAR_HINT):
            return False
        if judged.state == SHORT:
            return True
        if one.name in HELD_BACK:
            return unknown and one.seen
        if one.name in LEVER_FINDINGS:
            return not one.hint and (falls or (moves and one.severity == DANGER))
        return not one.hint or (one.seen and moves)

    return [one if counts(one) else replace(one, severity=NOTE) for one in found]
