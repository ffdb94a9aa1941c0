"""Whole runs through LeRobot's own code: trained, killed, resumed, merged, read again by our other commands."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lerobot_scripts import inside

from batchwright.lerobot.lerobot_python import LeRobotPython
from batchwright.watch.metric_log import first_difference, read_events, read_metrics
from run_batchwright import run_line

SMALL = (
    "-- --policy.dim_model=32 --policy.n_heads=2 --policy.dim_feedforward=64 --policy.n_encoder_layers=1 "
    "--policy.n_vae_encoder_layers=1 --policy.chunk_size=4 --policy.n_action_steps=4 "
    "--policy.pretrained_backbone_weights=null --policy.device=cpu"
)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def train_line(data: str, run: Path, updates: int, more: str = "") -> str:
    return (
        f"lerobot train --policy act --dataset {data} --samples-per-update 6 --samples-per-step 4 --workers 0 "
        f"--total-updates {updates} --updates-per-iteration 2 --checkpoint-every 2 --hub-offline --run-dir {run} "
        f"--learning-rate 1e-3 {more} {SMALL}"
    )


def test_a_killed_run_goes_on_as_if_it_had_never_stopped(
    lerobot: LeRobotPython, toy_data: dict[str, Path], tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_line(train_line(str(toy_data["images"]), whole, 8)).code == 0
    words = train_line(str(toy_data["images"]), killed, 8).split()
    process = subprocess.Popen(
        [sys.executable, "-m", "batchwright.cli", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 600
    while not (killed / "checkpoints" / "000004").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(1)  # the training process goes with it
    assert len(read_metrics(killed / "metrics.jsonl")) < 4
    assert run_line(f"resume {killed}").code == 0
    records = [read_metrics(run / "metrics.jsonl") for run in (whole, killed)]
    assert len(records[0]) == 4
    assert first_difference(*records) is None
    weights = [(run / "checkpoints/last/pretrained_model/model.safetensors").read_bytes() for run in (whole, killed)]
    assert weights[0] == weights[1]


def test_a_run_is_one_of_ours(lerobot: LeRobotPython, toy_data: dict[str, Path], tmp_path: Path) -> None:
    run, data = tmp_path / "run", f"{toy_data['images']} {toy_data['more']}"
    answer = run_line(train_line(data, run, 40, "--json"))
    assert answer.code == 0
    assert answer.json["updates"] == 40
    assert answer.json["samples"] == 240
    records = read_metrics(run / "metrics.jsonl")
    assert records[-1]["epochs"] == pytest.approx(240 / 150)  # 6 episodes of 25 frames, merged
    assert sum(r["loss"] for r in records[-4:]) < sum(r["loss"] for r in records[:4])
    assert (run / "report.html").is_file()
    assert run_line(f"doctor {run} --json").json["status"] == "finished"
    assert run_line(f"compare {run} {run}").code == 0
    checkpoint = run / "checkpoints" / "last" / "pretrained_model"
    errors = json.loads(inside(lerobot, "play_policy.py", str(checkpoint), str(toy_data["images"])).splitlines()[-1])
    assert errors["policy"] < 0.7 * errors["mean_action"]


def test_ctrl_c_saves_and_resume_finishes(lerobot: LeRobotPython, toy_data: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = train_line(str(toy_data["video"]), run, 2000, "--samples-per-update 4").split()
    process = subprocess.Popen([sys.executable, "-m", "batchwright.cli", *words], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while not (run / "metrics.jsonl").exists() or not read_metrics(run / "metrics.jsonl"):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    events = read_events(run / "events.jsonl")
    assert [event["kind"] for event in events][-2:] == ["checkpoint", "interrupted"]
    done = events[-1]["update"]
    assert (run / "checkpoints" / f"{done:06d}" / "training_state" / "optimizer_state.safetensors").is_file()
