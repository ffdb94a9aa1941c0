"""Whether a record shows that training goes wrong, whatever the cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchwright.doctor.finding import MEASURED, NOTE, WARNING, Finding, figure
from batchwright.doctor.known_returns import return_scale
from batchwright.doctor.outcome_findings import smoothed, spread_within, stuck
from batchwright.doctor.reference_plan import KnownCurve
from batchwright.doctor.run_history import Column, RunHistory

SETTLED = 0.1
"""Share of the range of returns."""
FALLEN, FALLING = 0.5, 0.25
"""Shares of the range of returns: lost beyond doubt, and lost where a finding says why."""
SATURATED, ENDED_EARLY = 0.02, 0.9
"""Share of the range of returns within which the last of them lie, near the best; share of the time limit before which
the first episodes ended."""
RISING, SINCE = 0.15, 0.6
"""Share of the range of returns that a slow run gains in the last part of its record, and where that part begins."""
LATE = 0.4
"""Part of the record before which a run that is not slow has half of its gain."""
EXPECTED_GAIN, FULL_AFTER = 0.7, 0.4
"""Share of a preset's gain that a run should have, and the share of the preset's steps from which on."""
LEAST_STEPS_SHARE = 0.15
BARELY = 1.5
"""Standard deviations of the first returns."""
CURVE_HEALTHY, CURVE_HARMED = 0.8, 0.7
"""Shares of the gain of the lowest of three seeds after as many steps."""
SOONER = 0.7
"""Of the steps, what counts in a run whose learning rate falls within fewer steps."""
UNLUCKY = {"dqn": 0.6, "a2c": 0.6, "reinforce": 0.6}
"""Share of the expected gain that unlucky seeds have; presets of other algorithms are steadier."""
UNLUCKY_CURVE = {"dqn": 0.6}
"""The same beside the lowest of three seeds, which unlucky ones of DQN may be far below."""
FAR_BELOW = 0.35
"""Share of the gain of the preset that a run uses."""
COMPARABLE, MOST_GAIN = 0.1, 1.5
"""Returns below this share of a preset's in another environment have another unit, and so have gains above this one."""
SOLVED_SHARE, FAR_FROM_SOLVED = 0.8, 0.3
"""Shares of the way from random actions to a solved task."""
HEALTHY, OPEN, SHORT, HARMED = "healthy", "open", "short", "harmed"


@dataclass(frozen=True)
class Verdict:
    """What the return says of a run: `healthy`, `harmed`, or `open` where it has risen and nothing is known to beat.

    `short` where it has risen and is still far from a solved task: a shorter run may be no worse.
    """

    state: str
    message: str = ""
    """The evidence in one sentence; empty where there is none."""
    gained: float | None = None
    """The share of the preset's gain in return; None where there is no preset to compare with."""


def verdict(history: RunHistory) -> Verdict:
    """The return against what is known of the task, its own noise and its own best."""
    if any(event.get("kind") in ("non-finite", "diverged") for event in history.events):
        return Verdict(HARMED, "numbers were not finite")
    known = against_others(history) or against_solved(history)
    if known is not None and known.state in (HEALTHY, HARMED):
        return known
    if stuck(history) is not None:
        return Verdict(HARMED, "the return has not risen by more than its noise")
    if (known is None or known.gained is None) and has_fallen(history):
        return Verdict(HARMED, "the return has lost half of its range")
    if known is None and is_saturated(history):
        return Verdict(HEALTHY, "all of the last episodes survive with the best return so far")
    return known or Verdict(OPEN)


def against_others(history: RunHistory) -> Verdict | None:
    """Beside healthy runs of its kind after as many steps; with a preset the worse of that and of its last result."""
    beside_curve = against_curve(history)
    if beside_curve is not None and not history.facts.from_preset:
        return beside_curve
    found = [one for one in (beside_curve, against_preset(history)) if one is not None]
    return min(found, key=lambda one: (HARMED, OPEN, HEALTHY).index(one.state), default=None)


def against_curve(history: RunHistory) -> Verdict | None:
    """The gain in return beside that of healthy runs of the same kind after as many steps, where they were measured."""
    curve, returns, steps = history.facts.known_curve, history.returns(), history.highest("env_steps")
    if curve is None or steps is None or len(returns) < 4:
        return None
    lowest = curve.lowest_after(steps * (SOONER if _anneals_sooner(history, curve) else 1.0))
    if lowest is None:
        return None
    first, last = _ends(returns)
    if lowest <= first:
        return None  # the known runs had not begun to learn by then
    gained = (last - first) / (lowest - first)
    harmed = CURVE_HARMED * UNLUCKY_CURVE.get(history.facts.get("algo"), 1.0)
    return Verdict(
        HEALTHY if gained >= CURVE_HEALTHY else HARMED if gained < harmed else OPEN,
        f"the return has risen from {figure(first)} to {figure(last)} in {figure(steps)} steps; {curve.source} had at "
        f"least {figure(lowest)} after as many",
        gained,
    )


def _anneals_sooner(history: RunHistory, curve: KnownCurve) -> bool:
    """Whether the learning rate falls within fewer steps than that of the known runs."""
    total, schedule = history.facts.number("total_steps"), history.facts.get("learning_rate_schedule")
    return total is not None and total < 0.9 * curve.steps[-1] and schedule not in (None, "constant")


def _ends(returns: Column) -> tuple[float, float]:
    """The lowest return of the first tenth of the record, and the mean of the last."""
    count = max(1, len(returns) // 10)
    return float(returns[:count].min()), float(returns[-count:].mean())


def against_solved(history: RunHistory) -> Verdict | None:
    """The return beside those of random actions and of a solved task, where both are known."""
    env, returns = history.facts.get("env"), history.returns()
    scale = return_scale(env) if isinstance(env, str) else None
    if scale is None or len(returns) < 2:
        return None
    last = float(returns[-max(1, len(returns) // 10) :].mean())
    share = scale.share(last)
    message = f"the return is {figure(last)}; random actions have {figure(scale.random)}, a solved task has "
    message += figure(scale.solved)
    if share >= SOLVED_SHARE:
        return Verdict(HEALTHY, message)
    return Verdict(SHORT, message) if share < FAR_FROM_SOLVED and history.share_done >= 0.5 else None


def against_preset(history: RunHistory) -> Verdict | None:
    """The gain in return beside that of the preset tuned for this environment; None where there is none to compare."""
    known, returns = history.facts.known_result, history.returns()
    steps = history.highest("env_steps")
    if known is None or steps is None or len(returns) < 4 or steps < LEAST_STEPS_SHARE * known.steps:
        return None
    first, last = _ends(returns)
    if known.reached <= first or (not known.same_env and abs(last) < COMPARABLE * abs(known.reached)):
        return None
    gained = (last - first) / (known.reached - first)
    expected = EXPECTED_GAIN * min(1.0, steps / known.steps / FULL_AFTER)
    if gained >= expected and not known.same_env and not SOLVED_SHARE <= gained <= MOST_GAIN:
        return None  # the rewards of another environment may have another scale
    least = expected * UNLUCKY.get(history.facts.get("algo"), 1.0)
    return Verdict(
        HEALTHY if gained >= expected else OPEN if gained >= least else HARMED,
        f"the return has risen from {figure(first)} to {figure(last)} in {figure(steps)} steps; preset {known.preset} "
        f"reached {figure(known.reached)} in {known.steps}",
        gained,
    )


def below_preset(history: RunHistory) -> Finding | None:
    """A return far below what runs with the same preset or with the defaults reached: an alarm where this is one."""
    found, facts = verdict(history), history.facts
    if found.state != HARMED or found.gained is None:
        return None
    preset = None if facts.known_result is None else facts.known_result.preset
    uses_it = bool(facts.from_preset) or facts.known_curve is not None
    return Finding(
        "below-preset",
        WARNING if uses_it and found.gained < FAR_BELOW else NOTE,
        0.3,
        f"{found.message}: {found.gained:.0%} of its gain.",
        "something keeps this run from what others of its kind reach"
        if uses_it
        else "the numbers of this run suit the task less than those of the preset",
        f"docs/benchmarks.md#learning: {preset}" if preset else MEASURED,
        () if preset is None or facts.from_preset else (f"--preset {preset}",),
        {"gained": found.gained, "preset": preset},
    )


def has_settled(history: RunHistory) -> bool:
    """Whether the return neither rises nor falls any more: it has gone as far as this run takes it, and stayed."""
    curve = smoothed(history)
    if len(curve) < 6:
        return False
    span = float(curve.max() - curve.min()) or 1.0
    middle, late = float(curve[len(curve) // 2 :][:3].mean()), float(curve[-3:].mean())
    return abs(late - middle) < SETTLED * span and float(curve.max()) - late < SETTLED * span


def is_slow(history: RunHistory) -> bool:
    """Whether the return has risen barely, or late and rises still.

    Late is counted from the end of random actions of replay training.
    """
    warm_up, total = history.facts.number("warmup_steps"), history.facts.number("total_steps")
    curve = smoothed(history, min(0.9, warm_up / total) if warm_up and total else 0.0)
    if len(curve) < 6 or history.share_done < 0.5 or is_saturated(history):
        return False
    span = float(curve.max() - curve.min()) or 1.0
    first, last, at = float(curve[:2].mean()), float(curve[-2:].mean()), int(SINCE * len(curve))
    if last - first < BARELY * spread_at_first(history) and not has_settled(history):
        return True
    half = int(np.argmax(curve >= (first + last) / 2)) / len(curve)
    return half >= LATE and last - float(curve[at : at + 3].mean()) > RISING * span


def is_saturated(history: RunHistory) -> bool:
    """Whether all of the last episodes survive to the time limit, as the first did not, with the best return so far."""
    returns, limit = history.returns(), history.episode_steps
    at_first, at_last = history.typical("episode_length", 0.0, 0.2), history.typical("episode_length", 0.95)
    if not len(returns) or not limit or not at_first or not at_last:
        return False
    last = returns[-max(3, len(returns) // 20) :]
    span = float(returns.max() - returns.min())
    within = history.typical("episode_return_std", 0.95) or 0.0
    best = float(returns.max() - last.min()) < SATURATED * span and within < SATURATED * span
    return span > 0 and best and at_first <= ENDED_EARLY * limit <= at_last


def spread_at_first(history: RunHistory) -> float:
    """The standard deviation of returns in the first fifth of the record, within iterations or between them."""
    returns = history.returns()
    between = float(returns[: max(3, len(returns) // 5)].std())
    return max(between, history.typical("episode_return_std", 0.0, 0.2) or 0.0)


def has_fallen(history: RunHistory) -> bool:
    """Whether the return has lost half of its range since its best, and more than its noise."""
    return _lost(history) > FALLEN


def is_falling(history: RunHistory) -> bool:
    """The same of a quarter of its range."""
    return _lost(history) > FALLING


def _lost(history: RunHistory) -> float:
    """The share of its range that the return has lost since its best; 0 where that is no more than its noise."""
    curve = smoothed(history)
    if len(curve) < 6:
        return 0.0
    lost, span = float(curve.max() - curve[-2:].mean()), float(curve.max() - curve.min())
    noise = max(spread_within(history), float(np.std(np.diff(curve))))
    return lost / span if span > 0 and lost > noise else 0.0
