"""Findings about entropy: an early collapse, a coefficient that is too high, an action head that never changes."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import (
    LEVERS,
    MEASURED,
    NOTE,
    ON_POLICY_STUDY,
    PPO_PAPER,
    WARNING,
    Finding,
    figure,
    flag,
)
from batchwright.doctor.outcome_findings import relative_gain
from batchwright.doctor.reference_ranges import tuned
from batchwright.doctor.run_history import Column, RunHistory
from batchwright.planning.defaults import ENTROPY_START

EARLY = 0.3
"""Share of the run in which a policy should still explore."""
COLLAPSED_SHARE = 0.15
COLLAPSED_NATS = 3.0
"""Per continuous dimension: the standard deviation has shrunk to e^-3, a twentieth of its start."""
HIGH_COEF, SURE_COEF = 0.1, {False: 0.25, True: 0.5}
"""A bonus that may be too high; one that is, for choices and for continuous actions, which bounds cut short."""
HELD_SHARE, HELD_STATED = 0.75, 10.0
"""Share of its highest at which a bonus holds the entropy of choices, where the user stated so many times the usual."""


def entropy_collapse(history: RunHistory) -> Finding | None:
    """A policy that became nearly deterministic early and whose return has hardly risen since."""
    entropy = history.column("entropy")
    finite = entropy[np.isfinite(entropy)]
    if len(finite) < 5 or history.share_done < 0.15 or history.facts.get("regime") == "replay":
        return None
    start = float(np.max(finite[: max(1, len(finite) // 20)]))
    continuous = _is_continuous(history)
    low = (
        start - COLLAPSED_NATS * (history.facts.number("action_size") or 1.0) if continuous else COLLAPSED_SHARE * start
    )
    if continuous and _starts_narrow(history):
        return _narrow_from_the_start(history, start)
    below = np.flatnonzero(finite < low)
    if len(below) == 0 or (not continuous and start < 0.05):
        return None
    when = history.share_done * float(below[0]) / len(finite)
    stayed = float(np.mean(finite[below[0] :] < low)) > 0.8
    if when > EARLY or not stayed:
        return None
    gained = relative_gain(history, float(below[0]) / len(finite))
    if gained >= 0.2:
        return None
    coef = history.facts.number("entropy_start") or 0.0
    return Finding(
        "entropy-collapse",
        WARNING,
        0.85,
        f"entropy fell from {figure(start)} to {figure(float(np.median(finite[below[0] :])))} nats within "
        f"{when:.0%} of the run; the return has gained {gained:.0%} of its range since.",
        "the policy became nearly deterministic before it had explored enough",
        f"{LEVERS}: entropy_start",
        _more_entropy(history, coef),
        {"entropy_start": start, "entropy_now": float(finite[-1]), "share_of_run": when, "entropy_coef": coef},
        began=history.iteration_at(int(np.flatnonzero(np.isfinite(entropy))[below[0]])),
        hint=True,
        seen=True,
    )


def _more_entropy(history: RunHistory, coef: float) -> tuple[str, ...]:
    default = ENTROPY_START[not _is_continuous(history)]
    raised = max(default, 3 * coef)
    return (
        f"{flag('entropy_start', 10 * raised)} {flag('entropy_end', 0.0)} {flag('entropy_anneal', 0.5)}",
        f"{flag('entropy_start', raised)} {flag('entropy_end', 0.0)} {flag('entropy_anneal', 0.5)}",
    )


def _starts_narrow(history: RunHistory) -> bool:
    start = history.facts.number("log_std_start")
    return start is not None and start <= -2.5


def _narrow_from_the_start(history: RunHistory, start: float) -> Finding:
    first = history.facts.number("log_std_start")
    return Finding(
        "entropy-collapse",
        WARNING,
        0.9,
        f"entropy is {figure(start)} nats from the start: the initial log standard deviation is {figure(first)}.",
        "actions hardly vary, so the policy does not explore",
        f"{ON_POLICY_STUDY}: initial standard deviation",
        (flag("log_std_start", tuned(history, "log_std_start") or -0.5),),
        {"entropy_start": start, "log_std_start": first},
        began=0,
        hint=True,
    )


def entropy_coef_too_high(history: RunHistory) -> Finding | None:
    """An entropy coefficient that outweighs the reward: the policy stays as random as it can be."""
    entropy = history.column("entropy")
    finite = entropy[np.isfinite(entropy)]
    coef = history.typical("entropy_coef", 0.0, 0.5)
    coef = history.facts.number("entropy_start") if coef is None else coef
    if len(finite) < 5 or coef is None or coef < HIGH_COEF / 2 or history.facts.get("regime") == "replay":
        return None
    start, late = float(finite[0]), float(np.median(finite[len(finite) // 2 :]))
    continuous = _is_continuous(history)
    if continuous:
        high = late >= start - 0.05
    else:
        stated = "entropy_start" in history.facts.pinned and coef >= HELD_STATED * ENTROPY_START[True]
        high = late >= (HELD_SHARE if stated else 0.9) * float(np.max(finite))
    if not high:
        return None
    sure = coef > SURE_COEF[continuous]
    return Finding(
        "entropy-coef-too-high",
        WARNING if sure else NOTE,
        0.95 if sure else 0.4,
        f"entropy began at {figure(start)} nats and is {figure(late)} in the second half; the entropy coefficient is "
        f"{figure(coef)}.",
        "the entropy bonus outweighs the reward: a random policy scores best",
        f"{PPO_PAPER}: 0.01 on Atari; {MEASURED}: entropy bonus 1",
        (f"{flag('entropy_start', ENTROPY_START[not _is_continuous(history)])} {flag('entropy_end', 0.0)}",),
        {"entropy_start": start, "entropy_late": late, "entropy_coef": coef},
        hint=True,
        seen=True,
    )


def dead_head(history: RunHistory) -> Finding | None:
    """An action head whose distribution does not change while those of others do."""
    heads = history.names("kl/")
    if len(heads) < 2:
        return None
    moved = {name.removeprefix("kl/"): _quartile(history.while_learning(name)) for name in heads}
    most = max(moved.values())
    dead = [name for name, kl in moved.items() if kl <= 1e-3 * most]
    if most < 1e-5 or not dead:
        return None
    head = dead[0]
    return Finding(
        "dead-head",
        WARNING,
        0.95,
        f"action head {head} changes by {figure(moved[head])} nats of KL per iteration, the most active head by "
        f"{figure(most)}.",
        "its actions change nothing in the environment, it is masked throughout, or its parameters get no gradient",
        f"docs/training/hybrid-actions.md#metrics; {MEASURED}: frozen head",
        evidence={"head": head, "kl": moved[head], "largest_kl": most},
    )


def _quartile(values: Column) -> float:
    return float(np.quantile(values, 0.75)) if len(values) else 0.0


def _is_continuous(history: RunHistory) -> bool:
    discrete = history.facts.get("discrete")
    return history.has("action_clip_fraction") if discrete is None else not discrete
