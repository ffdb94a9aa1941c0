"""Copies for other tools: they agree with the record, and one that breaks costs a warning."""

import csv
import errno
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.watch.json_lines import numbers_of
from batchwright.watch.metric_groups import grouped_name
from batchwright.watch.mlflow_writer import allowed_name
from batchwright.watch.writers import CsvWriter, SafeWriter, make_writers
from run_batchwright import plan


class Breaking:
    """A writer whose disk fills at a certain write, and which cannot even be closed then."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.written = 0

    def write(self, record: Mapping[str, Any]) -> None:
        if self.written == self.at:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written += 1

    def close(self) -> None:
        raise RuntimeError("closed badly")


def record(iteration: int, **more: Any) -> dict[str, Any]:
    return {"iteration": iteration, "env_steps": 64 * (iteration + 1), "loss": 0.5 / (iteration + 1), **more}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_writer_that_fails_warns_once_is_dropped_and_raises_nothing() -> None:
    warnings: list[str] = []
    broken = Breaking(at=2)
    writer = SafeWriter("csv", lambda: broken, warnings.append)
    for iteration in range(5):
        writer.write(record(iteration))
    writer.close()
    assert broken.written == 2
    assert not writer.works
    assert len(warnings) == 1
    assert "the csv writer failed" in warnings[0]
    assert "No space left on device" in warnings[0]


def test_a_writer_that_cannot_start_or_cannot_close_warns_once() -> None:
    for make in (lambda: Breaking(at=1 // 0), lambda: Breaking(at=9)):
        warnings: list[str] = []
        writer = SafeWriter("wandb", make, warnings.append)
        writer.write(record(0))
        writer.close()
        writer.close()
        assert len(warnings) == 1


def test_an_interrupt_by_the_user_passes_through() -> None:
    class Interrupted(Breaking):
        def write(self, record: Mapping[str, Any]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SafeWriter("csv", lambda: Interrupted(0), print).write(record(0))


def test_an_unknown_writer_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="tensorboard"):
        make_writers(["tensorbord"], RunDir(tmp_path), print)


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "tensorboardX"), ("wandb", "wandb"), ("mlflow", "mlflow")]
)
def test_a_missing_package_is_refused_with_its_extra(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError) as refused:
        make_writers([name], RunDir(tmp_path), print)
    assert refused.value.fixes == (f"pip install 'batchwright[{name}]'",)


def test_csv_has_a_row_per_iteration_and_a_column_for_what_comes_later(tmp_path: Path) -> None:
    (writer,) = make_writers(["csv", "csv"], RunDir(tmp_path), pytest.fail)
    for iteration in range(3):
        writer.write(record(iteration))
    writer.write(record(3, evaluation_mean=7.5, loss=np.float32(0.25)))
    writer.write(record(4))
    writer.close()
    found = rows(tmp_path / "metrics.csv")
    assert [row["iteration"] for row in found] == ["0", "1", "2", "3", "4"]
    assert [row["evaluation_mean"] for row in found] == ["", "", "", "7.5", ""]
    assert float(found[1]["loss"]) == 0.25
    assert found[3]["loss"] == "0.25"


def test_csv_of_a_resumed_run_has_each_iteration_once(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    for start, stop in ((0, 6), (4, 8)):
        writer = CsvWriter(path)
        for iteration in range(start, stop):
            writer.write(record(iteration))
    with path.open("a") as file:
        file.write("8,57")  # killed in the middle of a row
    CsvWriter(path).write(record(8))
    assert [row["iteration"] for row in rows(path)] == [str(iteration) for iteration in range(9)]


def test_only_finite_numbers_are_passed_on() -> None:
    values = {"a": 1, "b": np.float32(0.5), "c": None, "d": "text", "e": float("nan"), "f": [1], "g": np.array(2.0)}
    assert numbers_of(values) == {"a": 1.0, "b": 0.5, "g": 2.0}


def events(folder: Path) -> list[Any]:
    """The events of all files of a folder, each record's frame taken apart by hand."""
    from tensorboardX.proto import event_pb2

    found = []
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            found.append(event_pb2.Event.FromString(data[12 : 12 + size]))
            data = data[16 + size :]
    return found


def test_tensorboard_events_hold_every_metric_over_environment_steps(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    (writer,) = make_writers(["tensorboard"], RunDir(tmp_path), pytest.fail)
    for iteration in range(3):
        writer.write(record(iteration, note="text"))
    writer.close()
    version, session, *summaries = events(tmp_path / "tensorboard")
    assert version.file_version == "brain.Event:2"
    assert session.session_log.status == session.session_log.START
    assert [event.step for event in summaries] == [64, 128, 192]
    values = {value.tag: value.simple_value for value in summaries[1].summary.value}
    assert values == {"iteration": 1.0, "env_steps": 128.0, "train/loss": 0.25}
    assert "torch" not in sys.modules
    assert "tensorflow" not in sys.modules


def test_a_resumed_run_marks_its_start_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    for start in (0, 2):
        (writer,) = make_writers(["tensorboard"], RunDir(tmp_path), pytest.fail)
        for iteration in range(start, start + 3):
            writer.write(record(iteration))
        writer.close()
    assert len([*(tmp_path / "tensorboard").iterdir()]) == 2
    starts = [event.step for event in events(tmp_path / "tensorboard") if event.HasField("session_log")]
    assert starts == [64, 192]


def test_wandb_writes_offline_into_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "elsewhere"))
    with_plan(tmp_path)
    (writer,) = make_writers(["wandb"], RunDir(tmp_path), pytest.fail)
    for iteration in range(3):
        writer.write(record(iteration))
    writer.close()
    (stored,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    until = time.monotonic() + 30  # wandb's own process may write a moment after `finish` has returned
    while stored.read_bytes().count(b"env_steps") < 3 and time.monotonic() < until:
        time.sleep(0.05)
    assert stored.read_bytes().count(b"env_steps") >= 3
    assert b"loss" in stored.read_bytes()
    assert b"gae_lambda" in stored.read_bytes()  # the plan is its config


def test_mlflow_gets_the_plan_and_grouped_names_in_the_run_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = pytest.importorskip("mlflow.tracking")  # the extra mlflow, which make test does not install
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with_plan(tmp_path)
    (writer,) = make_writers(["mlflow"], RunDir(tmp_path), pytest.fail)
    for iteration in range(3):
        writer.write(record(iteration, **{"component/a+b": 1.0}))
    writer.close()
    client = tracking.MlflowClient((tmp_path / "mlflow").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("batchwright").experiment_id])
    assert run.data.params["gae_lambda"] == "0.9"
    assert run.info.status == "FINISHED"
    points = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(point.step, point.value) for point in points] == [(64, 0.5), (128, 0.25), (192, pytest.approx(0.5 / 3))]
    assert run.data.metrics["rollout/component/a_b"] == 1.0


def test_names_for_mlflow_have_its_letters_alone() -> None:
    assert allowed_name("rollout/component/a+b (%)") == "rollout/component/a_b ___"
    assert allowed_name("time/steps_per_second") == "time/steps_per_second"


def with_plan(folder: Path) -> None:
    (folder / "plan.json").write_text(plan(gae_lambda=0.9).to_json())


def test_tensorboard_has_the_numbers_of_the_plan_as_hyper_parameters(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    with_plan(tmp_path)
    (writer,) = make_writers(["tensorboard"], RunDir(tmp_path), pytest.fail)
    writer.write(record(0))
    writer.close()
    plugins = [
        value.metadata.plugin_data for event in events(tmp_path / "tensorboard") for value in event.summary.value
    ]
    shown = b"".join(data.content for data in plugins if data.plugin_name == "hparams")
    assert b"gae_lambda" in shown


@pytest.mark.parametrize(
    ("name", "grouped"),
    [
        ("episode_return", "rollout/episode_return"),
        ("info/heating", "rollout/info/heating"),
        ("entropy", "train/entropy"),
        ("eval_mean", "eval/mean"),
        ("evaluation_seconds", "time/evaluation_seconds"),
        ("steps_per_second", "time/steps_per_second"),
        ("env_steps", "env_steps"),
    ],
)
def test_metrics_are_grouped_as_tools_show_them(name: str, grouped: str) -> None:
    assert grouped_name(name) == grouped
