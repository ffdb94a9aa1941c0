"""Claims about names: every kind of name is found, a wrong one is answered with the nearest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from batchwright.core.errors import UserError
from batchwright.core.machine import usable_cores
from batchwright.envs.catalog import describe, list_environments
from batchwright.envs.spaces import Box, Discrete, is_image
from batchwright.envs.tasks import OWN_TASKS

USER_FILE = """
import gymnasium
import companion

def make_env(size=4):
    return gymnasium.make("Taxi-v4") if companion.TAXI else None

def broken():
    raise RuntimeError("the arm is not plugged in")

class TextEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Text(3)
    action_space = gymnasium.spaces.Discrete(2)
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    (tmp_path / "companion.py").write_text("TAXI = True\n")
    path = tmp_path / "my_env.py"
    path.write_text(USER_FILE)
    return path


def _modules_after(code: str) -> set[str]:
    """Which of the heavy packages a fresh process has imported after running `code`."""
    heavy = "{'jax', 'gymnasium', 'envpool'}"
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*({heavy} & set(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(run.stdout.split())


def test_the_catalog_imports_no_engine() -> None:
    assert _modules_after("import batchwright.envs.catalog") == set()


def test_a_worker_process_does_not_import_jax() -> None:
    assert _modules_after("import batchwright.envs.engines.gymnasium_async") == set()


def test_describing_a_gymnasium_environment_does_not_import_envpool_or_jax() -> None:
    code = "from batchwright.envs.catalog import describe; describe('CartPole-v1'); describe('FrozenLake-v1')"
    assert _modules_after(code) == {"gymnasium"}


def test_our_own_tasks_are_described_as_gymnasium_describes_them() -> None:
    import gymnasium

    from batchwright.envs.spaces import from_gymnasium

    for name in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCarContinuous-v0"):
        card, env = OWN_TASKS[name], gymnasium.make(name)
        assert card.observation == from_gymnasium(env.observation_space), name
        assert card.action == from_gymnasium(env.action_space), name
        assert env.spec is not None
        assert card.max_episode_steps == env.spec.max_episode_steps
        assert card.reward_threshold == env.spec.reward_threshold


def test_a_gymnasium_name_gives_limit_threshold_and_engines() -> None:
    task = describe("LunarLander-v3")
    assert (task.max_episode_steps, task.reward_threshold) == (1000, 200)
    assert isinstance(task.observation, Box) and task.observation.shape == (8,)
    split = ("gymnasium-split",) if usable_cores() > 1 else ()
    assert task.engines == ("gymnasium-sync", *split, "gymnasium-async")
    assert describe("LunarLander-v3", ask_envpool=True).engines[0] == "envpool"


def test_an_envpool_name_is_found_when_gymnasium_does_not_know_it() -> None:
    task = describe("Pong-v5")
    assert is_image(task.observation) and task.action == Discrete(6)
    assert task.engines == ("envpool",) and task.max_episode_steps == 27000


def test_envpools_numeric_limits_are_read_as_unbounded() -> None:
    observation = describe("BipedalWalkerHardcore-v3", ask_envpool=True)
    assert "envpool" in observation.engines
    from batchwright.envs import envpool_source

    spec, _ = envpool_source.spaces_of(envpool_source.pool_spec("LunarLander-v3", {}), "LunarLander-v3")
    assert isinstance(spec, Box) and spec.low[0] == -float("inf") and spec.high[0] == float("inf")


def test_a_file_and_a_factory_name_an_environment(user_file: Path) -> None:
    task = describe(f"{user_file}:make_env")
    assert task.observation == Discrete(500) and task.max_episode_steps == 200


def test_a_module_is_imported_before_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "gymnasium.envs.toy_text.taxi:TaxiEnv"
    code = f"import gymnasium\ngymnasium.register('Own-v7', {entry!r}, max_episode_steps=9)"
    (tmp_path / "registers_own.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    assert describe("registers_own:Own-v7").max_episode_steps == 9


@pytest.mark.parametrize(("name", "nearest"), [("CartPol-v1", "CartPole-v1"), ("halfcheeta-v5", "HalfCheetah-v5")])
def test_an_unknown_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UserError) as refused:
        describe(name)
    assert nearest in refused.value.fixes


def test_what_an_environment_says_when_it_cannot_be_made_is_passed_on(user_file: Path) -> None:
    with pytest.raises(UserError, match="the arm is not plugged in"):
        describe(f"{user_file}:broken")
    with pytest.raises(UserError, match="Text"):
        describe(f"{user_file}:TextEnv")
    with pytest.raises(UserError, match="no callable named 'nothing'") as refused:
        describe(f"{user_file}:nothing")
    assert f"{user_file}:make_env" in refused.value.fixes
    with pytest.raises(UserError, match="no callable named 'make_en'") as refused:
        describe(f"{user_file}:make_en")
    assert refused.value.fixes[0] == f"{user_file}:make_env"
    for name in ("nowhere/my_env.py:make_env", "nowhere/my_env.py"):
        with pytest.raises(UserError, match="there is no file"):
            describe(name)
    with pytest.raises(UserError, match="could not import 'no_such_module'"):
        describe("no_such_module:Env-v0")


def test_a_file_that_does_not_run_is_said_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text("def make(:\n")
    with pytest.raises(UserError, match="SyntaxError"):
        describe(f"{path}:make")


def test_an_environment_for_several_players_is_refused() -> None:
    with pytest.raises(UserError, match="2 players"):
        describe("Go9x9-v1")


def test_the_list_holds_all_three_sources_and_filters_by_word() -> None:
    entries = list_environments("cartpole-v1")
    assert {(e.name, e.engine) for e in entries} >= {
        ("CartPole-v1", "own"),
        ("CartPole-v1", "gymnasium"),
        ("CartPole-v1", "envpool"),
    }
    assert all("cartpole-v1" in e.name.lower() for e in entries)
    assert any("cannot be made" in e.note for e in list_environments("HalfCheetah-v2"))
