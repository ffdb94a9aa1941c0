"""What a run that has reached its end came to, read from its directory: nothing is built or compiled for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batchwright.core.run_dir import RunDir
from batchwright.planning.quantity import Plan
from batchwright.training import checkpoint
from batchwright.watch.metric_log import read_events, read_metrics
from batchwright.watch.statistics import summarise


class Done(NamedTuple):
    """The end of a run."""

    evaluation: dict[str, Any]
    """Of the last policy; empty where none was kept."""
    iterations: int
    env_steps: int
    solved: bool | None
    """Whether `stop_return` was reached; None where none was stated."""


def read_done(run: RunDir, plan: Plan) -> Done | None:
    """The end of a finished run; None where there is something left to do, or its last checkpoint is not whole."""
    events = read_events(run.events_path) if run.events_path.exists() else []
    telling = [event["kind"] for event in events if event["kind"] in ("finished", "interrupted", "diverged", "resume")]
    if not telling or telling[-1] != "finished":
        return None
    found = checkpoint.load_named(run.checkpoints, lambda text: None)
    records = read_metrics(run.metrics_path)
    if found is None or not records:
        return None
    arrays, _ = found
    iterations = int(arrays[".counters.iteration"])
    if iterations != records[-1]["iteration"] + 1:
        return None
    played = [e for e in events if e["kind"] == "evaluation" and e["iteration"] == iterations - 1]
    wanted = plan.get("stop_return")
    return Done(
        evaluation=summarise(np.array(played[-1]["returns"])) if played else {},
        iterations=iterations,
        env_steps=int(arrays[".counters.env_steps"]),
        solved=None if wanted is None else bool(np.mean(arrays[".recent_returns"]) >= wanted),
    )
