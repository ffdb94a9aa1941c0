"""All recorded episodes end to end in arrays of the stored types, from which timesteps are drawn."""

# E episodes, R rows of observations (one more than steps in each episode), Q steps, U updates, S subsequences,
# K timesteps, D numbers of one action.

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchwright.core.files import explain_full_disk
from batchwright.envs import spaces
from batchwright.store.episode_table import draw_episodes, draw_timesteps
from batchwright.store.recorded.interface import Choice, Entry, Recording, episodes


class Steps(NamedTuple):
    """Rows of several steps: observations before and after, and the flat action between."""

    obs: dict[str, np.ndarray]
    action: np.ndarray
    next_obs: dict[str, np.ndarray]


class SubsequenceSample(NamedTuple):
    """The data of one iteration's updates: leading axes [U, S, K], returns and lengths [U, S]."""

    steps: Steps
    episode_return: Any
    episode_length: Any
    mask: Any
    """[U, S, K] of timesteps that count; None where all do."""


class Bank:
    """Preallocated, then filled episode by episode; on disk where a folder is given."""

    def __init__(
        self,
        recording: Recording,
        choice: Choice,
        entries: Sequence[Entry],
        returns_E: np.ndarray,
        folder: Path | None = None,
    ) -> None:
        self.entries, self.return_E = list(entries), np.asarray(returns_E, np.float64)
        self.length_E = np.array([entry.steps for entry in entries], np.int64)
        self.first_row_E = np.concatenate([[0], np.cumsum(self.length_E + 1)[:-1]])
        self.first_step_E = np.concatenate([[0], np.cumsum(self.length_E)[:-1]])
        rows, steps = int((self.length_E + 1).sum()), int(self.length_E.sum())
        self.obs = {}
        for key in choice.obs:
            leaf = recording.obs_columns[key]
            self.obs[key] = _allocate((rows, *spaces.leaf_shape(leaf)), spaces.stored_dtype(leaf), folder, key)
        width = sum(spaces.action_size(recording.action_columns[key]) for key in choice.action)
        self.action_QD = np.empty((steps, width), np.float32)
        self.reward_Q = None if choice.reward is None else np.empty(steps, np.float32)
        self._fill(recording, choice)

    def _fill(self, recording: Recording, choice: Choice) -> None:
        for number, episode in enumerate(episodes(recording, choice, self.entries)):
            row, step, length = self.first_row_E[number], self.first_step_E[number], self.length_E[number]
            for key, values in episode.obs.items():
                self.obs[key][row : row + length + 1] = values
            flat = [np.asarray(values, np.float32).reshape(length, -1) for values in episode.action.values()]
            self.action_QD[step : step + length] = np.concatenate(flat, -1)
            if self.reward_Q is not None and episode.reward is not None:
                self.reward_Q[step : step + length] = episode.reward

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = [*self.obs.values(), self.action_QD, *([] if self.reward_Q is None else [self.reward_Q])]
        return sum(array.nbytes for array in arrays)

    def steps(self, episode: np.ndarray, timestep: np.ndarray) -> Steps:
        """The steps of numbered episodes; both arrays of one shape, which leads the result's."""
        row, step = self.first_row_E[episode] + timestep, self.first_step_E[episode] + timestep
        return Steps(
            {key: values[row] for key, values in self.obs.items()},
            self.action_QD[step],
            {key: values[row + 1] for key, values in self.obs.items()},
        )

    def rewards(self, episode: int) -> np.ndarray | None:
        """[T] recorded rewards of one episode."""
        start = self.first_step_E[episode]
        return None if self.reward_Q is None else self.reward_Q[start : start + self.length_E[episode]]

    def numbers_of(self, key: str | None, among: np.ndarray) -> np.ndarray:
        """Everything recorded under an observation key in numbered episodes, end to end; of actions without a key."""
        first, last = (self.first_step_E, 0) if key is None else (self.first_row_E, 1)
        values = self.action_QD if key is None else self.obs[key]
        return np.concatenate([values[first[e] : first[e] + self.length_E[e] + last] for e in among])

    def draw(
        self,
        rng: np.random.Generator,
        among: np.ndarray,
        updates: int,
        subsequences: int,
        timesteps: int,
        whole: bool,
    ) -> SubsequenceSample:
        """Episodes in proportion to their length, `timesteps` of each; with `whole` all of them, padded and masked."""
        chosen = among[draw_episodes(rng, self.length_E[among], updates * subsequences)]
        length = self.length_E[chosen]
        mask = None
        if whole:
            every = np.arange(timesteps)[None, :]
            mask = (every < length[:, None]).reshape(updates, subsequences, timesteps)
            timestep = np.minimum(every, length[:, None] - 1)
        else:
            timestep = draw_timesteps(rng, length, timesteps)
        shape = (updates, subsequences)
        episode = np.broadcast_to(chosen[:, None], timestep.shape).reshape(*shape, timesteps)
        return SubsequenceSample(
            self.steps(episode, timestep.reshape(*shape, timesteps)),
            self.return_E[chosen].reshape(shape),
            length.reshape(shape),
            mask,
        )


def _allocate(shape: tuple[int, ...], dtype: np.dtype, folder: Path | None, key: str) -> np.ndarray:
    if folder is None:
        return np.empty(shape, dtype)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"[^A-Za-z0-9._-]+", "-", key) + ".npy")
    needed = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    with explain_full_disk(path, needed):
        found = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is reported now, not by a signal when a page is written
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return found
