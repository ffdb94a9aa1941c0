"""The result of a finished run, read from its directory without building or compiling anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from batchwright.core.run_dir import RunDir
from batchwright.planning.plan import Plan
from batchwright.runs import checkpoints
from batchwright.watch.metric_log import EVALUATION_SECONDS, read_events, read_metrics
from batchwright.watch.run_end import BY_CALLBACK, EXTENDED, RETURN_REACHED
from batchwright.watch.statistics import is_finite_number, summarise

_STEPS = ".counters.env_steps"


class FinishedRun(NamedTuple):
    """The result of a finished run."""

    evaluation: dict[str, Any]
    """Of the last policy; empty where none was kept."""
    iterations: int
    env_steps: int
    solved: bool | None
    """Whether `stop_return` was reached; None where none was stated."""
    stopped: str
    """`return reached` where `stop_return` ended the run before its last planned iteration, else empty."""
    is_recorded: bool
    """Whether its events say that it is finished; a kill just before its end prevents that."""


def last_end(events: Sequence[Mapping[str, Any]]) -> str | None:
    """The last event that says how a run or its start ended; None where there is none."""
    kinds = ("finished", "interrupted", "diverged", "resume", EXTENDED)
    ends = [event["kind"] for event in events if event["kind"] in kinds]
    return ends[-1] if ends else None


def read_finished(run: RunDir, plan: Plan) -> FinishedRun | None:
    """The result of a finished run; None where something is left to do, or its last checkpoint is damaged."""
    events, records = read_events(run.events_path), read_metrics(run.metrics_path)
    end, wanted = last_end(events), plan.get("stop_return")
    if end == "diverged" or not records:
        return None
    reaches_the_end = wanted is not None or _reaches_the_end(plan, **_counts(records[-1]))
    # A process may have ended between its last checkpoint and the end of its evaluation, which is then left to do.
    if end != "finished" and not (reaches_the_end and EVALUATION_SECONDS in records[-1]):
        return None  # without reading a checkpoint, which may be large
    found = checkpoints.load_named(run.checkpoints, lambda text: None)
    if found is None:
        return None
    arrays, manifest = found
    iterations = manifest["iteration"]
    bad_iterations = int(arrays.get(".counters.bad_iterations", 0))
    if iterations != records[-1]["iteration"] + 1 or bad_iterations == iterations or _STEPS not in arrays:
        return None
    env_steps = int(arrays[_STEPS])
    recent = arrays.get(".recent_returns")
    solved = None if wanted is None or recent is None else bool(np.mean(recent) >= wanted)
    at_end = _reaches_the_end(plan, iterations, env_steps)
    by_callback = end == "finished" and any(event.get("reason") == BY_CALLBACK for event in events[-3:])
    if end != "finished" and not solved and not at_end:
        return None
    return FinishedRun(
        evaluation=evaluation_of(events, iterations) or _fit_of(events, iterations - 1),
        iterations=iterations,
        env_steps=env_steps,
        solved=solved,
        stopped="" if at_end else BY_CALLBACK if by_callback else RETURN_REACHED if solved else "",
        is_recorded=end == "finished",
    )


def _reaches_the_end(plan: Plan, iterations: int, env_steps: int) -> bool:
    """Whether a checkpoint lies at the end of a plan."""
    if plan.get("iterations") is not None:
        return bool(iterations >= plan["iterations"])
    return bool(plan.get("total_steps")) and bool(env_steps >= plan["total_steps"])


def _counts(record: Mapping[str, Any]) -> dict[str, int]:
    return {"iterations": record["iteration"] + 1, "env_steps": record["env_steps"]}


def evaluation_of(events: Sequence[Mapping[str, Any]], iterations: int) -> dict[str, Any]:
    """The summary of the evaluation after so many iterations; empty where none is recorded or its event is damaged."""
    played = [event for event in events if event["kind"] == "evaluation" and event["iteration"] == iterations - 1]
    returns, cut = (played[-1].get(name) for name in ("returns", "cut_episodes")) if played else (None, None)
    if not isinstance(returns, list) or not all(value is None or is_finite_number(value) for value in returns):
        return {}
    places = [place for place in cut if isinstance(place, int)] if isinstance(cut, list) else []
    return summarise(returns, places)


def _fit_of(events: Sequence[Mapping[str, Any]], iteration: int) -> dict[str, Any]:
    """The fit of a reward network that was learned alone; empty where none was measured."""
    names = ("episodes", "correlation", "spearman", "error", "constant_error", "error_share", "step_spearman")
    for event in reversed(events):
        if event["kind"] == "fit" and event["iteration"] == iteration and event.get("episodes"):
            return {"episodes": event["episodes"], "mean": None, "fit": {n: event[n] for n in names if n in event}}
    return {}
