"""Draws of episodes and timesteps: the right chances, no timestep twice where that can be had."""

from __future__ import annotations

import numpy as np
import pytest

from batchwright.store.episode_table import draw_episodes, draw_timesteps

DRAWS = 20_000


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(7))


def test_episodes_are_drawn_in_proportion_to_their_length() -> None:
    found = np.bincount(draw_episodes(rng(), np.array([1, 0, 3, 6]), DRAWS), minlength=4) / DRAWS
    assert found[1] == 0
    assert found == pytest.approx([0.1, 0.0, 0.3, 0.6], abs=0.015)  # more than 4 standard errors


@pytest.mark.parametrize(("length", "timesteps"), [(5, 2), (5, 5), (1, 1), (100, 7)])
def test_no_timestep_is_drawn_twice_where_the_episode_has_enough(length: int, timesteps: int) -> None:
    found = draw_timesteps(rng(), np.full(500, length), timesteps)
    assert found.min() >= 0
    assert found.max() < length
    assert all(len(set(row)) == timesteps for row in found.tolist())


def test_sets_of_timesteps_are_equally_likely() -> None:
    found = np.sort(draw_timesteps(rng(), np.full(DRAWS, 4), 2), 1)
    chances = np.bincount(found[:, 0] * 4 + found[:, 1], minlength=16) / DRAWS
    assert chances[chances > 0] == pytest.approx([1 / 6] * 6, abs=0.015)


def test_an_episode_shorter_than_the_subsequence_is_drawn_with_replacement() -> None:
    found = draw_timesteps(rng(), np.array([3, 9]), 6)
    assert set(found[0]) <= {0, 1, 2}
    assert len(set(found[1])) == 6
    many = draw_timesteps(rng(), np.full(DRAWS, 2), 3)
    assert many.mean() == pytest.approx(0.5, abs=0.01)
    assert (many.sum(1) == 0).mean() == pytest.approx(1 / 8, abs=0.012)
