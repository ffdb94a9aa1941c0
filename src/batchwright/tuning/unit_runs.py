"""Units as runs: their plans, their directories, and the score of what they learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchwright.config.load import REPLACES, Resolved, resolve
from batchwright.config.presets import NO_PRESET
from batchwright.core.files import remove_folder
from batchwright.core.machine import Machine
from batchwright.core.run_dir import RunDir
from batchwright.planning.make import make_plan
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.regimes import refuse_untrainable
from batchwright.runs.launch import create_run
from batchwright.runs.learner_threads import with_threads
from batchwright.tuning.rollout_rule import tenths_of
from batchwright.tuning.search_space import Setting
from batchwright.watch.lines import RETURN
from batchwright.watch.metric_log import read_events, read_metrics

Objective = Callable[[Mapping[str, Any]], float | None]
"""From one metric record to what is maximised; None where an iteration says nothing."""


def training_return(record: Mapping[str, Any]) -> float | None:
    """The default objective: the mean return of the episodes that ended in an iteration."""
    value = record.get(RETURN)
    return None if value is None else float(value)


@dataclass(frozen=True)
class UnitPlanner:
    """Plans units from stated numbers alone: `train ENV --preset none` with the same flags plans the same run."""

    flags: Mapping[str, Any]
    """Everything that is the same in all units."""
    machine: Machine
    task: TaskFacts

    def settings(self, setting: Setting) -> dict[str, Any]:
        """All stated numbers of a unit; what a tuned number states under another name is left out."""
        replaced = {other for name in setting for other in REPLACES.get(name, ()) if other not in setting}
        return {name: value for name, value in {**self.flags, **setting}.items() if name not in replaced}

    def plan(self, setting: Setting, seed: int, steps: int) -> tuple[Resolved, Plan]:
        resolved = resolve({**self.settings(setting), "seed": seed, "total_steps": steps}, NO_PRESET)
        plan = with_threads(make_plan(resolved, self.machine, self.task))
        refuse_untrainable(plan)
        return resolved, plan

    def prepare(self, setting: Setting, seed: int, steps: int, path: Path) -> Path:
        """The run directory of a unit; one that is there already stays as it is.

        A kill while it was made leaves a part of it, in which nothing has been trained: it is made anew.
        """
        if not RunDir(path).is_run:
            remove_folder(path, below=2)
            create_run(*self.plan(setting, seed, steps), path)
        return path


def score_of(records: Sequence[Mapping[str, Any]], steps: int, objective: Objective) -> float | None:
    """The area under the learning curve over the first `steps` environment steps, divided by them.

    An iteration in which no episode ended keeps the last value; before the first episode the first value holds, and
    after an early stop the last. None where no episode ended at all, or a value is not finite.
    """
    area, done, value = 0.0, 0, None
    for record in records:
        found = objective(record)
        if found is not None:
            value = float(found)
        now = min(int(record["env_steps"]), steps)
        if value is not None:  # `done` stays 0 until the first episode has ended
            area, done = area + value * (now - done), now
    if value is None:
        return None
    score = (area + value * (steps - done)) / steps
    return score if math.isfinite(score) else None


def unit_result(run: Path, steps: int, objective: Objective) -> dict[str, Any]:
    """{"score", "final", "tenths", "noise", "env_steps", "digest"} of a finished unit; `tenths` is its curve."""
    directory = RunDir(run)
    records = read_metrics(directory.metrics_path)
    evaluations = [event for event in read_events(directory.events_path) if event["kind"] == "evaluation"]
    returns = [value for value in evaluations[-1]["returns"] if value is not None] if evaluations else []
    score = score_of(records, steps, objective)
    found = [(int(record["env_steps"]), objective(record)) for record in records]
    points = [(at, float(value)) for at, value in found if value is not None]
    tenths, noise = ([], 0.0) if score is None else tenths_of(points, steps)
    return {
        "score": score,
        "final": math.fsum(returns) / len(returns) if returns else None,
        "tenths": tenths,
        "noise": noise,
        "env_steps": int(records[-1]["env_steps"]) if records else 0,
        "digest": records[-1].get("parameters_digest", "") if records else "",
    }
