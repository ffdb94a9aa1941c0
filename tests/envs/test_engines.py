"""Claims every engine has to keep: seeds, end flags, last observations, reset rows."""

# T time, N envs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from driving import drive, same

ALL = ["jax", "envpool", "gymnasium-vector", "gymnasium-sync", "gymnasium-async", "gymnasium-split"]
SINGLE = [engine for engine in ALL if engine != "gymnasium-vector"]
"""Engines whose environments have a random source each."""

Make = Any


def push_right(obs: Any) -> Any:
    """An action that makes every CartPole fall within about ten steps."""
    return (obs[:, 0] == obs[:, 0]).astype("int32")


def balance(obs: Any) -> Any:
    """A linear policy that keeps CartPole up for 500 steps."""
    return (0.1 * obs[:, 0] + 0.3 * obs[:, 1] + 2.0 * obs[:, 2] + obs[:, 3] > 0).astype("int32")


@pytest.mark.parametrize("engine", ALL)
def test_the_same_seed_gives_the_same_trajectory_and_another_seed_another(make: Make, engine: str) -> None:
    one, two = make("CartPole-v1", 3, engine), make("CartPole-v1", 3, engine)
    first = drive(one, push_right, 14, seed=7)
    assert same(first, drive(two, push_right, 14, seed=7))
    assert not np.array_equal(first.obs, drive(two, push_right, 14, seed=8).obs)


@pytest.mark.parametrize("engine", ALL)
def test_starting_again_in_mid_episode_repeats_the_trajectory(make: Make, engine: str) -> None:
    again = make("CartPole-v1", 3, engine)
    assert same(drive(again, push_right, 14, seed=7), drive(again, push_right, 14, seed=7))


@pytest.mark.parametrize("engine", SINGLE)
def test_an_environment_does_not_depend_on_how_many_others_there_are(make: Make, engine: str) -> None:
    few = drive(make("CartPole-v1", 2, engine), push_right, 25, seed=3)
    many = drive(make("CartPole-v1", 5, engine), push_right, 25, seed=3)
    assert np.array_equal(few.first, many.first[:2])
    assert np.array_equal(few.obs, many.obs[:, :2])


@pytest.mark.parametrize("engine", ALL)
def test_environments_differ_from_each_other_and_episodes_too(make: Make, engine: str) -> None:
    run = drive(make("CartPole-v1", 4, engine), push_right, 25)
    assert len(np.unique(run.first[:, 0])) == 4
    began_TN = _began(run)
    starts = np.concatenate([run.first[:, 0], run.obs[began_TN][:, 0]])
    assert len(np.unique(starts)) == len(starts)


@pytest.mark.parametrize("engine", ALL)
def test_an_end_shows_the_true_last_observation_and_the_next_row_a_reset(make: Make, engine: str) -> None:
    made = make("CartPole-v1", 4, engine)
    run = drive(made, push_right, 30)
    began_TN = _began(run)
    assert made.autoreset == "next" and began_TN.any()
    # Pushed to the right the pole falls to the left: the last angle is beyond 12 degrees, the others are not.
    fell_TN = run.obs[..., 2] < -np.radians(12)
    assert np.array_equal(fell_TN, run.terminated)
    assert (np.abs(run.obs[began_TN]) <= 0.05).all()
    assert (run.reward[began_TN] == 0).all() and (run.reward[~began_TN] == 1).all()
    assert not (run.terminated | run.truncated)[began_TN].any()


@pytest.mark.parametrize("engine", ALL)
def test_a_time_limit_truncates_at_its_step_and_not_before(make: Make, engine: str) -> None:
    made = make("CartPole-v1", 2, engine, max_episode_steps=5)
    run = drive(made, push_right, 12)
    # Five steps, one reset row, five steps, one reset row.
    assert np.flatnonzero(run.truncated[:, 0]).tolist() == [4, 10]
    assert made.max_episode_steps == 5 and not run.terminated.any()


@pytest.mark.parametrize("engine", ["jax", "envpool", "gymnasium-vector"])
def test_a_balanced_cartpole_is_truncated_after_500_steps(make: Make, engine: str) -> None:
    run = drive(make("CartPole-v1", 3, engine), balance, 502)
    assert run.truncated[499].all() and run.truncated.sum() == 3 and not run.terminated.any()
    assert (run.reward[:500] == 1).all() and (run.reward[500] == 0).all() and (run.reward[501] == 1).all()


@pytest.mark.parametrize("engine", [engine for engine in ALL if engine != "envpool"])
def test_where_both_ends_fall_together_terminated_wins(make: Make, engine: str) -> None:
    run = drive_to_a_fall_at_the_limit(make, engine)
    assert run.terminated[-1].all() and not run.truncated.any()


def test_envpool_reports_a_fall_at_the_very_limit_as_truncated(make: Make) -> None:
    """Not what we want, but all EnvPool 1.2 tells (done, trunc, discount are those of a time limit).

    Here so that a version of EnvPool that tells more is noticed.
    """
    run = drive_to_a_fall_at_the_limit(make, "envpool")
    assert run.truncated[-1].all() and not run.terminated.any()
    assert (run.obs[-1][:, 2] < -np.radians(12)).all()


@pytest.mark.parametrize("engine", ["jax", "envpool", "gymnasium-sync"])
def test_pendulum_ends_by_its_limit_only(make: Make, engine: str) -> None:
    run = drive(make("Pendulum-v1", 2, engine), lambda obs: obs[:, :1] * 0, 202)
    assert run.truncated[199].all() and run.truncated.sum() == 2 and not run.terminated.any()
    assert run.obs.dtype == np.float32 and (run.reward[200] == 0).all() and (run.reward[201] < 0).all()


@pytest.mark.parametrize("engine", ALL)
def test_arrays_come_in_the_agreed_dtypes(make: Make, engine: str) -> None:
    run = drive(make("CartPole-v1", 2, engine), push_right, 2)
    dtypes = [a.dtype for a in (run.first, run.obs, run.reward, run.terminated, run.truncated)]
    assert dtypes == [np.float32, np.float32, np.float32, np.bool_, np.bool_]
    assert run.extras == {} and run.final_obs is None


def drive_to_a_fall_at_the_limit(make: Make, engine: str) -> Any:
    """One CartPole whose time limit is the very step at which it falls."""
    free = drive(make("CartPole-v1", 1, engine), push_right, 20)
    falls_after = int(np.flatnonzero(free.terminated)[0]) + 1
    limited = make("CartPole-v1", 1, engine, max_episode_steps=falls_after)
    return drive(limited, push_right, falls_after)


def _began(run: Any) -> Any:
    """Rows [T, N] that show the first observation of an episode: those after an end."""
    ended_TN = run.terminated | run.truncated
    return np.concatenate([np.zeros_like(ended_TN[:1]), ended_TN[:-1]])
