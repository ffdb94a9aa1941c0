"""Runs of one process share compiled programs, and no bit depends on it."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.api import prepare
from batchwright.regimes import make_learner
from batchwright.runs.launch import continue_run
from batchwright.runs.recorder import OutputOptions
from batchwright.runs.shared_programs import SharedPrograms
from small_runs import SMALL, record

REPLAY = {
    "engine": "jax",
    "preset": "none",
    "total_steps": 256,
    "warmup_steps": 64,
    "transitions_per_update": 8,
    "hidden": "8",
    "eval_every": 0,
    "eval_episodes": 1,
}
PPO: dict[str, Any] = SMALL | {"preset": "none", "total_steps": 256}
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "ppo": (
        PPO,
        [
            {"seed": 1, "learning_rate": 1e-2, "gamma": 0.9, "entropy_start": 0.1, "clip_range": 0.1},
            {"max_grad_norm": 2.0, "value_rate_factor": 2.0, "weight_decay": 1e-4, "learning_rate_schedule": "cosine"},
            {"normalize_obs": True, "normalize_rewards": True, "gamma": 0.9, "kl_stop": 0.01},
            {"normalize_rewards": True, "gamma": 0.8, "adam_beta2": 0.9, "advantage_norm": "none", "baseline": False},
        ],
    ),
    "ppo-gymnasium": (PPO | {"engine": "gymnasium-sync"}, [{"learning_rate": 1e-2, "gamma": 0.9, "epochs": 1}]),
    "a2c": (PPO | {"algo": "a2c", "minibatches": None, "epochs": 1}, [{"learning_rate": 1e-2, "gamma": 0.9}]),
    "reinforce": (
        PPO | {"algo": "reinforce", "minibatches": None, "epochs": 1},
        [{"learning_rate": 1e-2, "baseline": False}],
    ),
    "sac": (
        REPLAY | {"env": "Pendulum-v1", "algo": "sac"},
        [
            {"learning_rate": 1e-2, "gamma": 0.9, "polyak": 0.1, "target_entropy": -0.5, "temperature_start": 0.1},
            {"seed": 1, "learn_temperature": False, "max_grad_norm": 0.5},
        ],
    ),
    "td3": (
        REPLAY | {"env": "Pendulum-v1", "algo": "td3"},
        [{"exploration_noise": 0.5, "target_noise": 0.4}, {"policy_delay": 1}],
    ),
    "dqn": (
        REPLAY | {"env": "CartPole-v1", "algo": "dqn"},
        [{"epsilon_end": 0.5, "epsilon_share": 0.5, "huber_limit": 5.0, "updates_per_target": 3, "warmup_steps": 32}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_shares_programs_equals_one_that_has_its_own(name: str, tmp_path: Path) -> None:
    base, changes = CASES[name]
    programs = SharedPrograms()
    for number, change in enumerate([{}, *changes]):
        settings = base | change
        shared = prepare(run_dir=tmp_path / f"shared-{number}", quiet=True, **settings)
        continue_run(shared, partial(make_learner, programs=programs), OutputOptions(quiet=True, stream=io.StringIO()))
        alone = batchwright.train(run_dir=tmp_path / f"alone-{number}", quiet=True, **settings)
        assert record(shared) == record(alone.run_dir)


def test_settings_that_are_arrays_make_no_new_program(tmp_path: Path) -> None:
    programs, counts = SharedPrograms(), []
    for number, rate in enumerate((1e-3, 1e-2, 1e-1)):
        change = {"seed": number, "learning_rate": rate, "gamma": 0.9 + 0.01 * number, "entropy_start": rate}
        run = prepare(run_dir=tmp_path / f"{number}", quiet=True, **(PPO | change))
        continue_run(run, partial(make_learner, programs=programs), OutputOptions(quiet=True, stream=io.StringIO()))
        counts.append(len(programs))
    assert counts[0] == counts[1] == counts[2] == 4  # engine, collect, statistics of rewards, update


def test_a_number_that_is_compiled_in_makes_one_program_for_each_of_its_values(tmp_path: Path) -> None:
    programs, counts = SharedPrograms(), []
    for number, epochs in enumerate((2, 3, 2, 3)):
        change = {"seed": number, "learning_rate": 1e-3 * (1 + number), "epochs": epochs}
        run = prepare(run_dir=tmp_path / f"{number}", quiet=True, **(PPO | change))
        continue_run(run, partial(make_learner, programs=programs), OutputOptions(quiet=True, stream=io.StringIO()))
        counts.append(len(programs))
    assert counts == [4, 5, 5, 5]  # the update of 3 epochs is the only new one


def test_the_oldest_program_goes_where_as_many_are_kept_as_may_be() -> None:
    programs = SharedPrograms(most=2)
    made = [programs.get(key, lambda key=key: f"program {key}") for key in (1, 2, 3)]  # type: ignore[misc]
    assert made == ["program 1", "program 2", "program 3"] and len(programs) == 2
    assert 1 not in programs and 3 in programs
