"""Rewards learned online without a policy update: what is learned, what stays, stops and resumes, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchwright
from batchwright import UserError
from batchwright.api import prepare_online_reward
from batchwright.runs.checkpoints import load_named
from batchwright.watch.metric_log import read_events
from run_batchwright import plan, run, run_line
from small_runs import TerminatedAfter, record

SMALL: dict[str, Any] = {
    "engine": "jax",
    "hidden": "32",
    "num_envs": 4,
    "rollout_steps": 25,
    "updates_per_iteration": 100,
    "rrd_timesteps_per_update": 64,
    "subsequence_timesteps": 16,
    "reward_learning_rate": 3e-3,
    "warmup_steps": 400,
    "total_steps": 4000,
    "checkpoint_every": 100,
    "eval_every": 0,
    "preset": "none",
}


def start(folder: Path, env: str = "Pendulum-v1", **changes: Any) -> Path:
    path = prepare_online_reward(env, run_dir=folder, quiet=True, **(SMALL | changes))
    batchwright.resume(path, quiet=True)
    return path


def arrays(run: Path) -> dict[str, np.ndarray]:
    found = load_named(run / "checkpoints", pytest.fail)
    assert found
    return found[0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("online") / "run", checkpoint_every=10)


def test_the_reward_is_learned_and_the_policy_is_not(finished: Path) -> None:
    lines = record(finished)
    fitted = lines[-1]
    assert fitted["fit_error_share"] < 0.6, "the error of a constant is 1"
    assert fitted["fit_spearman"] > 0.6
    assert -1.0 <= fitted["fit_step_spearman"] <= 1.0
    learned = [line for line in lines if line["updates"]]
    assert learned[-1]["reward_model_loss"] < learned[0]["reward_model_loss"]
    assert not any(name in fitted for name in ("critic_loss", "q_mean", "eval_mean"))
    first = min((finished / "checkpoints").glob("[0-9]*"))
    with np.load(first / "state.npz") as before:
        after = arrays(finished)
        np.testing.assert_array_equal(before[".train.params"], after[".train.params"])
        assert (before[".reward_model.params"] != after[".reward_model.params"]).any()


def test_random_actions_are_spread_over_their_whole_range(finished: Path) -> None:
    """Uniform torques in -2..2 leave episodes of about -1,200, as playing at random does; none is better than -600."""
    returns = [line["episode_return"] for line in record(finished) if "episode_return" in line]
    assert -1700 < np.mean(returns) < -800


def test_the_learned_reward_is_loaded_and_called_with_actions_of_the_environment(finished: Path) -> None:
    """Pendulum pays -(angle^2 + ...): upright at rest is better than hanging, whatever the torque."""
    reward = batchwright.load_reward(finished)
    upright, hanging = np.array([1.0, 0.0, 0.0], np.float32), np.array([-1.0, 0.0, 0.0], np.float32)
    torque = np.array([2.0], np.float32)
    assert reward(upright, torque, upright) > reward(hanging, torque, hanging)
    many = reward(np.stack([upright, hanging]), np.stack([torque, -torque]), np.stack([upright, hanging]))
    assert many.shape == (2,)
    assert many[0] == pytest.approx(float(reward(upright, torque, upright)), rel=1e-5)


def test_stopped_and_resumed_is_the_same_as_never_stopped(finished: Path, tmp_path: Path) -> None:
    path = prepare_online_reward(
        "Pendulum-v1", run_dir=tmp_path / "stopped", quiet=True, **(SMALL | {"checkpoint_every": 10})
    )
    for after in (6, 14):
        with TerminatedAfter(path, after):
            assert batchwright.resume(path, quiet=True).interrupted
    batchwright.resume(path, quiet=True)
    assert record(path) == record(finished)
    assert (path / "episodes.jsonl").read_bytes() == (finished / "episodes.jsonl").read_bytes()
    again = batchwright.resume(path, quiet=True)  # nothing is left to do: the fit is shown again
    assert again.evaluation["fit"]["error_share"] == record(finished)[-1]["fit_error_share"]


def test_the_policy_of_another_run_collects_and_stays_as_it_was(tmp_path: Path) -> None:
    wishes = {name: SMALL[name] for name in ("engine", "hidden", "preset")}
    trained = batchwright.train(
        "CartPole-v1", algo="dqn", run_dir=tmp_path / "policy", quiet=True, total_steps=64, eval_episodes=1, **wishes
    ).run_dir
    changes = {"total_steps": 600, "rollout_steps": 25, "warmup_steps": 0, "collecting_run": str(trained)}
    path = start(tmp_path / "reward", "CartPole-v1", **changes)
    np.testing.assert_array_equal(arrays(path)[".train.params"], arrays(trained)[".train.params"])
    assert record(path)[0]["epsilon"] == pytest.approx(0.05)
    with pytest.raises(UserError, match="has hidden 32, these settings have 16"):
        start(tmp_path / "other", "CartPole-v1", **(changes | {"hidden": "16"}))


def test_the_command_trains_online_and_says_what_it_learned(tmp_path: Path) -> None:
    flags = "--engine jax --hidden 8 --num-envs 4 --rollout-steps 100 --updates-per-iteration 2 --warmup-steps 0"
    answer = run_line(f"rrd CartPole-v1 {flags} --total-steps 800 --run-dir {tmp_path}/run --preset none")
    assert answer.code == 0, answer.err
    assert "reward updates on 4 subsequences of 64 timesteps" in answer.out
    assert "episodes predicted with an error of" in answer.out
    assert (tmp_path / "run" / "report.html").is_file()
    assert "fit" in [event["kind"] for event in read_events(tmp_path / "run" / "events.jsonl")]
    doctor = run("doctor", str(tmp_path / "run"))
    assert "stuck" not in doctor.out


def test_the_plan_of_rewards_alone_has_no_number_of_a_policys_update() -> None:
    found = plan(algo="sac", redistribute="rrd", reward_only=True, obs_shape="3", action_size=1)
    assert found["transitions_per_update"] == 0
    assert found["reuse"] == 256  # one update of 4 x 64 timesteps per step
    assert "batch_bytes" not in found.quantities
    assert "policy: never updated" in found.diagram()


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({}, "no return decomposition is stated"),
        ({"redistribute": "ircr"}, "ircr has none"),
        ({"redistribute": "rrd", "transitions_per_update": 64}, "is for updates of a policy"),
        ({"redistribute": "rrd", "reward_only": None, "collecting_run": "runs/x"}, "collects for a reward network"),
        ({"redistribute": "rrd", "hold": "reuse"}, "is for updates of a policy"),
    ],
)
def test_what_does_not_go_with_rewards_alone_is_refused(wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan(**({"algo": "sac", "reward_only": True} | wishes))
