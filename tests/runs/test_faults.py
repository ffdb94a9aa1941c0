"""What environments do wrong in training: found, named, kept for replay, and survived or refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.runs.loop import DivergedError
from batchwright.watch.metric_log import read_events
from small_runs import FAULTY, record, start


def train(folder: Path, factory: str, **changes: Any) -> Any:
    wishes = {"engine": "gymnasium-sync", "num_envs": 4, "total_steps": 64 * 5, **changes}
    return start(folder, env=f"{FAULTY}:{factory}", **wishes)


def said(run: Path, kind: str) -> list[str]:
    return [event["message"] for event in read_events(run / "events.jsonl") if event["kind"] == kind]


def test_a_reward_that_is_no_number_is_named_dumped_and_the_update_undone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(run, "NanRewardOnce").iterations == 5
    (message,) = said(run, "non-finite")
    # The 20th step comes after one reset, in row 20 (counted from 0); rollouts have 16 rows: row 4 of the second.
    assert "reward" in message
    assert "environment 2 at step 4 of the rollout is nan" in message
    digests = [line["parameters_digest"] for line in record(run)]
    assert digests[1] == digests[0], "the update of the second iteration is undone"
    assert len(set(digests)) == 4
    with np.load(next((run / "dumps").iterdir()), allow_pickle=False) as kept:
        assert np.isnan(kept[".reward"][4, 2, 0])
        assert kept["parameters"].ndim == 1


def test_an_infinite_observation_is_named_with_its_number(tmp_path: Path) -> None:
    train(tmp_path / "run", "InfiniteObservation")
    (message,) = said(tmp_path / "run", "non-finite")
    assert "observation[1] of environment 1 at step 3 of the rollout is inf" in message


def test_faults_that_go_on_stop_the_run_and_keep_the_last_good_parameters(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(DivergedError, match="reward"):
        train(run, "NanReward", total_steps=64 * 20, checkpoint_every=1)
    assert len(said(run, "non-finite")) == 3
    assert len(said(run, "diverged")) == 1
    with np.load(sorted((run / "checkpoints").iterdir())[-1] / "state.npz", allow_pickle=False) as kept:
        assert np.isfinite(kept[".train.params"]).all()
    assert len({line["parameters_digest"] for line in record(run)}) == 1


def test_an_environment_that_raises_is_restarted_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path / "run", "RaisesOnce").iterations == 5
    (message,) = said(tmp_path / "run", "environment")
    assert re.fullmatch(r"RuntimeError: the simulator lost its licence \(.*faulty_envs\.py:\d+, in step\)", message)
    told = capsys.readouterr().out
    assert "environment 1 was restarted (1 of at most 3): RuntimeError: the simulator lost its licence" in told


def test_an_environment_that_raises_in_reset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no display found"):
        train(tmp_path / "run", "RaisesInReset")


def test_actions_stay_inside_bounds_that_float32_cannot_write(tmp_path: Path) -> None:
    train(tmp_path / "run", "SquareActions", log_std_start=2.0)
    assert said(tmp_path / "run", "environment") == []
