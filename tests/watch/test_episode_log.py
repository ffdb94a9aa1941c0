"""The record of episodes: what a line holds, how many there are, and that it is cut like the metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_runs
from batchwright.data.rollout import Episodes
from batchwright.watch.episode_log import ALL_UP_TO, EpisodeLog, episode_lines, strides
from batchwright.watch.json_lines import read_lines


def lines_of(episodes: Episodes, before: int = 0, names: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    steps = int(np.size(episodes.ended))
    return [json.loads(line) for line in episode_lines(3, 100, steps, before, episodes, names).splitlines()]


def test_a_line_has_the_step_at_which_its_episode_ended_and_what_the_environment_gave() -> None:
    """Two steps of three environments: the second ends in the first step, the third in the second."""
    ended = np.array([[False, True, False], [False, False, True]])
    episodes = Episodes(
        ended,
        np.array([[0, 2.5, 0], [0, 0, -1.5]], np.float32),
        np.array([[0, 7, 0], [0, 0, 9]], np.int32),
        np.arange(12, dtype=np.float32).reshape(2, 3, 2),
        np.array([[np.nan, 1, np.nan], [np.nan, np.nan, 0]], np.float32),
    )
    first, second = lines_of(episodes, before=40, names=("speed", "energy"))
    assert first == {
        "iteration": 3,
        "env_steps": 103,
        "episode": 40,
        "return": 2.5,
        "length": 7,
        "success": True,
        "components": {"speed": 2.0, "energy": 3.0},
    }
    assert (second["env_steps"], second["episode"], second["success"]) == (106, 41, False)
    assert second["components"] == {"speed": 10.0, "energy": 11.0}


def test_success_and_components_are_left_out_where_there_are_none_and_numbers_that_are_not_finite_are_named() -> None:
    episodes = Episodes(np.ones(2, bool), np.array([np.nan, 1.0]), np.array([4, 5]), None, np.full(2, np.nan))
    bad, good = lines_of(episodes)
    assert bad == {
        "iteration": 3,
        "env_steps": 102,
        "episode": 0,
        "return": None,
        "length": 4,
        "nonfinite": ["return"],
    }
    assert good == {"iteration": 3, "env_steps": 102, "episode": 1, "return": 1.0, "length": 5}


def test_late_episodes_have_every_tenth_and_then_every_hundredth_line() -> None:
    numbers = np.array([0, 1, ALL_UP_TO - 1, ALL_UP_TO, 10 * ALL_UP_TO - 1, 10 * ALL_UP_TO, 100 * ALL_UP_TO])
    assert strides(numbers).tolist() == [1, 1, 1, 10, 10, 100, 1000]
    episodes = Episodes(np.ones(30, bool), np.ones(30), np.ones(30, int))
    assert [line["episode"] for line in lines_of(episodes, before=ALL_UP_TO - 2)] == [
        ALL_UP_TO - 2,
        ALL_UP_TO - 1,
        ALL_UP_TO,
        ALL_UP_TO + 10,
        ALL_UP_TO + 20,
    ]


def test_lines_of_later_iterations_are_cut_together(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path / "episodes.jsonl") as log:
        for iteration in (0, 0, 1, 3, 3, 3):
            log.append_lines(f'{{"iteration": {iteration}, "return": 1.0}}\n'.encode())
        assert log.cut_after(1) == 3
    assert [line["iteration"] for line in read_lines(tmp_path / "episodes.jsonl")] == [0, 0, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rollout_steps": None, "rollout_episodes": 3, "total_steps": None, "total_episodes": 36, "num_envs": 2},
        {"algo": "dqn", "minibatches": None, "epochs": None, "transitions_per_update": 8, "warmup_steps": 64},
    ],
    ids=["ppo", "episodes", "dqn"],
)
def test_every_mode_records_the_episodes_that_its_metrics_count(tmp_path: Path, changes: dict[str, Any]) -> None:
    run = small_runs.start(tmp_path / "run", **changes).run_dir
    episodes, metrics = read_lines(run / "episodes.jsonl"), small_runs.record(run)
    assert [line["episode"] for line in episodes] == list(range(metrics[-1]["episodes_total"]))
    for record in metrics:
        mine = [line for line in episodes if line["iteration"] == record["iteration"]]
        assert len(mine) == record["episodes"]
        if mine:
            assert np.mean([line["return"] for line in mine]) == pytest.approx(record["episode_return"])
            assert max(line["env_steps"] for line in mine) <= record["env_steps"]
