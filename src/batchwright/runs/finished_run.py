"""The result of a finished run, read from its directory without building or compiling anything."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batchwright.core.run_dir import RunDir
from batchwright.planning.plan import Plan
from batchwright.runs import checkpoints
from batchwright.watch.metric_log import read_events, read_metrics
from batchwright.watch.statistics import summarise


class FinishedRun(NamedTuple):
    """The result of a finished run."""

    evaluation: dict[str, Any]
    """Of the last policy; empty where none was kept."""
    iterations: int
    env_steps: int
    solved: bool | None
    """Whether `stop_return` was reached; None where none was stated."""


def read_finished(run: RunDir, plan: Plan) -> FinishedRun | None:
    """The result of a finished run; None where something is left to do, or its last checkpoint is damaged."""
    events = read_events(run.events_path) if run.events_path.exists() else []
    ends = [event["kind"] for event in events if event["kind"] in ("finished", "interrupted", "diverged", "resume")]
    if not ends or ends[-1] != "finished":
        return None
    found = checkpoints.load_named(run.checkpoints, lambda text: None)
    records = read_metrics(run.metrics_path)
    if found is None or not records:
        return None
    arrays, _ = found
    iterations = int(arrays[".counters.iteration"])
    if iterations != records[-1]["iteration"] + 1:
        return None
    played = [e for e in events if e["kind"] == "evaluation" and e["iteration"] == iterations - 1]
    wanted = plan.get("stop_return")
    return FinishedRun(
        evaluation=summarise(np.array(played[-1]["returns"])) if played else {},
        iterations=iterations,
        env_steps=int(arrays[".counters.env_steps"]),
        solved=None if wanted is None else bool(np.mean(arrays[".recent_returns"]) >= wanted),
    )
