"""Copies of the metrics for other tools, best effort: a writer that fails is dropped with a warning."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from batchwright.core.errors import UserError, unknown
from batchwright.core.files import write_atomically
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import make_folder, open_plain, read_json
from batchwright.planning.plan import plan_from_dict
from batchwright.watch.json_lines import json_safe

OnWarning = Callable[[str], None]


class Writer(Protocol):
    """Receives the record of each iteration; a resumed run creates it again and continues after its checkpoint."""

    def write(self, record: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class SafeWriter:
    """Wraps a writer so that it never raises: at the first failure it warns once and drops the writer."""

    def __init__(self, name: str, make: Callable[[], Writer], on_warning: OnWarning) -> None:
        self.name = name
        self._on_warning = on_warning
        self._writer: Writer | None = None
        try:
            self._writer = make()
        except UserError:  # a package that is not installed: reported before training starts
            raise
        except Exception as error:
            self._drop(error)

    @property
    def works(self) -> bool:
        return self._writer is not None

    def write(self, record: Mapping[str, Any]) -> None:
        if self._writer is not None:
            try:
                self._writer.write(record)
            except Exception as error:
                self._drop(error)

    def close(self) -> None:
        if self._writer is not None:
            try:
                self._writer.close()
            except Exception as error:
                self._drop(error)
            self._writer = None

    def _drop(self, error: Exception) -> None:
        broken, self._writer = self._writer, None
        self._on_warning(
            f"the {self.name} writer failed and is disabled: {type(error).__name__}: {error}. "
            "metrics.jsonl is complete."
        )
        if broken is not None:
            with contextlib.suppress(Exception):
                broken.close()


class CsvWriter:
    """`metrics.csv`, a column per metric; a metric that first appears later gets a column that is empty before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] = []
        self._started = False

    def write(self, record: Mapping[str, Any]) -> None:
        record = json_safe(record)
        if not self._started:  # a killed run writes the rows after its checkpoint again
            self._rewrite([row for row in self._rows() if int(row["iteration"]) < record["iteration"]], record)
            self._started = True
        elif any(name not in self._columns for name in record):
            self._rewrite(self._rows(), record)
        with os.fdopen(open_plain(self.path, os.O_WRONLY | os.O_APPEND), "a", newline="") as file:
            csv.DictWriter(file, self._columns, restval="").writerow(record)

    def close(self) -> None:
        """Does nothing: the file is closed after every row."""

    def _rows(self) -> list[dict[str, str]]:
        try:
            handle = open_plain(self.path)
        except FileNotFoundError:
            return []
        with os.fdopen(handle, newline="") as file:
            reader = csv.DictReader(file)
            self._columns = list(reader.fieldnames or ())
            return [row for row in reader if (row.get("iteration") or "").isdigit() and None not in row.values()]

    def _rewrite(self, rows: list[dict[str, str]], record: Mapping[str, Any]) -> None:
        self._columns = list(dict.fromkeys((*self._columns, *record)))
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, self._columns, restval="")
        table.writeheader()
        table.writerows(rows)
        write_atomically(self.path, text.getvalue().encode())


def check_writers(names: Iterable[str]) -> None:
    """Raises for an unknown writer name; called before a run directory is created."""
    for name in names:
        if name not in _MAKERS:
            raise unknown("writer", name, _MAKERS, "--writers")


def make_writers(names: Iterable[str], run_dir: RunDir, on_warning: OnWarning) -> list[SafeWriter]:
    """The requested writers; raises for an unknown name or a missing package."""
    names = list(dict.fromkeys(names))
    check_writers(names)
    return [SafeWriter(name, partial(_MAKERS[name], run_dir), on_warning) for name in names]


def _make_csv(run_dir: RunDir) -> Writer:
    return CsvWriter(run_dir.path / "metrics.csv")


def _make_tensorboard(run_dir: RunDir) -> Writer:
    from batchwright.watch.tensorboard_writer import TensorBoardWriter

    make_folder(run_dir.path / "tensorboard", 1)
    return TensorBoardWriter(run_dir.path / "tensorboard", _settings(run_dir))


def _make_wandb(run_dir: RunDir) -> Writer:
    from batchwright.watch.wandb_writer import WandbWriter

    make_folder(run_dir.path / "wandb", 1)
    return WandbWriter(run_dir.path, _settings(run_dir))


def _make_mlflow(run_dir: RunDir) -> Writer:
    from batchwright.watch.mlflow_writer import MlflowWriter

    return MlflowWriter(run_dir.path, _settings(run_dir))


def _settings(run_dir: RunDir) -> dict[str, Any]:
    """The numbers of a run's plan by name; empty where it cannot be read."""
    try:
        plan = plan_from_dict(read_json(run_dir.plan_path))
    except (OSError, ValueError):
        return {}
    values = {name: quantity.value for name, quantity in plan.quantities.items() if quantity.value is not None}
    return {"env": plan.task.name or "", "algo": plan.algo, **values}


_MAKERS: dict[str, Callable[[RunDir], Writer]] = {
    "csv": _make_csv,
    "tensorboard": _make_tensorboard,
    "wandb": _make_wandb,
    "mlflow": _make_mlflow,
}
