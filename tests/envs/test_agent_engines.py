"""Environments of several agents as rows: who acts when, how they end, what is refused."""

# T steps, R rows

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import drive, same

from batchwright.core.errors import UserError
from batchwright.envs import catalog

ENVS = str(Path(__file__).parents[1] / "agent_envs.py")
HOSTS = ["gymnasium-sync", "gymnasium-async", "gymnasium-split"]
Make = Any


def still(obs: Any) -> np.ndarray:
    return np.zeros(len(obs), np.int32)


def test_rows_follow_the_agents_that_come_and_leave(make: Make) -> None:
    run = drive(make(f"{ENVS}:Leaving", 1), still, 6)
    # Steps 1 to 4, the reset, and step 1 again; columns a, b, c.
    assert run.reward.tolist() == [[1, 10, 0], [1, 10, 100], [0, 10, 100], [0, 10, 100], [0, 0, 0], [1, 10, 0]]
    assert np.argwhere(run.terminated).tolist() == [[1, 0], [3, 2]]
    assert np.argwhere(run.truncated).tolist() == [[3, 1]]
    idle = [[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert run.idle.astype(int).tolist() == idle


def test_the_true_last_observation_of_an_agent_stays_in_its_row(make: Make) -> None:
    run = drive(make(f"{ENVS}:Leaving", 1), still, 5)
    assert run.first[:2].tolist() == [[0, 0], [1, 0]]
    assert run.obs[1, 0].tolist() == [0, 2]  # a ended in step 2
    assert run.obs[2, 0].tolist() == run.obs[3, 0].tolist() == [0, 2]
    assert run.obs[3, 1].tolist() == [1, 4] and run.obs[3, 2].tolist() == [2, 4]
    assert run.obs[4, 0].tolist() == [0, 0]


def test_agents_that_are_not_there_are_asked_for_nothing(make: Make) -> None:
    engine = make(f"{ENVS}:Leaving", 1)
    drive(engine, still, 6)
    acted = engine._loop._envs[0].acted
    assert acted == [["a", "b"], ["a", "b", "c"], ["b", "c"], ["b", "c"], ["a", "b"]]


def test_an_agent_that_stays_listed_after_its_end_has_no_more_transitions(make: Make) -> None:
    run = drive(make(f"{ENVS}:StillListed", 1), still, 6)
    assert same(run, drive(make(f"{ENVS}:Leaving", 1), still, 6))


def test_an_agent_that_comes_back_counts_again(make: Make) -> None:
    # It is listed after step 3 and acts in step 4: its observation of step 3 is its first.
    run = drive(make(f"{ENVS}:ComesBack", 1), still, 4)
    assert run.idle[:, 0].tolist() == [False, True, False, True]
    assert run.obs[2, 0].tolist() == [0, 3] and run.reward[3, 0] == 1


def test_numbers_of_info_and_success_are_those_of_each_agent(make: Make) -> None:
    run = drive(make(f"{ENVS}:Leaving", 1, info_keys=["steps"]), still, 4)
    assert run.extras["steps"][1].tolist() == [2, 2, 2]
    assert run.success[3].tolist() == [1, 0, 1]


@pytest.mark.parametrize("engine", HOSTS)
def test_engines_with_processes_give_the_rows_of_the_one_without(make: Make, engine: str) -> None:
    one = drive(make(f"{ENVS}:Echo", 3, "gymnasium-sync"), still, 20, seed=5)
    assert same(one, drive(make(f"{ENVS}:Echo", 3, engine, num_threads=2), still, 20, seed=5))


def test_environments_of_agents_have_seeds_of_their_own(make: Make) -> None:
    few, many = (drive(make(f"{ENVS}:Echo", count), still, 10, seed=3) for count in (1, 4))
    assert np.array_equal(few.obs, many.obs[:, :3])
    assert not np.array_equal(many.obs[:, :3], many.obs[:, 3:6])


@pytest.mark.parametrize("masked", ["obs", "info"])
def test_masks_of_agents_are_read_from_observation_or_info(make: Make, masked: str) -> None:
    engine = make(f"{ENVS}:Echo?masked={masked}", 2)
    obs = engine.start(0)
    for _ in range(12):
        assert obs.shape == (6, 3)
        assert engine.mask.sum() == 12
        acts = np.flatnonzero(~engine.idle)
        assert not engine.mask[acts, (obs.argmax(1)[acts] + 1) % 3].any()
        obs = engine.step(obs.argmax(1).astype(np.int32)).obs


def test_an_environment_that_raises_is_replaced_and_its_agents_are_truncated(make: Make) -> None:
    events: list[dict[str, Any]] = []
    run = drive(make(f"{ENVS}:FailsOnce", 2, "gymnasium-sync", on_event=events.append), still, 5)
    assert run.truncated[2].tolist() == [True, True, True, False, False, False]
    assert run.idle[2:4].tolist() == [[True] * 3 + [False] * 3, [False] * 6]
    assert [event["environment"] for event in events] == [0]


def test_a_worker_that_dies_truncates_its_agents(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag = tmp_path / "dies"
    flag.touch()
    monkeypatch.setitem(os.environ, "DIES_ONCE", str(flag))
    engine = make(f"{ENVS}:DiesOnce", 2, "gymnasium-async", num_threads=1, on_event=lambda event: None)
    run = drive(engine, still, 5)
    assert run.truncated[2].all() and run.idle[2].all()
    assert not run.idle[3].any() and not run.reward[3].any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("LeavesUnsaid", "environment 0, a: it left `agents`, and neither terminations nor truncations say so"),
        ("Silent", "environment 0, a: it acted, and step returned no observation of it"),
        ("Unpaid", "environment 0, b: it acted, and step returned no reward of it"),
        ("Stranger", "environment 0: agents has 'd', which is not in possible_agents"),
        ("Growing", "environment 0: reset changed possible_agents from 3 agents to 4"),
        ("Nobody", "environment 0: after reset no agent is there"),
    ],
)
def test_what_breaks_the_interface_is_refused_by_agent(make: Make, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        drive(make(f"{ENVS}:{name}", 1), still, 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TakesTurns", "a TakesTurns, whose agents take turns"),
        ("Unnamed", "without possible_agents"),
    ],
)
def test_other_kinds_of_agents_are_refused_before_training(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        catalog.describe(f"{ENVS}:{name}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mpe2:simple_spread_v9", "unknown environment 'mpe2:simple_spread_v9'. Did you mean mpe2:simple_spread_v3"),
        ("pettingzoo.classic:tictactoe_v3", "tictactoe_v3 has no parallel_env: its agents take turns"),
        (
            "pettingzoo.test.example_envs:generated_agents_parallel_v0",
            "gave a parallel_env without possible_agents",
        ),
    ],
)
def test_names_of_pettingzoo_that_cannot_be_trained_are_refused_with_the_reason(name: str, message: str) -> None:
    pytest.importorskip("mpe2")
    with pytest.raises(UserError, match=message):
        catalog.describe(name)


def test_a_module_of_pettingzoo_is_an_environment_by_name() -> None:
    pytest.importorskip("mpe2")
    task = catalog.describe("mpe2:simple_spread_v3?N=2")
    assert task.agents == ("agent_0", "agent_1")
    assert task.max_episode_steps == 25
