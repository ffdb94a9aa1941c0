"""Measures what a unit costs here: the default setting twice, so that the second shows the cost without compiling."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from batchwright.core.errors import UserError
from batchwright.tuning.executors import FINISHED, INTERRUPTED, Executor, RunOutcome
from batchwright.tuning.tuning_budget import Speed
from batchwright.tuning.tuning_run import TuningInterrupted
from batchwright.tuning.unit_runs import UnitPlanner
from batchwright.watch.metric_log import read_metrics

PROBE_ITERATIONS = 8


def measure_speed(planner: UnitPlanner, executor: Executor, iteration_steps: int, warmup_steps: int) -> Speed:
    """The speed of the default setting; trains it for a few iterations in a temporary folder."""
    steps = warmup_steps + PROBE_ITERATIONS * iteration_steps
    with tempfile.TemporaryDirectory(prefix="batchwright-forecast-") as folder:
        first = _train(planner, executor, Path(folder) / "first", steps)
        second = _train(planner, executor, Path(folder) / "second", steps)
        records = [r for r in read_metrics(second.run / "metrics.jsonl") if int(r["env_steps"]) > warmup_steps][1:]
    per_step = np.array([1.0 / record["steps_per_second"] for record in records])
    updates = np.array([record.get("update_seconds", 0.0) for record in records])
    typical = float(np.median(per_step))
    low, high = np.percentile(per_step, (25, 75))
    return Speed(
        seconds_per_step=typical,
        update_share=float(np.median(updates / (per_step * iteration_steps))),
        unit_seconds=max(0.0, second.seconds - typical * steps),
        compile_seconds=max(0.0, first.seconds - second.seconds),
        spread=float((high - low) / typical),
    )


def _train(planner: UnitPlanner, executor: Executor, path: Path, steps: int) -> RunOutcome:
    run = planner.prepare({}, 0, steps, path)
    outcome = next(iter(executor.execute([run])), None)
    if outcome is None or outcome.status == INTERRUPTED:
        raise TuningInterrupted
    if outcome.status != FINISHED:
        raise UserError(
            f"the default setting cannot be trained: {outcome.reason or outcome.status}.",
            ["batchwright train ENV with the same flags shows more"],
        )
    return outcome
