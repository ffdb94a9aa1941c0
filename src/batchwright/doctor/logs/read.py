"""Reads a log of another trainer, TensorBoard or CSV; the trainer is recognised by its metric names."""

from __future__ import annotations

import csv
import math
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.files import find_below
from batchwright.core.safe_open import explain_refusal
from batchwright.doctor.finding import Finding
from batchwright.doctor.logs.names import TRAINERS, in_trainer_settings, recognise, translated
from batchwright.doctor.logs.tensorboard_file import Scalar, read_scalars
from batchwright.doctor.run_history import Facts

EVENT_FILES = "events.out.tfevents.*"
STEP_COLUMNS = ("time/total_timesteps", "global_step", "Step", "_step", "step", "info/frames")
LOSSES = ("policy_loss", "actor_loss", "loss", "critic_loss")
NEEDED = (
    "learning_rate",
    "gamma",
    "clip_range",
    "epochs",
    "minibatch_transitions",
    "rollout_transitions",
    "entropy_start",
    "value_weight",
    "max_grad_norm",
    "normalize_obs",
    "normalize_rewards",
    "episode_steps",
    "iterations",
)
"""Settings that findings need; those missing from a log are listed."""


@dataclass(frozen=True)
class ForeignLog:
    """Records and facts of another trainer's run."""

    path: Path
    trainer: str
    records: list[dict[str, Any]]
    facts: Facts

    @property
    def unknown(self) -> list[str]:
        return [name for name in NEEDED if self.facts.get(name) is None]

    def with_trainer_settings(self, finding: Finding) -> Finding:
        """The finding with its flags as settings of this trainer."""
        return in_trainer_settings(self.trainer, finding)


def find_log(path: Path) -> list[Path]:
    """The files of a log: the path itself, or event files and CSVs in the folder and below; empty without any."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        return []
    files = find_below(path, lambda name: name.endswith(".csv") or fnmatchcase(name, EVENT_FILES))
    for pattern in ("progress.csv", EVENT_FILES, "*.csv"):
        found = [file for file in files if fnmatchcase(file.name, pattern)]
        if found:
            # A resumed run has several event files in one folder; other folders hold other runs.
            return [file for file in found if file.parent == found[-1].parent]
    return []


def read_log(path: Path, trainer: str | None = None) -> ForeignLog:
    """The log at a path; `trainer` replaces the recognition by metric names."""
    files = find_log(path)
    if not files:
        raise UserError(
            f"{path} has no TensorBoard files and no CSV.",
            ["the folder with events.out.tfevents.* or progress.csv", "batchwright doctor RUN"],
        )
    with explain_refusal(path, "read", "another file"):
        points = [point for file in files for point in _points(file)]
    names = {point.tag for point in points}
    found = trainer or recognise(names)
    if found is None or not names & set(TRAINERS[found]):
        raise UserError(
            f"no metric in {files[0]} has a name used by {found or ', '.join(TRAINERS)}.",
            [f"--from {name}" for name in TRAINERS if name != found],
        )
    records = _to_records(found, points)
    return ForeignLog(path, found, records, _facts(found, records))


def _points(file: Path) -> Iterable[Scalar]:
    if not stat.S_ISREG(file.stat().st_mode):
        raise UserError(f"{file} is no file.", ["another file"])
    return _csv_points(file) if file.suffix == ".csv" else read_scalars(file)


def _csv_points(path: Path) -> Iterable[Scalar]:
    """Each number of a CSV with its step."""
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            reader = csv.DictReader(file)
            columns = {name: _metric_of(name) for name in reader.fieldnames or [] if name}
            steps = [name for name in STEP_COLUMNS if name in columns]
            points = []
            for index, row in enumerate(reader):
                step = _number(row.get(steps[0])) if steps else float(index)
                step = float(index) if step is None else step
                for column, name in columns.items():
                    value = _number(row.get(column))
                    if name is not None and value is not None:
                        points.append(Scalar(int(step), name, value))
            return points
    except (OSError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {error}.", ["another file"]) from None


def _metric_of(column: str) -> str | None:
    """W&B's `run - losses/entropy` -> `losses/entropy`; None for its columns of minima and maxima."""
    if column.endswith(("__MIN", "__MAX")):
        return None
    return column.rsplit(" - ", 1)[-1]


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except (TypeError, ValueError):
        return None


def _to_records(trainer: str, points: Iterable[Scalar]) -> list[dict[str, Any]]:
    """One record per update; values logged between two updates, such as single episode returns, are averaged."""
    scalars: list[Scalar] = []
    for point in points:
        found = translated(trainer, point.tag, point.value)
        scalars += [] if found is None else [Scalar(point.step, *found)]
    updates = sorted({point.step for point in scalars if point.tag in LOSSES})
    updates = updates or sorted({point.step for point in scalars})
    edges = np.array(updates)
    gathered: list[dict[str, list[float]]] = [{} for _ in updates]
    for point in scalars:
        index = min(int(np.searchsorted(edges, point.step)), len(updates) - 1)
        gathered[index].setdefault(point.tag, []).append(point.value)
    records = []
    for index, (step, gained) in enumerate(zip(updates, gathered, strict=True)):
        record: dict[str, Any] = {"iteration": index, "env_steps": step}
        for name, numbers in gained.items():
            if name not in ("iteration", "env_steps"):
                finite = [number for number in numbers if math.isfinite(number)]
                record[name] = float(np.mean(finite)) if finite else math.nan
        if len(gained.get("episode_return", [])) > 1:
            record["episode_return_std"] = float(np.std(gained["episode_return"]))
            record["episodes"] = len(gained["episode_return"])
        records.append(record)
    return records


def _facts(trainer: str, records: list[dict[str, Any]]) -> Facts:
    """The settings that can be derived from a log; the rest stays unknown."""
    names = {name for record in records for name in record}
    algo = "sac" if "temperature" in names or "actor_loss" in names else "ppo" if "kl" in names else None
    algo = algo or ("dqn" if "critic_loss" in names else "a2c")
    known: dict[str, Any] = {"algo": algo, "regime": "replay" if algo in ("sac", "dqn") else "on-policy"}
    for name in ("learning_rate", "clip_range"):
        values = [record[name] for record in records if isinstance(record.get(name), float)]
        if values:
            known[name] = max(values)
    steps = [record["env_steps"] for record in records]
    if len(steps) > 2 and known["regime"] == "on-policy":
        known["rollout_transitions"] = int(np.median(np.diff(steps)))
    passes = [record["epochs_total"] for record in records if "epochs_total" in record]
    if len(passes) > 2 and algo == "ppo":
        known["epochs"] = int(np.median(np.diff(passes)))
    if "action_std" in names:
        known["discrete"] = False
    return Facts(known, trainer=trainer)
