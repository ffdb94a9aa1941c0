"""Findings about the environment: actions that act late or stick, observations that stand still, ends of episodes."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import MEASURED, WARNING, Finding, figure
from batchwright.doctor.run_history import RunHistory
from batchwright.planning.quantity import counted

SOURCE = f"docs/training/run-directory.md#metrics; {MEASURED}"
LAGS = 4
EARLY = 0.5
"""Part of the record that is looked at: later, a policy that repeats itself hides which action did what."""
CLEAR_EFFECT = 0.05
LATE_FACTOR = 3.0
STUCK_RATIO = 0.12
REPEATED = 0.1
UNEXPLAINED = 3.5
"""Standard errors by which the last observations of terminated episodes differ from others; chance gives 2 to 3."""
UNEXPLAINED_EFFECT = 0.5
"""Standard deviations by which they differ where they are many; a reason that is observed gives one and more."""
LEAST_LOOKS = 4
TELLING = 12
"""Terminations in a rollout from which on a reason that is observed shows: where there is one they lie a standard
deviation from other observations, which is then 3.5 standard errors."""
UNMEASURED = 0.45
"""Confidence where nobody measured whether the observation says why: many tasks take the same number of steps."""
ALL = 0.95


def _effects(history: RunHistory) -> list[float] | None:
    """How much the actions of 0 to 3 steps before explain of the next change of observations."""
    found = [history.typical(f"action_effect_{lag}", 0.0, EARLY) for lag in range(LAGS)]
    return None if any(value is None for value in found) else [value for value in found if value is not None]


def delayed_actions(history: RunHistory) -> Finding | None:
    """What an action changes shows some steps later: actions are delayed, or observations are stale."""
    effects = _effects(history)
    if effects is None:
        return None
    lag = int(np.argmax(effects))
    others = [value for place, value in enumerate(effects) if place != lag]
    if lag == 0 or effects[lag] < CLEAR_EFFECT or effects[lag] < LATE_FACTOR * max(others):
        return None
    return Finding(
        "delayed-actions",
        WARNING,
        0.9,
        f"actions change the observation {lag + 1} steps later: the action {counted(lag, 'step')} before explains "
        f"{effects[lag]:.0%} of its change, the last one {effects[0]:.0%}.",
        f"actions are applied {counted(lag, 'step')} late, or observations are {counted(lag, 'step')} old",
        SOURCE,
        evidence={"lag": lag} | {f"action_effect_{place}": value for place, value in enumerate(effects)},
        hint=True,
        seen=True,
    )


def sticky_actions(history: RunHistory) -> Finding | None:
    """Earlier actions go on acting, each less than the one after it."""
    effects = _effects(history)
    if effects is None or effects[0] < CLEAR_EFFECT or not effects[0] > effects[1] > effects[2]:
        return None
    ratio = effects[1] / effects[0]
    if ratio < STUCK_RATIO or effects[1] < CLEAR_EFFECT / 2:
        return None
    return Finding(
        "sticky-actions",
        WARNING,
        0.8,
        f"the action before the last one still explains {effects[1]:.0%} of the observation's change, the last one "
        f"{effects[0]:.0%}.",
        "the environment repeats or blends actions, and the observation does not show it",
        SOURCE,
        evidence={f"action_effect_{place}": value for place, value in enumerate(effects)},
        hint=True,
        seen=True,
    )


def repeated_observations(history: RunHistory) -> Finding | None:
    """Steps after which every number of the observation is exactly as before."""
    repeated = history.typical("obs_repeat_fraction", 0.0, EARLY)
    if repeated is None or repeated < REPEATED:
        return None
    return Finding(
        "repeated-observations",
        WARNING,
        min(0.95, 0.65 + repeated / 2),
        f"{repeated:.0%} of observations equal the one before in every number.",
        "observations are refreshed less often than steps are taken, or frames are lost",
        SOURCE,
        evidence={"obs_repeat_fraction": repeated},
        hint=True,
        seen=True,
    )


def unexplained_terminations(history: RunHistory) -> Finding | None:
    """Episodes that terminate where nothing that is observed says why."""
    signs, seen = history.column("termination_sign"), history.column("terminations_seen")
    signs = signs[np.isfinite(signs) & (seen >= TELLING)]
    if len(signs) < LEAST_LOOKS:
        return None
    chance = max(UNEXPLAINED, UNEXPLAINED_EFFECT * float(np.sqrt(np.median(seen[seen >= TELLING]))))
    if float(np.median(signs)) > chance:
        return None
    length = history.typical("episode_length")
    return Finding(
        "unexplained-terminations",
        WARNING,
        0.85,
        f"episodes terminate after {figure(length)} steps, in observations that differ from all others by "
        f"{figure(float(np.median(signs)))} standard errors; chance gives 2 to 3.",
        "done flags that are set at random, or for a reason that the policy cannot observe",
        SOURCE,
        evidence={"termination_sign": float(np.median(signs)), "episode_length": length},
        hint=True,
        seen=True,
    )


def time_limit_as_termination(history: RunHistory) -> Finding | None:
    """Episodes that terminate at one length for no reason that is observed, and none that is cut there."""
    longest, at_longest = history.column("terminated_length_max"), history.column("terminated_at_max")
    known = np.isfinite(longest) & np.isfinite(at_longest)
    if known.sum() < LEAST_LOOKS or history.has("truncated_length_max"):
        return None
    limit = float(longest[known].max())
    reached = longest[known] == limit
    if reached.sum() < LEAST_LOOKS or float(np.median(at_longest[known][reached])) < 0.2:
        return None
    always = bool(reached.all()) and float(np.median(at_longest[known])) > ALL
    sign = history.typical("termination_sign", 0.0, EARLY)
    if always and sign is not None and sign > UNEXPLAINED:
        return None  # the observation says why: a task that takes so many steps
    return Finding(
        "time-limit-as-termination",
        WARNING,
        UNMEASURED if always and sign is None else 0.8 if always else 0.7,
        f"{'all' if always else 'many'} episodes terminate after exactly {figure(limit)} steps, and none is truncated.",
        "the time limit is reported as a termination: values are told that nothing follows",
        SOURCE,
        evidence={"length": limit, "share": float(np.mean(reached))},
        hint=True,
        seen=True,
    )


def failures_as_truncations(history: RunHistory) -> Finding | None:
    """Episodes that are truncated at lengths of all kinds, and none that terminates."""
    shortest, longest = history.column("truncated_length_min"), history.column("truncated_length_max")
    known = np.isfinite(shortest) & np.isfinite(longest)
    if known.sum() < LEAST_LOOKS or history.has("terminated_length_max"):
        return None
    varied = float(np.median(longest[known] / np.maximum(shortest[known], 1.0)))
    if varied < 1.2:
        return None
    return Finding(
        "terminations-as-truncations",
        WARNING,
        0.8,
        f"episodes are truncated after {figure(float(shortest[known].min()))} to {figure(float(longest[known].max()))} "
        "steps, and none terminates.",
        "failures are reported as a time limit: values are told that episodes go on",
        SOURCE,
        evidence={"shortest": float(shortest[known].min()), "longest": float(longest[known].max())},
        hint=True,
        seen=True,
    )
