"""`--doctor act`: what is changed is said, is in the checkpoint, and is the same in two runs and in a resumed one."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.runs.launch import Result
from batchwright.runs.loop import DivergedError
from batchwright.watch.metric_log import read_events
from small_runs import FAULTY, SMALL, record, start

# Rollouts of 16 transitions, 60 of them: far below the 2048 that the planner starts with.
TINY_ROLLOUTS: dict[str, Any] = {
    "preset": "none",
    "rollout_steps": 4,
    "minibatches": 1,
    "epochs": 1,
    "total_steps": 16 * 60,
    "doctor": "act",
    "checkpoint_every": 25,
}


def remedies(run: Path) -> list[str]:
    return [event["message"] for event in read_events(run / "events.jsonl") if event["kind"] == "remedy"]


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A run of tiny rollouts in which the doctor acted."""
    return start(tmp_path_factory.mktemp("doubled") / "run", **TINY_ROLLOUTS)


def test_a_tiny_rollout_is_doubled_and_the_promised_steps_are_kept(doubled: Result) -> None:
    said = remedies(doubled.run_dir)
    assert said and said[0].startswith("rollouts of 8 steps instead of 4 from here on: rollout-too-small")
    steps = [line["env_steps"] for line in record(doubled.run_dir)]
    taken = {later - sooner for sooner, later in pairwise(steps)}
    assert 16 in taken and 32 in taken  # 4 environments x 4 steps, then x 8
    assert 960 <= doubled.env_steps < 960 + max(taken)


def test_a_resumed_run_with_remedies_is_the_same_to_the_bit(doubled: Result, tmp_path: Path) -> None:
    whole = doubled.run_dir
    cut = start(tmp_path / "cut", **TINY_ROLLOUTS).run_dir
    # As a kill after the checkpoint of iteration 25 leaves it: the later ones never came to be.
    for folder in sorted((cut / "checkpoints").glob("[0-9]*"))[1:]:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert json.loads((next((cut / "checkpoints").glob("[0-9]*")) / "manifest.json").read_text())["iteration"] == 25
    batchwright.resume(cut, quiet=True)
    assert record(cut) == record(whole)


def test_divergence_goes_back_to_good_parameters_with_a_lower_rate(tmp_path: Path) -> None:
    env = f"{FAULTY}:HugeRewards"
    with pytest.raises(DivergedError):
        start(tmp_path / "said", env=env, engine="gymnasium-sync", preset="none", learning_rate=1e-3)
    run = start(
        tmp_path / "run", env=env, engine="gymnasium-sync", preset="none", learning_rate=1e-3, doctor="act"
    ).run_dir
    assert remedies(run)[0].startswith(
        "back to the last good parameters, learning rate x 0.3 (x 0.3 in all): parameter"
    )
    rates = [line["learning_rate"] for line in record(run)]
    assert rates[0] == pytest.approx(1e-3) and rates[-1] == pytest.approx(3e-4)


def test_a_reward_that_is_no_number_is_not_the_learning_rates_fault(tmp_path: Path) -> None:
    env = f"{FAULTY}:NanReward"
    with pytest.raises(DivergedError):
        start(tmp_path / "run", env=env, engine="gymnasium-sync", doctor="act", preset="none")
    assert remedies(tmp_path / "run") == []


def test_where_the_doctor_cannot_act_it_says_so_before_a_run_is_made(tmp_path: Path) -> None:
    wishes = {
        name: value for name, value in SMALL.items() if name not in ("rollout_steps", "total_steps", "minibatches")
    }
    with pytest.raises(UserError, match="doctor act"):
        batchwright.train(run_dir=tmp_path / "run", quiet=True, doctor="act", rollout_episodes=3, **wishes)
    assert not (tmp_path / "run").exists()
