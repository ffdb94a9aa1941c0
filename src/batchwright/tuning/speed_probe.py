"""Measures what a unit costs here, with and without compiling.

Short runs of the default with another beta2 of Adam, which every update program has compiled in: a value that
was never used is in no cache of programs. The first run compiles everything, the second one an update alone, as a new
value of most tuned numbers does, and the third one nothing. Where a number that decides the shape of arrays is tuned,
one more has another value of it and compiles every program. Where a screening follows, the last one trains its boldest
setting, with the most updates and the larger network.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.tuning.executors import FINISHED, INTERRUPTED, Executor, RunOutcome
from batchwright.tuning.search_space import Setting
from batchwright.tuning.tuning_budget import Speed
from batchwright.tuning.tuning_run import TuningInterrupted
from batchwright.tuning.unit_runs import UnitPlanner
from batchwright.watch.metric_log import read_metrics

PROBE_ITERATIONS = 8


def measure_speed(
    planner: UnitPlanner,
    executor: Executor,
    iteration_steps: int,
    warmup_steps: int,
    bold: Setting,
    shape: Setting,
) -> Speed:
    """The speed of the default setting; trains it for a few iterations in a temporary folder.

    `shape` has another value of a number that decides the shape of arrays, where one is tuned.
    """
    steps = warmup_steps + PROBE_ITERATIONS * iteration_steps
    with tempfile.TemporaryDirectory(prefix="batchwright-forecast-") as folder:
        place, new, other = Path(folder), _new_beta2(), _new_beta2()
        _train(planner, executor, new, place / "everything", steps)
        update = _train(planner, executor, other, place / "update", steps)
        last = _train(planner, executor, other, place / "nothing", steps)
        records = _records(last, warmup_steps)
        compiling = max(0.0, update.seconds - last.seconds)
        reshaped = _train(planner, executor, {**shape, **other}, place / "shape", steps) if shape else update
        all_programs = max(compiling, reshaped.seconds - last.seconds)
        boldest = _train(planner, executor, {**bold, **other}, place / "bold", steps // 2) if bold else last
        bold_steps = [1.0 / record["steps_per_second"] for record in _records(boldest, warmup_steps)]
    per_step = np.array([1.0 / record["steps_per_second"] for record in records])
    updates = np.array([record.get("update_seconds", 0.0) for record in records])
    typical = float(np.median(per_step))
    low, high = np.percentile(per_step, (25, 75))
    return Speed(
        seconds_per_step=typical,
        update_share=float(np.median(updates / (per_step * iteration_steps))),
        unit_seconds=max(0.0, last.seconds - typical * steps),
        compile_seconds=compiling,
        shape_cost=all_programs / compiling if compiling else 1.0,
        spread=float((high - low) / typical),
        bold_cost=max(1.0, float(np.median(bold_steps)) / typical) if bold and bold_steps else 1.0,
    )


def _records(outcome: RunOutcome, warmup_steps: int) -> list[dict[str, Any]]:
    """The iterations after the first one, which compiles."""
    return [r for r in read_metrics(outcome.run / "metrics.jsonl") if int(r["env_steps"]) > warmup_steps][1:]


def _new_beta2() -> Setting:
    """The default but for a beta2 that was never used before; it changes nothing that a timing shows."""
    return {"adam_beta2": 0.999 - 1e-3 * random.SystemRandom().random()}


def _train(planner: UnitPlanner, executor: Executor, setting: Setting, path: Path, steps: int) -> RunOutcome:
    run = planner.prepare(setting, 0, steps, path)
    outcome = next(iter(executor.execute([run])), None)
    if outcome is None or outcome.status == INTERRUPTED:
        raise TuningInterrupted
    if outcome.status != FINISHED:
        raise UserError(
            f"the default setting cannot be trained: {outcome.reason or outcome.status}.",
            ["batchwright train ENV with the same flags shows more"],
        )
    return outcome
