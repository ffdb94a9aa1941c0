"""Which steps of a replay buffer's columns are transitions, of which episodes; and random draws of such."""

# N environments (columns), E episodes, S drawn subsequences, K timesteps of one.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.data.rollout import Episodes


class Spans(NamedTuple):
    """Runs of transitions [E]: `length` steps of a column from step `first` on; steps are counted from the start."""

    first: NDArray[Any]  # int64
    column: NDArray[Any]  # int64
    length: NDArray[Any]  # int64
    episode_return: NDArray[Any]  # float64
    """Of the whole episode, whatever part of it still stands; 0 where it did not end by itself."""
    finished: NDArray[Any]  # bool
    """Whether the episode ended by itself, so that its return is known."""

    def where(self, chosen: NDArray[np.bool_]) -> Spans:
        return Spans(*(column[chosen] for column in self))


NO_SPANS = Spans(*(np.zeros(0, kind) for kind in (np.int64, np.int64, np.int64, np.float64, np.bool_)))


class EpisodeTable:
    """The spans of a buffer whose columns keep the newest `steps` steps, the frame to come included.

    A transition may need `history` steps before it: the frames of its stack.
    """

    def __init__(self, steps: int, history: int = 0) -> None:
        self.steps, self.history = steps, history
        self.written = 0
        """Steps written to every column so far; the next one goes here."""
        self._cut_at = 0
        """The first step that may belong to a running episode: rows before it were cut off."""
        self._ended, self._running = NO_SPANS, NO_SPANS

    @property
    def oldest(self) -> int:
        """The oldest step that still stands: the frame at `written` has taken the place of one before it."""
        return max(0, self.written - self.steps + 1)

    @property
    def drawable(self) -> int:
        """The oldest step that can be drawn: what it needs stands, too."""
        return max(0, self.written - self.steps + 1 + self.history)

    def add(self, steps: int, episodes: Episodes, lengths_N: Any) -> None:
        """Takes in the ends of a rollout of `steps` steps; running episodes have made `lengths_N` transitions."""
        ended, lengths, returns = (np.asarray(x) for x in (episodes.ended, episodes.lengths, episodes.returns))
        t, column = np.nonzero(ended)
        length = lengths[t, column].astype(np.int64)
        new = self._spans(self.written + t + 1 - length, column, length, returns[t, column], True)
        self.written += steps
        length_N = np.where(ended[-1], 0, np.asarray(lengths_N)).astype(np.int64)
        columns = np.arange(len(length_N))
        self._running = self._spans(self.written - length_N, columns, length_N, np.zeros(len(columns)), False)
        standing = self._ended.where(self._ended.first + self._ended.length > self.drawable)
        self._ended = _joined(standing, new)

    def cut(self) -> None:
        """Running episodes stop here; the frame that follows them keeps its row."""
        self._ended = _joined(self._ended, self._running)
        self._running = NO_SPANS
        self.written += 1
        self._cut_at = self.written

    def _spans(self, first: Any, column: Any, length: Any, episode_return: Any, finished: bool) -> Spans:
        """Spans without what lies before the last cut; an episode that lost a part there has no known return."""
        lost = np.maximum(self._cut_at - first, 0)
        spans = Spans(
            np.asarray(first + lost, np.int64),
            np.asarray(column, np.int64),
            np.asarray(length - lost, np.int64),
            np.asarray(episode_return, np.float64),
            np.full(len(first), finished) & (lost == 0),
        )
        return spans.where(spans.length > 0)

    def spans(self) -> Spans:
        """Everything that can be drawn, without what was overwritten."""
        return _alive(_joined(self._ended, self._running), self.drawable)

    def finished(self) -> Spans:
        """Parts of finished episodes."""
        ended = _alive(self._ended, self.drawable)
        return ended.where(ended.finished)

    def whole(self) -> Spans:
        """Finished episodes of which nothing was overwritten."""
        return self._ended.where(self._ended.finished & (self._ended.first >= self.drawable))

    def to_array(self) -> NDArray[np.float64]:
        """All there is to a table, as one array [E + 1, 5]: for checkpoints."""
        head = np.array([[self.written, self._cut_at, len(self._ended.first), self.steps, 0]], np.float64)
        spans = _joined(self._ended, self._running)
        return np.concatenate([head, np.stack([column.astype(np.float64) for column in spans], 1)])

    def take(self, array: NDArray[np.float64]) -> None:
        """Becomes the table that `to_array` gave; one of another buffer is refused."""
        (written, cut_at, ended, steps, _), rows = array[0], array[1:]
        if int(steps) != self.steps:
            raise UserError(
                f"the checkpoint's replay buffer keeps {int(steps) - 1 - self.history} steps of each environment, "
                f"the plan's {self.steps - 1 - self.history}.",
                ["--replay-transitions as the run was started with", "train anew in another --run-dir"],
            )
        self.written, self._cut_at = int(written), int(cut_at)
        spans = Spans(*(rows[:, k].astype(column.dtype) for k, column in enumerate(NO_SPANS)))
        first = np.arange(len(rows)) < int(ended)
        self._ended, self._running = spans.where(first), spans.where(~first)


def _joined(one: Spans, other: Spans) -> Spans:
    if not len(other.first):
        return one
    return Spans(*(np.concatenate(pair) for pair in zip(one, other, strict=True)))


def _alive(spans: Spans, oldest: int) -> Spans:
    """The parts of spans from step `oldest` on."""
    lost = np.maximum(oldest - spans.first, 0)
    if not lost.any():
        return spans
    standing = spans._replace(first=spans.first + lost, length=spans.length - lost)
    return standing.where(standing.length > 0)


def draw_episodes(rng: np.random.Generator, length_E: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Numbers [count] of episodes, each with a chance in proportion to its length."""
    ends_E = np.cumsum(length_E, dtype=np.int64)
    return np.searchsorted(ends_E, rng.integers(0, ends_E[-1], count), side="right")


def draw_timesteps(rng: np.random.Generator, length_S: NDArray[np.integer], timesteps: int) -> NDArray[np.int64]:
    """K timesteps [S, K] of each episode, from 0: no timestep twice where the episode has K, else with replacement.

    Without replacement by Floyd's method: K draws for an episode of any length, all episodes at once.
    """
    length_S = np.asarray(length_S, np.int64)
    timestep_SK = np.empty((len(length_S), timesteps), np.int64)
    repeats_S = timesteps > length_S
    timestep_SK[repeats_S] = rng.integers(0, length_S[repeats_S, None], (int(repeats_S.sum()), timesteps))
    whole_S = length_S[~repeats_S]
    taken = np.empty((len(whole_S), timesteps), np.int64)
    for k in range(timesteps):
        last_S = whole_S - timesteps + k
        guess_S = rng.integers(0, last_S + 1)
        repeated_S = (taken[:, :k] == guess_S[:, None]).any(1)
        taken[:, k] = np.where(repeated_S, last_S, guess_S)
    timestep_SK[~repeats_S] = taken
    return timestep_SK
