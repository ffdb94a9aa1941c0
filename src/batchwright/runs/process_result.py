"""The result of a run that other processes have trained, read from its record."""

from __future__ import annotations

from pathlib import Path

from batchwright.runs.finished_run import read_finished
from batchwright.runs.launch import Result, open_run
from batchwright.watch.metric_log import read_metrics


def result_of(path: str | Path, interrupted: bool) -> Result:
    """The outcome of a run directory that was trained to its end, or to an interruption."""
    run, _, plan = open_run(path)
    done = read_finished(run, plan)
    if done is None or interrupted:
        last = (read_metrics(run.metrics_path) or [{}])[-1]
        return Result(run.path, {}, int(last.get("iteration", -1)) + 1, int(last.get("env_steps", 0)), True)
    return Result(run.path, done.evaluation, done.iterations, done.env_steps, solved=done.solved, stopped=done.stopped)
