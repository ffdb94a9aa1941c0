"""Claims about choosing: what `auto` takes, what is refused and with which fix, what a measurement tells."""

from __future__ import annotations

from typing import Any

import pytest
from driving import SAMPLES

from batchwright.core.errors import UserError
from batchwright.envs.engines import available_engines, make_engine, measure_engines

Make = Any


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("CartPole-v1", "jax"),
        ("LunarLander-v3", "envpool"),
        ("Pong-v5", "envpool"),
        ("sample_envs:Counter-next_step-v0", "gymnasium-vector"),
        ("Taxi-v4", "gymnasium-sync"),
        (f"{SAMPLES}:Counter", "gymnasium-sync"),
    ],
)
def test_auto_prefers_compiled_engines(make: Make, name: str, engine: str) -> None:
    assert make(name, 2).name == engine


def test_options_are_not_lost_on_our_own_jax_tasks(make: Make) -> None:
    made = make("CartPole-v1", 2, "gymnasium", env_kwargs={"sutton_barto_reward": True})
    assert made.name == "gymnasium-vector"
    with pytest.raises(UserError, match="takes no options"):
        make_engine("CartPole-v1", 2, "jax", env_kwargs={"sutton_barto_reward": True})


def test_an_engine_that_has_not_the_environment_is_refused_with_those_that_have() -> None:
    with pytest.raises(UserError, match="cannot be run by the engine 'jax'") as refused:
        make_engine("Taxi-v4", 2, "jax")
    assert "--engine gymnasium-sync" in refused.value.fixes
    with pytest.raises(UserError, match="cannot be run by the engine 'gymnasium-vector'"):
        make_engine("Taxi-v4", 2, "gymnasium-vector")


def test_bad_input_is_refused() -> None:
    with pytest.raises(UserError, match="unknown engine 'envpol'") as refused:
        make_engine("CartPole-v1", 2, "envpol")
    assert refused.value.fixes[0] == "--engine envpool"
    with pytest.raises(UserError, match="num_envs is 0"):
        make_engine("CartPole-v1", 0)
    with pytest.raises(UserError, match="max_episode_steps is -1"):
        make_engine("CartPole-v1", 2, max_episode_steps=-1)
    with pytest.raises(UserError, match="unexpected keyword argument"):
        make_engine("CartPole-v1", 2, "gymnasium-sync", env_kwargs={"colour": "red"})
    with pytest.raises(UserError, match="CartPole-v1 could not be made by EnvPool"):
        make_engine("CartPole-v1", 2, "envpool", env_kwargs={"colour": "red"})
    with pytest.raises(UserError, match="unknown environment"):
        make_engine("CartPol-v1", 2)


def test_every_available_engine_is_measured_and_the_fastest_comes_first() -> None:
    measured = measure_engines("CartPole-v1", [(name, 2) for name in available_engines("CartPole-v1")], 0.02)
    assert {m.engine for m in measured} == set(available_engines("CartPole-v1"))
    rates = [m.steps_per_second for m in measured]
    assert rates == sorted(rates, reverse=True) and rates[-1] > 0
