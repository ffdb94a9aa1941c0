"""Random draws of episodes and of timesteps within them, by a generator of the host."""

# S subsequences, K timesteps of one.

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw_episodes(source: np.random.Generator, length_E: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Numbers [count] of episodes, each with a chance in proportion to its length."""
    ends_E = np.cumsum(length_E, dtype=np.int64)
    return np.searchsorted(ends_E, source.integers(0, ends_E[-1], count), side="right")


def draw_timesteps(source: np.random.Generator, length_S: NDArray[np.integer], timesteps: int) -> NDArray[np.int64]:
    """K timesteps [S, K] of each episode, from 0: no timestep twice where the episode has K, else with replacement.

    Without replacement by Floyd's method: K draws for an episode of any length, all episodes at once.
    """
    length_S = np.asarray(length_S, np.int64)
    drawn_SK = np.empty((len(length_S), timesteps), np.int64)
    repeats_S = timesteps > length_S
    drawn_SK[repeats_S] = source.integers(0, length_S[repeats_S, None], (int(repeats_S.sum()), timesteps))
    whole_S = length_S[~repeats_S]
    taken = np.empty((len(whole_S), timesteps), np.int64)
    for k in range(timesteps):
        last_S = whole_S - timesteps + k
        guess_S = source.integers(0, last_S + 1)
        seen_S = (taken[:, :k] == guess_S[:, None]).any(1)
        taken[:, k] = np.where(seen_S, last_S, guess_S)
    drawn_SK[~repeats_S] = taken
    return drawn_SK
