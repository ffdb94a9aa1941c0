"""Entropy: gone too early, held too high, or a head that never moved."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import GUIDE, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.outcome import relative_gain
from batchwright.doctor.reference_ranges import tuned
from batchwright.doctor.run_history import Column, RunHistory
from batchwright.planning.defaults import ENTROPY_START

EARLY = 0.3
"""Share of the run before which a policy should still try things."""
COLLAPSED_SHARE = 0.15
COLLAPSED_NATS = 3.0
"""Per box dimension: e^-3 is a twentieth of the first spread."""
HIGH_BONUS = 0.1


def entropy_collapse(case: RunHistory) -> Finding | None:
    """A policy that became certain early, while its return then stood still."""
    entropy = case.column("entropy")
    finite = entropy[np.isfinite(entropy)]
    if len(finite) < 5 or case.share_done < 0.15 or case.facts.get("regime") == "replay":
        return None
    start = float(np.max(finite[: max(1, len(finite) // 20)]))
    boxes = _has_boxes(case)
    low = start - COLLAPSED_NATS * (case.facts.number("action_size") or 1.0) if boxes else COLLAPSED_SHARE * start
    if boxes and _starts_narrow(case):
        return _narrow_from_the_start(case, start)
    below = np.flatnonzero(finite < low)
    if len(below) == 0 or (not boxes and start < 0.05):
        return None
    when = case.share_done * float(below[0]) / len(finite)
    stayed = float(np.mean(finite[below[0] :] < low)) > 0.8
    if when > EARLY or not stayed:
        return None
    gained = relative_gain(case, float(below[0]) / len(finite))
    if gained >= 0.2:
        return None
    bonus = case.facts.number("entropy_start") or 0.0
    return Finding(
        "entropy-collapse",
        WARNING,
        0.85,
        f"entropy fell from {figure(start)} to {figure(float(np.median(finite[below[0] :])))} nats within "
        f"{when:.0%} of the run; the return has gained {gained:.0%} of its spread since.",
        "the policy became certain before it had tried enough",
        f"{GUIDE}: early collapse: raise entropy or slow the anneal",
        _more_entropy(case, bonus),
        {"entropy_start": start, "entropy_now": float(finite[-1]), "share_of_run": when, "entropy_bonus": bonus},
        began=case.iteration_at(int(np.flatnonzero(np.isfinite(entropy))[below[0]])),
    )


def _more_entropy(case: RunHistory, bonus: float) -> tuple[str, ...]:
    usual = ENTROPY_START[not _has_boxes(case)]
    raised = max(usual, 3 * bonus)
    return (
        f"{flag('entropy_start', 10 * raised)} {flag('entropy_end', 0.0)} {flag('entropy_anneal', 0.5)}",
        f"{flag('entropy_start', raised)} {flag('entropy_end', 0.0)} {flag('entropy_anneal', 0.5)}",
    )


def _starts_narrow(case: RunHistory) -> bool:
    start = case.facts.number("log_std_start")
    return start is not None and start <= -2.5


def _narrow_from_the_start(case: RunHistory, start: float) -> Finding:
    first = case.facts.number("log_std_start")
    return Finding(
        "entropy-collapse",
        WARNING,
        0.9,
        f"entropy is {figure(start)} nats from the start: the first log standard deviation is {figure(first)}.",
        "actions hardly vary, so nothing is tried",
        f"{GUIDE}: early collapse; Andrychowicz et al., 2021 on the first spread",
        (flag("log_std_start", tuned(case, "log_std_start") or -0.5),),
        {"entropy_start": start, "log_std_start": first},
        began=0,
    )


def entropy_bonus_too_high(case: RunHistory) -> Finding | None:
    """A bonus that outweighs the reward: the policy stays, or becomes, as random as it can be."""
    entropy = case.column("entropy")
    finite = entropy[np.isfinite(entropy)]
    bonus = case.typical("entropy_bonus", 0.0, 0.5)
    bonus = case.facts.number("entropy_start") if bonus is None else bonus
    if len(finite) < 5 or bonus is None or bonus < HIGH_BONUS / 2 or case.facts.get("regime") == "replay":
        return None
    start, late = float(finite[0]), float(np.median(finite[len(finite) // 2 :]))
    high = late >= start - 0.05 if _has_boxes(case) else late >= 0.9 * float(np.max(finite))
    if not high:
        return None
    sure = bonus >= 2 * HIGH_BONUS
    return Finding(
        "entropy-bonus-too-high",
        WARNING if sure else NOTE,
        0.95 if sure else 0.4,
        f"entropy began at {figure(start)} and is {figure(late)} nats in the second half, with a bonus of "
        f"{figure(bonus)}.",
        "the bonus pays more for being random than the task pays for being good",
        f"{GUIDE}: 0.01 discrete, 0.001 continuous, annealed to 0",
        (f"{flag('entropy_start', ENTROPY_START[not _has_boxes(case)])} {flag('entropy_end', 0.0)}",),
        {"entropy_start": start, "entropy_late": late, "entropy_bonus": bonus},
    )


def dead_head(case: RunHistory) -> Finding | None:
    """A head of the action that does not move while others do."""
    heads = case.names("kl/")
    if len(heads) < 2:
        return None
    moved = {name.removeprefix("kl/"): _quartile(case.while_learning(name)) for name in heads}
    most = max(moved.values())
    dead = [name for name, kl in moved.items() if kl <= 1e-3 * most]
    if most < 1e-5 or not dead:
        return None
    head = dead[0]
    return Finding(
        "dead-head",
        WARNING,
        0.95,
        f"head {head} has moved by {figure(moved[head])} nats per iteration, the liveliest by {figure(most)}.",
        "its actions change nothing in the environment, it is masked throughout, or its parameters get no gradient",
        "per-head KL; section 2 of the requirements",
        evidence={"head": head, "kl": moved[head], "largest_kl": most},
    )


def _quartile(values: Column) -> float:
    return float(np.quantile(values, 0.75)) if len(values) else 0.0


def _has_boxes(case: RunHistory) -> bool:
    discrete = case.facts.get("discrete")
    return case.has("action_clip_fraction") if discrete is None else not discrete
