"""Which remedies of the doctor are tried, how they are compared with the original, and a whole trial."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import batchwright
from batchwright.api import plan
from batchwright.doctor.finding import NOTE, WARNING, Finding
from batchwright.doctor.run_history import RunHistory, facts_of
from batchwright.tuning.remedy_trials import HELPED, SAME, WORSE, as_settings, compared, remedies, returns_before
from run_batchwright import run_line


def finding(name: str, *flags: str, severity: int = WARNING) -> Finding:
    return Finding(name, severity, 0.5, "evidence", "cause", "source", flags)


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ("--learning-rate 0.001", {"learning_rate": "0.001"}),
        ("--popart --no-normalize-rewards", {"popart": True, "normalize_rewards": False}),
        ("--log-std-start -0.5 --epochs 4", {"log_std_start": "-0.5", "epochs": "4"}),
    ],
)
def test_flags_become_settings(flags: str, settings: dict[str, object]) -> None:
    assert as_settings(flags) == settings


def test_the_first_flags_of_alarms_are_tried_before_second_ones_and_each_change_once() -> None:
    found = [
        finding("a", "--learning-rate 0.001", "--learning-rate 0.001 --kl-stop 0.03"),
        finding("b", "--learning-rate 0.001"),
        finding("note", "--epochs 1", severity=NOTE),
        finding("c", "--normalize-obs"),
    ]
    history = RunHistory([], facts_of(plan("CartPole-v1")))
    tried = [flags for _, flags in remedies(history, found, 3)]
    assert tried == ["--learning-rate 0.001", "--normalize-obs", "--learning-rate 0.001 --kl-stop 0.03"]


def test_returns_are_those_of_the_last_part_of_the_compared_steps() -> None:
    records = [{"env_steps": 10 * k, "episode_return": float(k)} for k in range(1, 11)]
    assert returns_before(records, 50).tolist() == [4.0, 5.0]  # above 70% of 50 steps, up to 50


@pytest.mark.parametrize(("trial", "verdict"), [(30.0, HELPED), (20.5, SAME), (10.0, WORSE)])
def test_a_trial_helped_where_its_return_is_above_the_noise(trial: float, verdict: str) -> None:
    noise = np.array([-1.0, 1.0] * 5)
    assert compared(20.0 + noise, trial + noise) == verdict


def test_a_remedy_that_helps_is_named(tmp_path: Path) -> None:
    settings = {"num_envs": 8, "rollout_steps": 64, "minibatch_transitions": 128, "epochs": 4, "total_steps": 8_192}
    run = tmp_path / "run"
    batchwright.train(
        "IdentityDiscrete-v0", learning_rate=1e-7, engine="jax", eval_episodes=1, quiet=True, run_dir=run, **settings
    )
    outcome = run_line(f"doctor {run} --try --try-share 1 --try-most 1 --json")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["findings"][0]["finding"] == "learning-rate-too-low"
    assert found["trials"][0]["verdict"] == "helped"
    assert found["helped"] == "--learning-rate 0.0003"


@pytest.mark.parametrize("words", ["--try-share 2", "--try-share no", "--try-most 0"])
def test_a_share_that_is_none_is_refused(words: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("")
    outcome = run_line(f"doctor {tmp_path} --try {words}")
    assert outcome.code == 2 and "fix:" in outcome.err
