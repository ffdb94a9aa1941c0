"""Runs without a usable checkpoint, or with a record that was cut: nothing is emptied in silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import batchwright
from batchwright.api import prepare
from batchwright.core.errors import UserError
from batchwright.watch.metric_log import read_events
from run_batchwright import refusal, run
from small_runs import SMALL, record


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def said(run: Path, kind: str) -> list[str]:
    return [event["message"] for event in read_events(run / "events.jsonl") if event["kind"] == kind]


@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_a_finished_run_without_checkpoints_is_refused_and_keeps_its_record(copy: Path, how: str) -> None:
    if how == "deleted":
        shutil.rmtree(copy / "checkpoints")
    else:
        for state in (copy / "checkpoints").glob("*/state.npz"):
            state.write_bytes(b"damaged")
    before = (copy / "metrics.jsonl").read_bytes()
    answer = run("resume", str(copy))
    assert answer.code == 2
    assert "has 12 records and no usable checkpoint" in answer.err
    assert "--from-start" in answer.err
    assert (copy / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_from_start_keeps_the_record_beside_and_makes_the_same_again(copy: Path, finished: Path, how: str) -> None:
    if how == "deleted":
        shutil.rmtree(copy / "checkpoints")
    else:
        (copy / "checkpoints" / "000000012" / "manifest.json").write_text("{")
    before = (copy / "metrics.jsonl").read_bytes()
    answer = run("resume", str(copy), "--from-start")
    assert answer.code == 0, answer.err
    (beside,) = copy.glob("metrics.*.jsonl")
    assert beside.read_bytes() == before
    assert f"its checkpoints are lost; 12 records kept in {beside.name}" in answer.out
    assert len(list(copy.glob("checkpoints.*"))) == (how == "damaged")
    assert record(copy) == record(finished)
    assert run("resume", str(copy)).code == 0


def test_from_start_is_refused_where_a_checkpoint_is_good(copy: Path) -> None:
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(UserError, match="no usable checkpoint"):
        batchwright.resume(copy, quiet=True)
    batchwright.resume(copy, quiet=True, from_start=True)
    (copy / "events.jsonl").write_text("")
    (copy / "metrics.jsonl").write_text("")
    assert "has a good checkpoint, of iteration 12" in refusal(f"resume {copy} --from-start").err


def test_a_run_killed_before_its_first_checkpoint_starts_anew_by_itself(finished: Path, tmp_path: Path) -> None:
    killed = prepare(run_dir=tmp_path / "killed", quiet=True, **SMALL)
    lines = (finished / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (killed / "metrics.jsonl").write_bytes(b"".join(lines[:3]))
    batchwright.resume(killed, quiet=True)
    assert record(killed) == record(finished)
    (beside,) = killed.glob("metrics.*.jsonl")
    assert beside.read_bytes() == b"".join(lines[:3])
    (text,) = said(killed, "resume")
    assert text.startswith(f"started anew: it was stopped before its first checkpoint; 3 records kept in {beside.name}")


def test_a_run_whose_last_checkpoint_is_at_the_end_of_its_plan_is_finished(copy: Path) -> None:
    events = [line for line in (copy / "events.jsonl").read_text().splitlines() if '"kind": "finished"' not in line]
    (copy / "events.jsonl").write_text("\n".join(events) + "\n")
    answer = run("resume", str(copy))
    assert answer.code == 0
    assert "finished after iteration 12: nothing is left to do" in answer.out
    assert said(copy, "finished") == ["finished after iteration 12"], "its end is recorded now"
    before = (copy / "events.jsonl").read_bytes()
    assert run("resume", str(copy)).code == 0
    assert (copy / "events.jsonl").read_bytes() == before


def test_a_hole_in_the_record_is_said(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (copy / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_bytes(b"".join(lines[:4]))
    batchwright.resume(copy, quiet=True)
    assert "metrics.jsonl lacks 8 records of iterations 4 to 11" in capsys.readouterr().out
    assert len(said(copy, "record")) == 1


def test_a_directory_with_settings_alone_is_told_what_it_is(copy: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.mkdir()
    shutil.copy(copy / "config.yaml", half)
    for command in (f"resume {half}", f"eval {half}", f"train CartPole-v1 --run-dir {half}"):
        assert "preparing it was cut short, nothing was trained" in refusal(command).err
