"""Whole runs through LeRobot's own code: trained, killed, resumed, merged, short of memory, in several processes."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from prepared_runs import SMALL_ACT

from batchwright.lerobot.lerobot_python import LeRobotPython
from batchwright.watch.metric_log import first_difference, read_events, read_metrics
from run_batchwright import run_line


def weights(run: Path) -> np.ndarray:
    """All weights of the last checkpoint that are float32, in the order of their names."""
    data = (run / "checkpoints" / "last" / "pretrained_model" / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    parts = sorted((name, part) for name, part in json.loads(data[8:start]).items() if part.get("dtype") == "F32")
    offsets = [part["data_offsets"] for _, part in parts]
    return np.concatenate([np.frombuffer(data[start + begin : start + end], np.float32) for begin, end in offsets])


def distance(one: Path, other: Path) -> float:
    """The mean difference of the weights of two runs, in steps of the learning rate that both began with."""
    return float(np.abs(weights(one) - weights(other)).mean()) / 1e-3


def events_of(run: Path, kind: str) -> list[dict]:
    return [event for event in read_events(run / "events.jsonl") if event["kind"] == kind]


def losses(run: Path) -> list[float]:
    return [record["loss"] for record in read_metrics(run / "metrics.jsonl")]


def test_a_killed_run_goes_on_as_if_it_had_never_stopped(trained: SimpleNamespace) -> None:
    whole, killed = trained.folder / "whole", trained.folder / "killed"
    assert trained.codes["killed"] == [-9, 0]
    assert events_of(killed, "resume")[0]["message"] == "resumed after update 4"
    records = [read_metrics(run / "metrics.jsonl") for run in (whole, killed)]
    assert len(records[0]) == 3
    assert first_difference(*records) is None
    files = [(run / "checkpoints/last/pretrained_model/model.safetensors").read_bytes() for run in (whole, killed)]
    assert files[0] == files[1]


def test_a_signal_saves_and_the_last_checkpoint_is_whole(trained: SimpleNamespace) -> None:
    run = trained.folder / "stopped"
    assert trained.codes["stopped"] == [130]
    events = read_events(run / "events.jsonl")
    assert [event["kind"] for event in events][-2:] == ["checkpoint", "interrupted"]
    done = events[-1]["update"]
    assert (run / "checkpoints" / f"{done:06d}" / "training_state" / "optimizer_state.safetensors").is_file()


def test_act_on_two_merged_datasets_by_weight_tells_actions_better_than_their_mean(trained: SimpleNamespace) -> None:
    run = trained.folder / "learns"
    assert trained.codes["learns"] == [0]
    assert read_metrics(run / "metrics.jsonl")[-1]["epochs"] == pytest.approx(240 / 150)  # 6 episodes of 25 frames
    assert np.mean(losses(run)[-5:]) < 0.5 * np.mean(losses(run)[:5])
    assert trained.played["policy"] < 0.7 * trained.played["mean_action"]


def test_smolvla_learns_while_its_micro_batch_grows(trained: SimpleNamespace) -> None:
    run = trained.folder / "grows"
    assert trained.codes["grows"] == [0]
    assert np.mean(losses(run)[-5:]) < 0.9 * np.mean(losses(run)[:5])
    assert [event["samples_per_step"] for event in events_of(run, "growth")] == [3, 4]  # by a third, every 20 updates
    assert read_metrics(run / "metrics.jsonl")[-1]["samples_per_step"] == 4


def test_smolvla_trains_on_video_in_bf16_with_checkpointing(trained: SimpleNamespace) -> None:
    assert trained.codes["vla-video"] == [0]
    assert np.isfinite(losses(trained.folder / "vla-video")).all()


@pytest.mark.parametrize(("name", "update", "sizes"), [("short", 0, [3, 2]), ("short-step", 4, [4])])
def test_out_of_memory_in_the_loop_keeps_updates_samples_and_schedule(
    trained: SimpleNamespace, name: str, update: int, sizes: list[int]
) -> None:
    short, plain = trained.folder / name, trained.folder / "calm"
    assert trained.codes[name] == [0]
    assert [(event["update"], event["samples_per_step"]) for event in events_of(short, "rung")] == [
        (update, size) for size in sizes
    ]
    records = [read_metrics(run / "metrics.jsonl") for run in (short, plain)]
    for kept in ("updates", "samples", "learning_rate"):
        assert [record[kept] for record in records[0]] == [record[kept] for record in records[1]]
    assert distance(short, plain) < 0.1


def test_two_processes_compute_the_updates_of_one_and_go_down_together(trained: SimpleNamespace) -> None:
    two, one = trained.folder / "two", trained.folder / "calm"
    assert trained.codes["two"] == [0, 0]
    assert [(event["update"], event["samples_per_step"]) for event in events_of(two, "rung")] == [(3, 1)]
    assert losses(two) == pytest.approx(losses(one), rel=1e-3)
    assert distance(two, one) < 0.1
    assert read_metrics(two / "metrics.jsonl")[-1]["samples"] == 36


def test_our_other_commands_read_such_a_run(trained: SimpleNamespace) -> None:
    run, other = trained.folder / "short", trained.folder / "calm"
    doctor = run_line(f"doctor {run} --json").json
    assert doctor["status"] == "finished"
    assert "rung-taken" in [found["finding"] for found in doctor["findings"]]
    assert run_line(f"compare {run} {other}").code == 0
    assert run_line(f"report {run}").code == 0
    assert (run / "report.html").is_file()


def test_the_command_plans_traces_trains_and_a_second_plan_is_at_once(
    lerobot: LeRobotPython, toy_data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    run = tmp_path / "run"
    flags = "--samples-per-update 6 --samples-per-step 4 --workers 0 --total-updates 4 --hub-offline"
    line = f"--policy act --dataset {toy_data['images']} {flags}"
    answer = run_line(f"lerobot train {line} --run-dir {run} --json -- {SMALL_ACT}")
    assert answer.code == 0, answer.err
    assert (answer.json["updates"], answer.json["samples"]) == (4, 24)
    assert (run / "report.html").is_file()
    # The interpreter is asked for nothing now: its answer would be a mistake.
    monkeypatch.setattr("batchwright.lerobot.lerobot_plan.call", lambda *words: pytest.fail("traced again"))
    plan = run_line(f"lerobot plan {line} --json -- {SMALL_ACT}").json
    assert "traced" in plan["quantities"]["fixed_bytes"]["reason"]
    assert plan["quantities"]["sample_bytes"]["reason"].endswith("traced at the shapes of the data")
