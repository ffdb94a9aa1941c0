"""Findings about the scale of observations and actions."""

from __future__ import annotations

from batchwright.doctor.finding import NOTE, ON_POLICY_STUDY, WARNING, Finding, figure, flag
from batchwright.doctor.reference_ranges import tuned
from batchwright.doctor.run_history import RunHistory

LARGE_OBSERVATION = 50.0
WIDE_RATIO = 3e3
MOSTLY_CLIPPED = 0.6


def observation_scale(history: RunHistory) -> Finding | None:
    """Unnormalised observations that are large, or whose entries differ in scale by a factor of thousands."""
    largest, narrow, wide = (history.typical(name) for name in ("obs_abs_max", "obs_std_min", "obs_std_max"))
    if largest is None or narrow is None or wide is None:
        return None
    ratio = wide / narrow if narrow > 0 else 1.0
    normalised = bool(history.facts.get("normalize_obs"))
    if normalised or (wide < LARGE_OBSERVATION / 3 and ratio < WIDE_RATIO):
        return None
    clear = wide > LARGE_OBSERVATION or ratio > 10 * WIDE_RATIO
    return Finding(
        "observation-scale",
        WARNING if clear else NOTE,
        0.95 if clear else 0.5,
        f"observations reach {figure(largest)} and are not normalised; the standard deviations of their entries range "
        f"from {figure(narrow)} to {figure(wide)}.",
        "large inputs saturate the first layer and hide the small ones",
        f"{ON_POLICY_STUDY}: observation normalisation",
        (flag("normalize_obs", True),),
        {"obs_abs_max": largest, "obs_std_min": narrow, "obs_std_max": wide},
    )


def actions_clipped(history: RunHistory) -> Finding | None:
    """Continuous actions that mostly lie outside their bounds and are clipped for the environment."""
    clipped = history.typical("action_clip_fraction", 0.0, 0.5)
    if clipped is None or clipped < MOSTLY_CLIPPED:
        return None
    start = history.facts.number("log_std_start")
    wide = start is not None and start > 0.5
    return Finding(
        "actions-clipped",
        WARNING if wide else NOTE,
        0.95 if wide else 0.4,
        f"{clipped:.0%} of action values lie outside their bounds and are clipped"
        + (f"; the initial log standard deviation is {figure(start)}." if start is not None else "."),
        "the standard deviation of actions is larger than their range: most end up at a bound",
        f"{ON_POLICY_STUDY}: initial standard deviation",
        (flag("log_std_start", tuned(history, "log_std_start") or -0.5),),
        {"action_clip_fraction": clipped, "log_std_start": start},
    )
