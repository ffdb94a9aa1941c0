"""Tables of defaults.py for tables.py."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from batchwright.watch.statistics import bootstrap_interval, interquartile_mean
from markdown_table import figure, measured_on, table

LAST_SHARE = 0.1
"""Share of a training curve, at its end, that is its last return."""
LEAST_SEEDS = 3
LOST = 0.1
"""A normalised score that is so much lower counts as below."""


def defaults(report: dict[str, Any]) -> str:
    """Ours beside the peer on the judging half, then what was tried on the choosing half."""
    parts = [
        "`train ENV` without a flag beside PPO of Stable-Baselines3 without an argument, at equal environment steps, "
        "one core each, beside other programs. Evaluations with exploration off, 20 episodes, medians over seeds. A "
        "score is 0 for random actions and 1 for the better of the two medians, and at least -1. Defaults were chosen "
        "on other environments (second table), but for one: that whole numbers of a wide range are normalised too was "
        "found on MiniGrid-Dynamic-Obstacles, where ours had been below. Hybrid actions (Platform, Sliding, Moving, "
        "Colony) are one vector for SB3, which has none; Sliding, Moving and Colony, where ours was below after three "
        "seeds that differ widely, got a fourth. CartpoleBalanceSparse, HopperStand, PendulumSwingup, Sliding and "
        "Moving were first trained for 40,960 and 61,440 steps, after which neither side had learned anything; they "
        "got 163,840 and 204,800.",
        "CartpoleBalanceSparse is lost for two reasons: episodes of 1,000 steps begin together in 8 environments, so "
        "that three of four rollouts of 256 steps pay nothing, and observations normalised over falls leave little of "
        "the movements of balancing. With `--num-envs 2 --rollout-steps 1024 --no-normalize-obs "
        "--no-normalize-rewards` ours has 1,000 too (one seed), with `--no-normalize-obs` alone 246. On "
        "CartpoleSwingup, of the choosing half, two environments were no better than eight (173 and 226, one seed), so "
        "the defaults stay.",
        measured_on(report),
        judged(report),
        "`train ENV --algo sac --preset none` beside SAC of SBX without an argument, 10,240 steps; no default of SAC "
        "was chosen on any environment:",
        judged(report, ("sac",), "SBX"),
        "What was tried on the other half, all but the entropy bonus before this one was looked at; medians of "
        "evaluated returns and, in brackets, of training returns at the end:",
        tried(report),
    ]
    return "\n\n".join(parts)


def judged(report: dict[str, Any], parts: tuple[str, ...] = ("judge", "fresh"), peer: str = "SB3") -> str:
    """One row for each judging environment, and the IQM of the scores of those with enough seeds."""
    rows, ours_all, theirs_all, below, few = [], [], [], [], []
    for env in (env for part in parts for env in _envs(report, part)):
        ours, theirs = _runs(report, env, "ours"), _runs(report, env, peer.lower())
        if not ours or not theirs:
            continue
        random = report["runs"][f"{env}|random"]
        scores = _scores([run["mean"] for run in ours], [run["mean"] for run in theirs], random)
        if min(len(ours), len(theirs)) >= LEAST_SEEDS:
            ours_all.append(scores[0])
            theirs_all.append(scores[1])
        else:
            few.append(env)
        medians = [float(np.median(part)) for part in scores]
        if medians[0] < medians[1] - LOST and env not in few:
            below.append(env)
        steps = report["tasks"][env]["steps"]
        rows.append(
            [
                env,
                f"{steps:,}",
                figure(random),
                _spread([run["mean"] for run in ours]),
                _spread([run["mean"] for run in theirs]),
                f"{medians[0]:.2f}",
                f"{medians[1]:.2f}",
                *_seconds(ours, theirs),
            ]
        )
    if not rows:
        return "The judging half was not measured."
    columns = [
        "environment",
        "steps",
        "random",
        "ours",
        peer,
        "score, ours",
        f"score, {peer}",
        "s to equal, ours",
        peer,
    ]
    if not ours_all:
        return f"{table(columns, rows)}\n\nNone of them has {LEAST_SEEDS} seeds."
    iqms = [float(interquartile_mean(np.concatenate(part))) for part in (ours_all, theirs_all)]
    ends = [bootstrap_interval(part, interquartile_mean) for part in (ours_all, theirs_all)]
    words = " and ".join(
        f"{iqm:.2f} ({end[0]:.2f} to {end[1]:.2f})" for iqm, end in zip(iqms, ends, strict=True) if end is not None
    )
    left_out = f" With fewer seeds, left out of this: {', '.join(few)}." if few else ""
    lower = ", ".join(below) if below else "none"
    words = (
        f"IQM of scores over {len(ours_all)} environments with at least {LEAST_SEEDS} seeds, ours and {peer}: {words}. "
        f"Below {peer} by more than {LOST}: {lower}.{left_out} Seconds to equal are those until the training return "
        "first reaches the lower of both last training returns; ours count the start of Python, compiling and the "
        f"evaluation, {peer}'s do not."
    )
    return f"{table(columns, rows)}\n\n{words}"


def tried(report: dict[str, Any]) -> str:
    """Contenders on the choosing half."""
    sides = sorted({key.split("|")[1] for key in report["runs"] if key.split("|")[1] not in ("random", "sb3", "sbx")})
    columns = ["environment", *(side.removeprefix("ours").strip() or "now the default" for side in sides)]
    rows = []
    for env in _envs(report, "choose"):
        cells = []
        for side in sides:
            runs = _runs(report, env, side)
            lasts = [last for last in map(_last, runs) if last is not None]
            text = figure(statistics.median(run["mean"] for run in runs)) if runs else ""
            cells.append(text + (f" ({figure(statistics.median(lasts))}; {len(runs)} seeds)" if lasts else ""))
        if any(cells):
            rows.append([env, *cells])
    return table(columns, rows)


def _envs(report: dict[str, Any], half: str) -> list[str]:
    return [env for env, task in report["tasks"].items() if task["half"] == half]


def _runs(report: dict[str, Any], env: str, side: str) -> list[dict[str, Any]]:
    return [run for key, run in report["runs"].items() if key.split("|")[:2] == [env, side] and key.count("|") == 2]


def _scores(ours: list[float], theirs: list[float], random: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns between random (0) and the better median (1); all 0 where neither is better than random."""
    best = max(statistics.median(ours), statistics.median(theirs))
    width = best - random
    if width <= 0:
        return np.zeros(len(ours)), np.zeros(len(theirs))
    low = -1.0  # a run that fails below random counts once, not without end
    one, other = ((np.array(part) - random) / width for part in (ours, theirs))
    return np.maximum(one, low), np.maximum(other, low)


def _spread(values: list[float]) -> str:
    return f"{figure(statistics.median(values))} ({figure(min(values))} to {figure(max(values))})"


def _last(run: dict[str, Any]) -> float | None:
    """Mean training return at the end of a run."""
    curve = run["curve"]
    if not curve:
        return None
    return statistics.mean(point[2] for point in curve[-max(1, round(LAST_SHARE * len(curve))) :])


def _seconds(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> tuple[str, str]:
    """Median seconds until a training return of the lower of both ends is first reached."""
    lasts = [[last for last in map(_last, runs) if last is not None] for runs in (ours, theirs)]
    if not all(lasts):
        return "", ""
    level = min(statistics.median(part) for part in lasts)
    found = []
    for runs, whole in ((ours, True), (theirs, False)):
        reached = [_when(run, level, whole) for run in runs]
        known = [seconds for seconds in reached if seconds is not None]
        found.append(f"{statistics.median(known):.0f}" if 2 * len(known) > len(runs) else "not by most")
    return found[0], found[1]


def _when(run: dict[str, Any], level: float, whole: bool) -> float | None:
    """Seconds until a return of `level`; `whole` adds what the process spent outside of its iterations."""
    extra = max(0.0, run["seconds"] - run["curve"][-1][1]) if whole and run["curve"] else 0.0
    return next((seconds + extra for _, seconds, mean in run["curve"] if mean >= level), None)
