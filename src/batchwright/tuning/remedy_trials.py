"""Tries the doctor's remedies: the same run again with other flags, for a part of its steps, beside the original."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.config.load import resolve
from batchwright.config.schema import FIELDS, ON_POLICY, REPLAY
from batchwright.core.errors import UserError
from batchwright.core.machine import probe_machine
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import read_plain
from batchwright.core.trust import check_trust
from batchwright.doctor.finding import Finding
from batchwright.doctor.harm import HARMED, verdict
from batchwright.doctor.levers import stated_numbers
from batchwright.doctor.outcome_findings import general_remedies
from batchwright.doctor.run_history import RunHistory, facts_of
from batchwright.planning.make import make_plan
from batchwright.regimes import make_learner
from batchwright.runs.callback import Callbacks, RunView
from batchwright.runs.launch import continue_run, create_run, open_run
from batchwright.runs.learner_threads import with_threads
from batchwright.runs.loop import DivergedError
from batchwright.runs.recorder import OutputOptions
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.runs.start_state import StartOptions
from batchwright.watch.metric_log import read_events, read_metrics

FOLDER_ENDING = "-trials"
LAST_PART = 0.3
"""The part of the compared steps whose returns are compared."""
STANDARD_ERRORS = 2.0
LEAST_GAIN = 0.1
"""Of the range of returns that both runs show."""
HELPED, SAME, WORSE, FAILED = "helped", "no difference", "worse", "failed"
CHEAP: dict[str, Any] = {"eval_every": 0, "eval_episodes": 1, "doctor": "off"}
"""Settings that change no training bit."""


@dataclass(frozen=True)
class Trial:
    """One remedy and what it came to."""

    finding: str
    flags: str
    run: Path
    verdict: str
    """`helped`, `no difference`, `worse` or `failed`."""
    mean_return: float | None
    reason: str = ""
    """Why it failed."""

    def to_dict(self) -> dict[str, Any]:
        found = {"finding": self.finding, "flags": self.flags, "verdict": self.verdict, "return": self.mean_return}
        return found | {"run": str(self.run)} | ({"reason": self.reason} if self.reason else {})


@dataclass(frozen=True)
class Trials:
    """What all remedies came to, beside the original at the same number of steps."""

    steps: int
    seed: int
    original: float | None
    trials: Sequence[Trial]

    @property
    def best(self) -> Trial | None:
        """The remedy that helped most; None where none did."""
        helped = [one for one in self.trials if one.verdict == HELPED and one.mean_return is not None]
        return max(helped, key=lambda one: one.mean_return or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "seed": self.seed,
            "original_return": self.original,
            "trials": [trial.to_dict() for trial in self.trials],
            "helped": None if self.best is None else self.best.flags,
        }


def remedies(history: RunHistory, findings: Sequence[Finding], most: int) -> list[tuple[str, str]]:
    """(finding, flags) to try: the first flags of each alarm, then what remains, each change once."""
    alarms = [one for one in findings if one.alarm]
    wanted = [(one.name, one.flags[0]) for one in alarms if one.flags]
    stated = stated_numbers(history)
    if len(stated) > 1:
        wanted.append(("stated numbers", " ".join(dict.fromkeys(flags for one in stated for flags in one.flags))))
    wanted += [(one.name, flags) for one in alarms for flags in one.flags[1:]]
    if verdict(history).state == HARMED:
        wanted += [("harmed", flags) for flags in general_remedies(history)]
    chosen: dict[frozenset[tuple[str, Any]], tuple[str, str]] = {}
    for name, flags in wanted:
        if (settings := as_settings(flags)) and "preset" not in settings:
            chosen.setdefault(frozenset(settings.items()), (name, flags))
    return list(chosen.values())[:most]


def as_settings(flags: str) -> dict[str, Any]:
    """Flags as settings by name; of a flag that stands twice the first."""
    words = flags.split()
    settings: dict[str, Any] = {}
    while words:
        name = words.pop(0)[2:].replace("-", "_")
        value: Any = words.pop(0) if words and not words[0].startswith("--") else True
        if name not in FIELDS and name.startswith("no_"):
            name, value = name[3:], False
        settings.setdefault(name, value)
    return settings


def try_remedies(
    path: str | Path,
    findings: Sequence[Finding],
    *,
    share: float,
    most: int,
    trust: bool,
    on_message: Callable[[str], None],
) -> Trials:
    """Trains a run again with each remedy, same seed, for a share of the steps that it has done."""
    run, resolved, plan = open_run(path)
    if plan.regime not in (ON_POLICY, REPLAY):
        raise UserError(f"{run} does not train a policy in an environment.", ["batchwright doctor RUN without --try"])
    check_trust(run, resolved.config.task.env, trust)
    records = read_metrics(run.metrics_path)
    steps = math.ceil(share * max((int(record["env_steps"]) for record in records), default=0))
    history = RunHistory(records, facts_of(plan), read_events(run.events_path))
    wanted = remedies(history, findings, most)
    original = returns_before(records, steps)
    programs, found = SharedPrograms(), []
    for name, flags in wanted:
        on_message(f"trying {flags} for {steps} steps")
        found.append(_try_one(run, name, flags, steps, original, StartOptions(trust=trust), programs))
    mean = None if len(original) == 0 else float(original.mean())
    return Trials(steps, int(plan.get("seed") or 0), mean, found)


def _try_one(
    run: RunDir, name: str, flags: str, steps: int, original: np.ndarray, start: StartOptions, programs: SharedPrograms
) -> Trial:
    """One remedy in a folder of its own; one that is there already goes on, or is read."""
    digest = hashlib.blake2b(f"{flags} {steps}".encode(), digest_size=4).hexdigest()
    folder = run.path.with_name(run.path.name + FOLDER_ENDING) / digest
    try:
        if not RunDir(folder).is_run:
            settings = as_settings(flags) | CHEAP
            wanted = resolve(settings, config_file=run.config_path, content=read_plain(run.config_path))
            create_run(wanted, with_threads(make_plan(wanted, probe_machine(), open_run(run.path)[2].task)), folder)
        options = OutputOptions(quiet=True, stream=io.StringIO())
        continue_run(folder, partial(make_learner, programs=programs), options, start, Callbacks(_stop_after(steps)))
    except DivergedError as error:
        return Trial(name, flags, folder, WORSE, None, str(error))
    except UserError as error:
        return Trial(name, flags, folder, FAILED, None, error.message)
    returns = returns_before(read_metrics(RunDir(folder).metrics_path), steps)
    mean = None if len(returns) == 0 else float(returns.mean())
    return Trial(name, flags, folder, compared(original, returns), mean)


def _stop_after(steps: int) -> Callable[[Mapping[str, Any], RunView], None]:
    """Ends a trial after so many steps; its schedules are those of the whole run."""

    def on_iteration(metrics: Mapping[str, Any], view: RunView) -> None:
        if view.env_steps >= steps:
            view.stop("the trial is over")

    return on_iteration


def returns_before(records: Sequence[Mapping[str, Any]], steps: int) -> np.ndarray:
    """The returns of the last part of the first `steps` steps, one per iteration in which episodes ended."""
    found = [(record["env_steps"], record.get("episode_return")) for record in records]
    known = [(at, float(value)) for at, value in found if value is not None]
    last = [value for at, value in known if (1 - LAST_PART) * steps < at <= steps]
    return np.array(last or [value for at, value in known if at <= steps][-1:], np.float64)


def compared(original: np.ndarray, trial: np.ndarray) -> str:
    """Whether a trial's returns lie above or below the original's by more than their noise."""
    if len(trial) == 0:
        return SAME if len(original) == 0 else WORSE
    if len(original) == 0:
        return HELPED
    gain = float(trial.mean() - original.mean())
    noise = math.sqrt(sum(float(part.var()) / len(part) for part in (original, trial)))
    span = max(float(np.concatenate([original, trial]).max() - np.concatenate([original, trial]).min()), 1e-12)
    if abs(gain) < max(STANDARD_ERRORS * noise, LEAST_GAIN * span):
        return SAME
    return HELPED if gain > 0 else WORSE


def table(found: Trials) -> str:
    """The trials as text."""
    shown = "none" if found.original is None else f"{found.original:.4g}"
    lines = [f"tried for {found.steps} steps, seed {found.seed}; the original's return there: {shown}", ""]
    rows = [("remedy", "return", "verdict")]
    rows += [
        (trial.flags, "none" if trial.mean_return is None else f"{trial.mean_return:.4g}", _verdict(trial))
        for trial in found.trials
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines += [f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in rows]
    if not found.trials:
        lines.append("  no finding has a flag to try")
    lines += ["", f"use: {found.best.flags}" if found.best else "none of them helped"]
    return "\n".join(lines)


def _verdict(trial: Trial) -> str:
    return f"{trial.verdict}: {trial.reason}" if trial.reason else trial.verdict
