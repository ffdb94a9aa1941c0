"""Measures what a unit costs here, with and without compiling.

Runs of the default, as long as a unit where that is cheap, with another beta2 of Adam, which every update program has
compiled in: a value that was never used is in no cache of programs. The first run compiles everything, another one an
update alone, as a new value of most tuned numbers does, and the next one nothing. Where a number that decides the shape
of arrays is tuned, one more has another value of it and compiles every program. Where a screening follows, the last one
trains its boldest setting, with the most updates and the larger network.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
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
MOST_SECONDS = 0.5
"""Of a run's steps. One as long as a unit compiles all that a unit does, and shows what it takes beside its steps."""


def measure_speed(
    planner: UnitPlanner,
    executor: Executor,
    iteration_steps: int,
    warmup_steps: int,
    bold: Setting,
    shape: Setting,
    unit_steps: Callable[[Speed], int],
) -> Speed:
    """The speed of the default setting; trains it for a short time in a temporary folder.

    `shape` has another value of a number that decides the shape of arrays, where one is tuned; `unit_steps` tells the
    length of a unit at a speed.
    """
    steps = warmup_steps + PROBE_ITERATIONS * iteration_steps
    with tempfile.TemporaryDirectory(prefix="batchwright-forecast-") as folder:
        place, new, other = Path(folder), _new_beta2(), _new_beta2()
        first = _train(planner, executor, new, place / "everything", steps)
        roughly = float(np.median(_seconds_per_step(first, warmup_steps)))
        wanted = unit_steps(Speed(roughly, 0.0, 0.0, compile_seconds=first.seconds, spread=0.0))
        length = max(steps, min(wanted, int(MOST_SECONDS / roughly) // iteration_steps * iteration_steps))
        if length > steps:  # a long run measures the noise of gradients too, which is compiled once
            _train(planner, executor, new, place / "long", length)
        update = _train(planner, executor, other, place / "update", length)
        last = _train(planner, executor, other, place / "nothing", length)
        per_step, updates = _seconds_per_step(last, warmup_steps), _update_seconds(last, warmup_steps)
        compiling = max(0.0, update.seconds - last.seconds)
        reshaped = _train(planner, executor, {**shape, **other}, place / "shape", length) if shape else last
        shape_steps = float(np.median(_seconds_per_step(reshaped, warmup_steps))) * length
        boldest = _train(planner, executor, {**bold, **other}, place / "bold", length // 2) if bold else last
        bold_steps = _seconds_per_step(boldest, warmup_steps)
    typical = float(np.median(per_step))
    low, high = np.percentile(per_step, (25, 75))
    unit_seconds = max(0.0, last.seconds - typical * length)
    all_programs = reshaped.seconds - unit_seconds - shape_steps
    return Speed(
        seconds_per_step=typical,
        update_share=float(np.median(updates / (per_step * iteration_steps))),
        unit_seconds=unit_seconds,
        compile_seconds=compiling,
        shape_cost=max(1.0, all_programs / compiling) if shape and compiling else 1.0,
        spread=float((high - low) / typical),
        bold_cost=max(1.0, float(np.median(bold_steps)) / typical) if len(bold_steps) else 1.0,
    )


def _seconds_per_step(outcome: RunOutcome, warmup_steps: int) -> np.ndarray:
    return np.array([1.0 / record["steps_per_second"] for record in _records(outcome, warmup_steps)])


def _update_seconds(outcome: RunOutcome, warmup_steps: int) -> np.ndarray:
    return np.array([record.get("update_seconds", 0.0) for record in _records(outcome, warmup_steps)])


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
            f"the default setting cannot be trained: {(outcome.reason or outcome.status).rstrip('.')}.",
            ["batchwright train ENV with the same flags shows more"],
        )
    return outcome
