"""Returns from rewards, flags and files; returns that teach nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from recordings import some_episodes, write_libero

from batchwright.core.errors import UserError
from batchwright.store.recorded import choose, open_recording
from batchwright.store.recorded.episode_returns import constant, read_returns, refuse_constant, returns_of


def test_rewards_are_summed_and_flags_are_one_where_any_is_set(tmp_path: Path) -> None:
    rewards = [np.array([0.5, 0.25, 0, 0, 0, 0]), np.zeros(7)]
    recording = open_recording(write_libero(tmp_path / "a.hdf5", some_episodes(2), rewards=rewards))
    entries = recording.entries
    assert returns_of(recording, choose(recording), entries, None).tolist() == [0.75, 0.0]
    flags = choose(recording, success_key="rewards")
    assert returns_of(recording, flags, entries, None).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.json", json.dumps({"a.hdf5/demo_0": 2, "a.hdf5/demo_1": -1.5})),
        ("r.json", "[2, -1.5]"),
        ("r.csv", "episode,return\na.hdf5/demo_0,2\na.hdf5/demo_1,-1.5\n"),
        ("r.csv", "a.hdf5/demo_1, -1.5\na.hdf5/demo_0, 2\n"),
    ],
)
def test_a_file_of_returns_may_be_json_or_csv(name: str, text: str, tmp_path: Path) -> None:
    recording = open_recording(write_libero(tmp_path / "a.hdf5", some_episodes(2)))
    (tmp_path / name).write_text(text)
    assert read_returns(tmp_path / name, recording.entries).tolist() == [2.0, -1.5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a.hdf5/demo_0": 1}', "has no return of 1 episodes: a.hdf5/demo_1"),
        ("[1]", "has 1 returns for 2 episodes"),
        ("[1, null]", "the return of episode a.hdf5/demo_1 is None, not a finite number"),
        ("[1, true]", "not a finite number"),
        ("3", "neither a list nor an object"),
        ("{", "cannot be read as returns"),
    ],
)
def test_a_bad_file_of_returns_is_refused(text: str, said: str, tmp_path: Path) -> None:
    recording = open_recording(write_libero(tmp_path / "a.hdf5", some_episodes(2)))
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(UserError) as caught:
        read_returns(tmp_path / "r.json", recording.entries)
    assert said in str(caught.value)
    assert "r.json" in str(caught.value)


def test_equal_returns_are_constant_and_nearly_equal_ones_are_not() -> None:
    assert constant(np.array([1.0, 1.0]))
    assert not constant(np.array([1.0, 1.001]))
    with pytest.raises(UserError, match="all 2 returns of x are 1"):
        refuse_constant("x", np.ones(2), "sum of rewards")
