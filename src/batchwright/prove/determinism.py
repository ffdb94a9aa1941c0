"""Runs one plan in two processes and names the first difference."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchwright.config.schema import DATASET
from batchwright.core import html
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import checked_path, read_plain
from batchwright.core.trust import check_trust
from batchwright.runs.launch import open_run
from batchwright.watch.metric_log import Difference, first_difference, is_time_valued, read_metrics


@dataclass(frozen=True)
class Outcome:
    """The result of comparing two runs of one plan."""

    identical: bool
    iterations: int
    values: int
    """Logged values compared, time-valued ones aside."""
    difference: Difference | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        return html.paragraphs([str(self)])

    def __str__(self) -> str:
        if self.identical:
            return (
                f"identical: {self.iterations} iterations, {self.values} logged values and the parameters after every "
                "iteration are equal to the bit in two processes."
            )
        return f"different: {self.difference}"


def is_run(target: str) -> bool:
    return RunDir(checked_path(target)).is_run


def prove_env(env: str, **settings: Any) -> Outcome:
    """Compares two new runs of the same settings."""
    from batchwright.api import prepare

    with tempfile.TemporaryDirectory(prefix="batchwright-prove-") as folder:
        first = prepare(env, run_dir=Path(folder) / "first", quiet=True, **settings)
        second = _copy_plan(first, Path(folder) / "second")
        return _compare(_train(first), _train(second))


def prove_run(path: str, trust: bool = False) -> Outcome:
    """Compares a finished or unfinished run with a second one of its plan, as far as its records go."""
    run, resolved, plan = open_run(path)
    if plan.regime == DATASET:
        raise UserError(f"{run} was trained by LeRobot: prove repeats runs of ours.", ["batchwright compare RUN RUN"])
    check_trust(run, resolved.config.task.env, trust)
    recorded = read_metrics(run.metrics_path)
    if not recorded:
        raise UserError(f"{path} has no records yet.", [f"batchwright resume {path}"])
    with tempfile.TemporaryDirectory(prefix="batchwright-prove-") as folder:
        again = _train(_copy_plan(run.path, Path(folder) / "again"))
        return _compare(recorded, again[: len(recorded)])


def _copy_plan(run: Path, to: Path) -> Path:
    to.mkdir(parents=True)
    for name in ("config.yaml", "plan.json"):
        (to / name).write_bytes(read_plain(run / name))
    return to


def _train(run: Path) -> list[dict[str, Any]]:
    """The records of a run trained in a process of its own."""
    # The caller named the environment, or agreed to run the code that the run names.
    command = [sys.executable, "-m", "batchwright.cli", "resume", str(run), "--quiet", "--trust"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
        last = (said or done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"the run in its own process ended with {done.returncode}: {last}")
    return list(read_metrics(run / "metrics.jsonl"))


def _compare(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> Outcome:
    difference = first_difference(first, second)
    values = sum(not is_time_valued(name) for record in first for name in record)
    return Outcome(difference is None, len(first), values, difference)
