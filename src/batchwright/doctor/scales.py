"""The scale of what the network sees, and of what it does."""

from __future__ import annotations

from batchwright.doctor.finding import GUIDE, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.reference_ranges import tuned
from batchwright.doctor.run_history import RunHistory

LARGE_OBSERVATION = 50.0
WIDE_RATIO = 3e3
MOSTLY_CLIPPED = 0.6


def observation_scale(case: RunHistory) -> Finding | None:
    """Inputs that are large, or of which some are thousands of times wider than others."""
    largest, narrow, wide = (case.typical(name) for name in ("obs_abs_max", "obs_std_min", "obs_std_max"))
    if largest is None or narrow is None or wide is None:
        return None
    ratio = wide / narrow if narrow > 0 else 1.0
    normalised = bool(case.facts.get("normalize_obs"))
    if normalised or (wide < LARGE_OBSERVATION / 3 and ratio < WIDE_RATIO):
        return None
    clear = wide > LARGE_OBSERVATION or ratio > 10 * WIDE_RATIO
    return Finding(
        "observation-scale",
        WARNING if clear else NOTE,
        0.95 if clear else 0.5,
        f"observations reach {figure(largest)} and are not normalised; the widest number spreads by "
        f"{figure(wide)}, the narrowest by {figure(narrow)}.",
        "wide inputs are cut at 10 or saturate the first layer, and hide the narrow ones",
        f"{GUIDE}: observation normalisation is essential for continuous control",
        (flag("normalize_obs", True),),
        {"obs_abs_max": largest, "obs_std_min": narrow, "obs_std_max": wide},
    )


def actions_clipped(case: RunHistory) -> Finding | None:
    """Boxed actions that mostly lie outside their bounds: what is learned is not what is done."""
    clipped = case.typical("action_clip_fraction", 0.0, 0.5)
    if clipped is None or clipped < MOSTLY_CLIPPED:
        return None
    start = case.facts.number("log_std_start")
    wide = start is not None and start > 0.5
    return Finding(
        "actions-clipped",
        WARNING if wide else NOTE,
        0.95 if wide else 0.4,
        f"{figure(clipped)} of the actions' numbers lie outside the box and are clipped"
        + (f"; the first log standard deviation is {figure(start)}." if start is not None else "."),
        "the spread of actions is larger than their range: most of them are one of the two bounds",
        "Andrychowicz et al., 2021: a first standard deviation of at most the half range",
        (flag("log_std_start", tuned(case, "log_std_start") or -0.5),),
        {"action_clip_fraction": clipped, "log_std_start": start},
    )
