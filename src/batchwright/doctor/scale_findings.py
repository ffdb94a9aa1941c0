"""Findings about the scale of observations and actions."""

from __future__ import annotations

import math

import numpy as np

from batchwright.doctor.finding import NOTE, ON_POLICY_STUDY, WARNING, Finding, figure, flag
from batchwright.doctor.reference_ranges import tuned
from batchwright.doctor.run_history import RunHistory

LARGE_OBSERVATION = 5.0
"""Standard deviation from which a first layer saturates: a hint."""
ODD_DECADES = 1.0
"""How much wider or narrower than most an entry is: a hint."""
CLEARLY_LARGE, WIDE_RATIO = 50.0, 3e4
"""What is an alarm by itself."""
MOSTLY_CLIPPED = 0.6
LEAST_RECORDS = 5


def observation_scale(history: RunHistory) -> Finding | None:
    """Unnormalised observations that are large, or of which one entry is far wider or narrower than most."""
    largest, narrow, wide = (history.typical(name) for name in ("obs_abs_max", "obs_std_min", "obs_std_max"))
    if largest is None or narrow is None or wide is None or history.facts.get("normalize_obs") or wide <= 0:
        return None
    decades = [math.log10(one) if one > 0 else math.log10(wide) for one in (narrow, wide)]
    median = history.typical("obs_std_median") or 0.0
    middle = math.log10(median) if median > 0 else sum(decades) / 2  # records of earlier versions have no median
    beyond = max(
        decades[1] - math.log10(LARGE_OBSERVATION), decades[1] - middle - ODD_DECADES, middle - decades[0] - ODD_DECADES
    )
    middle = 10**middle
    if beyond <= 0:
        return None
    clear = wide > CLEARLY_LARGE or (narrow > 0 and wide / narrow > WIDE_RATIO)
    return Finding(
        "observation-scale",
        WARNING,
        0.95 if clear else min(0.85, 0.6 + 0.2 * beyond),
        f"observations reach {figure(largest)} and are not normalised; the standard deviations of their entries range "
        f"from {figure(narrow)} to {figure(wide)}{_widest(history)}, half of them up to {figure(middle)}.",
        "large inputs saturate the first layer and hide the small ones",
        f"{ON_POLICY_STUDY}: observation normalisation",
        (flag("normalize_obs", True),),
        {"obs_abs_max": largest, "obs_std_min": narrow, "obs_std_median": middle, "obs_std_max": wide},
        hint=not clear,
        seen=True,
    )


def _widest(history: RunHistory) -> str:
    """Which entry has the largest standard deviation, where it is the same one throughout."""
    entries = history.column("obs_widest_entry")
    entries = entries[np.isfinite(entries)]
    return f" (entry {int(entries[0])})" if len(entries) and (entries == entries[0]).all() else ""


def constant_observation(history: RunHistory) -> Finding | None:
    """Entries of the observation that never change, or that stopped changing during the run: dead sensors."""
    counts, entries = history.column("obs_constant_entries"), history.column("obs_constant_entry")
    known = np.flatnonzero(np.isfinite(counts) & np.isfinite(entries))
    late = known[-max(3, len(known) // 4) :]
    if len(known) < LEAST_RECORDS or not (counts[late] > 0).all():
        return None
    changing = known[counts[known] < counts[late].min()]
    died = None if len(changing) == 0 or changing[0] != known[0] else int(changing[-1]) + 1
    since = "never change" if died is None else f"have not changed since iteration {history.iteration_at(died)}"
    count, entry = int(counts[late].min()), int(entries[late[-1]])
    which = f"{count} entries of the observation, the first of them entry {entry}," if count > 1 else ""
    one = "never changes" if died is None else since.replace("have", "has")
    return Finding(
        "constant-observation",
        WARNING,
        0.6 if died is None else 0.8,
        f"{which} {since}.".lstrip() if which else f"entry {entry} of the observation {one}.",
        "a sensor that is dead, or a number that this task does not use",
        "docs/doctor.md#findings",
        evidence={"constant_entries": count, "entry": entry},
        began=None if died is None else history.iteration_at(died),
        hint=died is None,
        seen=True,
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
        hint=True,
    )
