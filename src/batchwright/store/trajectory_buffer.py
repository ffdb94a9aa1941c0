"""Whole episodes for people who bring their own loop: fill it, compute advantages, draw minibatches. NumPy only."""

# T steps of one episode, B steps of all episodes, K reward components.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.planning.split import near_equal_split

KEYS = ("states", "actions", "rewards", "values", "log_probs", "returns", "advantages")
_STEP_KEYS = KEYS[:5]
_EPISODE_KEYS = (*_STEP_KEYS, "final_values", "terminated", "success")
_EPISODE_CALL = f"buffer.add_episode({', '.join(_EPISODE_KEYS)})"

Tree = Any
"""An array, or a (nested) dict of arrays: what an environment gives and a network takes."""


@dataclass
class _Episode:
    """The steps of one episode as they came, and how it ended."""

    steps: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _STEP_KEYS})
    final_values: Any = 0.0
    terminated: bool = True
    success: bool = False

    def __len__(self) -> int:
        return len(self.steps["rewards"])


class TrajectoryBuffer:
    """Episodes of any length; minibatches of near-equal size in which every step is exactly once.

    Rewards and values are numbers, vectors [K], or dicts by component name; returns and advantages have the same form.
    """

    def __init__(self, seed: int = 0) -> None:
        """`seed` is that of the order of minibatches, which is fresh at every call."""
        self._random = np.random.default_rng(seed)
        self._names: tuple[str, ...] | None = None
        self.clear()

    def __len__(self) -> int:
        """Steps of all finished episodes."""
        return sum(len(episode) for episode in self._episodes)

    def clear(self) -> None:
        """Forgets all episodes, an unfinished one too."""
        self._episodes: list[_Episode] = []
        self._running: _Episode | None = None
        self._table: dict[str, Tree] | None = None

    def start_episode(self) -> None:
        """Begins an episode; the one before must be finished."""
        if self._running is not None:
            raise UserError(
                f"start_episode: an episode of {len(self._running)} steps is not finished.",
                ["buffer.finish_episode(final_values, terminated, success)", "buffer.clear()"],
            )
        self._running = _Episode()

    def add_step(self, state: Tree, action: Tree, reward: Any, value: Any, log_prob: Any) -> None:
        """One step of the episode that was started: the state acted in, the action, what followed."""
        running = self._started("add_step")
        for name, part in zip(_STEP_KEYS, (state, action, reward, value, log_prob), strict=True):
            # A copy: environments hand out the array that they write the next state into.
            running.steps[name].append(_copied(part))

    def finish_episode(self, final_values: Any = 0.0, terminated: bool = True, success: bool = False) -> None:
        """Ends the episode. `final_values` is the value of the state after the last step.

        It counts where the episode was cut (a time limit: `terminated` False), and not where it came to its own end.
        """
        running = self._started("finish_episode")
        running.final_values = _copied(final_values)
        running.terminated, running.success = bool(terminated), bool(success)
        self._running, self._table = None, None
        self._episodes.append(running)

    def add_episode(
        self,
        states: Sequence[Tree],
        actions: Sequence[Tree] | None = None,
        rewards: Sequence[Any] | None = None,
        values: Sequence[Any] | None = None,
        log_probs: Sequence[Any] | None = None,
        final_values: Any = 0.0,
        terminated: bool = True,
        success: bool = False,
    ) -> None:
        """A whole episode at once: sequences of equal length, or one tuple of all eight parts in this order."""
        parts: list[Any] = [states, actions, rewards, values, log_probs]
        if all(part is None for part in parts[1:]):
            *parts, final_values, terminated, success = _unpacked(states)
        missing = [name for name, part in zip(_STEP_KEYS, parts, strict=True) if part is None]
        if missing:
            raise UserError(f"add_episode: no {' and no '.join(missing)} given.", [_EPISODE_CALL])
        columns: dict[str, Sequence[Any]] = dict(zip(_STEP_KEYS, parts, strict=True))
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{length} {name}" for name, length in lengths.items())
            raise UserError(f"add_episode: the parts of an episode differ in length: {counts}.")
        self.start_episode()
        for step in zip(*columns.values(), strict=True):
            self.add_step(*step)
        self.finish_episode(final_values, terminated, success)

    def compute_returns_and_advantages_for_all_episodes(self, gamma: float = 0.99, gae_lambda: float = 0.95) -> None:
        """Generalised advantages (Schulman et al., 2016) of every episode; returns are advantages + values."""
        for name, number in (("gamma", gamma), ("gae_lambda", gae_lambda)):
            if not 0.0 <= number <= 1.0:
                raise UserError(f"{name} {number} is not between 0 and 1.", [f"{name}=0.99"])
        if self._running is not None:
            raise UserError(
                f"the last episode ({len(self._running)} steps) is not finished: its returns are not known.",
                ["buffer.finish_episode(final_values, terminated, success)"],
            )
        filled = [episode for episode in self._episodes if len(episode)]
        if not filled:
            raise UserError("the buffer has no steps.", ["buffer.start_episode()", "buffer.add_step(...)"])
        self._names = _component_names(filled)
        columns: dict[str, list[Tree]] = {name: [] for name in KEYS}
        for episode in filled:
            rewards, values = (self._numbers(name, episode.steps[name]) for name in ("rewards", "values"))
            final = self._numbers("final_values", [episode.final_values], like=values[0])[0]
            if rewards.shape != values.shape:
                raise UserError(
                    f"rewards have the shape {rewards.shape[1:]}, values {values.shape[1:]}: one value per component."
                )
            advantages = _gae(rewards, values, final * (not episode.terminated), gamma, gae_lambda)
            for name in ("states", "actions", "log_probs"):
                columns[name].append(_stacked(name, episode.steps[name]))
            found = {"rewards": rewards, "values": values, "returns": advantages + values, "advantages": advantages}
            for name, array in found.items():
                columns[name].append(self._named(array))
        self._table = {name: _joined(name, columns[name]) for name in KEYS}

    def data(self) -> dict[str, Tree]:
        """All steps under the seven keys, [B, ...] each, episode after episode."""
        if self._table is None:
            raise UserError(
                "returns and advantages are not computed for the episodes in the buffer.",
                ["buffer.compute_returns_and_advantages_for_all_episodes(gamma, gae_lambda)"],
            )
        return dict(self._table)

    def create_minibatches(self, minibatch_size: int) -> list[dict[str, Tree]]:
        """All steps in a fresh random order, cut into minibatches whose sizes differ by at most 1.

        Their number is the one whose size comes nearest to `minibatch_size`; more than there is means one of all.
        """
        if minibatch_size < 1:
            raise UserError(f"a minibatch of {minibatch_size} steps is empty.", ["minibatch_size=64"])
        table = self.data()
        order = self._random.permutation(len(self))
        parts = np.array_split(order, near_equal_split(len(self), minibatch_size).parts)
        return [{name: _rows(column, part) for name, column in table.items()} for part in parts]

    def stats(self) -> dict[str, float]:
        """num_episodes, avg_reward (of a step, components added), avg_length, success_rate, total_steps.

        The mean return of an episode is avg_reward x avg_length. All are 0 while the buffer is empty.
        """
        count, steps = len(self._episodes), len(self)
        rewards = sum(_total(reward) for episode in self._episodes for reward in episode.steps["rewards"])
        return {
            "num_episodes": count,
            "avg_reward": rewards / max(steps, 1),
            "avg_length": steps / max(count, 1),
            "success_rate": sum(episode.success for episode in self._episodes) / max(count, 1),
            "total_steps": steps,
        }

    def _started(self, method: str) -> _Episode:
        if self._running is None:
            raise UserError(f"{method}: no episode was started.", ["buffer.start_episode()"])
        return self._running

    def _numbers(self, name: str, parts: list[Any], like: np.ndarray | None = None) -> np.ndarray:
        """Rewards or values [T] or [T, K] as float64; a final value of 0 stands for all components."""
        if self._names is not None and any(isinstance(part, Mapping) for part in parts):
            missing = [key for part in parts for key in self._names if key not in part]
            if missing:
                raise UserError(f"{name}: the component {missing[0]!r} is missing in a step.", [*self._names])
            parts = [[part[key] for key in self._names] for part in parts]
        numbers = np.asarray(parts, np.float64)
        if like is not None and numbers.shape[1:] != like.shape:
            numbers = np.broadcast_to(numbers.reshape(len(parts), *[1] * like.ndim), (len(parts), *like.shape))
        if not np.isfinite(numbers).all():
            raise UserError(f"{name} are not finite in step {int(np.argwhere(~np.isfinite(numbers))[0][0])}.")
        return numbers

    def _named(self, array: np.ndarray) -> Tree:
        """Components under their names, where they came under names."""
        array = array.astype(np.float32)
        return array if self._names is None else {name: array[:, k] for k, name in enumerate(self._names)}


def _unpacked(episode: Any) -> tuple[Any, ...]:
    """The eight parts of an episode that came as one tuple."""
    if isinstance(episode, tuple) and len(episode) == len(_EPISODE_KEYS):
        return episode
    given = f"{len(episode)} parts" if isinstance(episode, tuple) else f"one {type(episode).__name__}"
    raise UserError(
        f"add_episode takes one tuple of {len(_EPISODE_KEYS)} parts ({', '.join(_EPISODE_KEYS)}) or the parts "
        f"themselves, got {given}.",
        [_EPISODE_CALL],
    )


def _gae(rewards: np.ndarray, values: np.ndarray, final: np.ndarray, gamma: float, trace: float) -> np.ndarray:
    """Advantages [T] or [T, K] of one episode; `final` is the value behind its last step, 0 after a termination."""
    following = np.concatenate([values[1:], np.asarray(final)[None]])
    deltas: np.ndarray = rewards + gamma * following - values
    advantages = np.empty_like(deltas)
    later = np.zeros_like(deltas[0])
    for t in reversed(range(len(deltas))):
        later = deltas[t] + gamma * trace * later
        advantages[t] = later
    return advantages


def _component_names(episodes: list[_Episode]) -> tuple[str, ...] | None:
    """The names of the reward's components, in the order of the first step; None for numbers and vectors."""
    first = episodes[0].steps["rewards"][0]
    return tuple(first) if isinstance(first, Mapping) else None


def _total(reward: Any) -> float:
    parts = reward.values() if isinstance(reward, Mapping) else [reward]
    return float(sum(np.sum(part) for part in parts))


def _copied(part: Tree) -> Tree:
    if isinstance(part, Mapping):
        return {name: _copied(inner) for name, inner in part.items()}
    return np.array(part)


def _stacked(name: str, parts: list[Tree]) -> Tree:
    if isinstance(parts[0], Mapping):
        return {key: _stacked(f"{name}/{key}", [part[key] for part in parts]) for key in parts[0]}
    try:
        return np.stack(parts)
    except ValueError as error:
        raise UserError(f"the {name} of an episode differ in shape: {error}.") from None


def _joined(name: str, parts: list[Tree]) -> Tree:
    if isinstance(parts[0], Mapping):
        return {key: _joined(f"{name}/{key}", [part[key] for part in parts]) for key in parts[0]}
    try:
        return np.concatenate(parts)
    except ValueError as error:
        raise UserError(f"the {name} of two episodes differ in shape: {error}.") from None


def _rows(column: Tree, index: np.ndarray) -> Tree:
    if isinstance(column, Mapping):
        return {name: _rows(inner, index) for name, inner in column.items()}
    return column[index]
