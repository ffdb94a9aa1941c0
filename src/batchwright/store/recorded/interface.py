"""What every format of recorded episodes is read through: columns by key, episodes one after the other."""

# T steps of one episode.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from batchwright.core.errors import UserError, did_you_mean
from batchwright.envs import spaces
from batchwright.envs.spaces import Leaf

EXTRA = "pip install 'batchwright[recorded]'"
MOST_LISTED = 12


@dataclass(frozen=True)
class Entry:
    """One recorded episode, before any of its arrays is read."""

    id: str
    file: Path
    steps: int


@dataclass(frozen=True)
class Choice:
    """Which columns are read: `reward` is a number per step, `success` a flag per step; at most one of the two."""

    obs: tuple[str, ...]
    action: tuple[str, ...]
    reward: str | None = None
    success: str | None = None


class Episode(NamedTuple):
    """One episode as arrays of the stored types."""

    id: str
    file: Path
    obs: dict[str, np.ndarray]  # [T + 1, ...] each: the last is the one after the last action
    action: dict[str, np.ndarray]  # [T, ...] each
    reward: np.ndarray | None  # [T] float32; None where the recording has none
    success: np.ndarray | None  # [T] bool; None where no flags are chosen
    terminated: np.ndarray  # [T] bool


class Recording(ABC):
    """Recorded episodes of one format; opening one reads headers, not images."""

    kind: str
    """What people call the format."""
    path: Path
    entries: list[Entry]
    obs_columns: dict[str, Leaf]
    action_columns: dict[str, Leaf]
    step_columns: tuple[str, ...]
    """Keys of one number or flag per step."""
    default_obs: tuple[str, ...]
    default_action: tuple[str, ...]
    default_reward: str
    default_success: tuple[str, ...] = ()
    repeats_last_obs: bool = False
    """Whether the observation after the last action is missing, so that the last one stands in for it."""

    @abstractmethod
    def obs(self, entry: Entry, key: str) -> np.ndarray:
        """[T + 1, ...] of one key."""

    @abstractmethod
    def action(self, entry: Entry, key: str) -> np.ndarray:
        """[T, ...] of one key."""

    @abstractmethod
    def per_step(self, entry: Entry, key: str) -> np.ndarray:
        """[T] of one key of `step_columns`."""

    @abstractmethod
    def terminated(self, entry: Entry) -> np.ndarray:
        """[T] bool; all False where the recording does not hold it."""


def choose(
    recording: Recording,
    obs_keys: Sequence[str] = (),
    action_key: str | None = None,
    reward_key: str | None = None,
    success_key: str | None = None,
    needs_returns: bool = True,
) -> Choice:
    """The columns to read: as stated, else the format's own names; the error for a missing key lists those there."""
    for key in obs_keys:
        _check_key(recording, key, recording.obs_columns, "--obs-keys")
    if action_key is not None:
        _check_key(recording, action_key, recording.action_columns, "--action-key")
    for stated, flag in ((reward_key, "--reward-key"), (success_key, "--success-key")):
        if stated is not None:
            _check_key(recording, stated, recording.step_columns, flag)
    if reward_key is None and success_key is None and recording.default_reward in recording.step_columns:
        reward_key = recording.default_reward
    if reward_key is None and success_key is None and needs_returns:
        success_key = next((key for key in recording.default_success if key in recording.step_columns), None)
        if success_key is None:
            raise _no_returns(recording)
    obs = tuple(dict.fromkeys(obs_keys)) or recording.default_obs
    if not obs:
        raise UserError(f"{recording.path} has no observations of numbers or images.", ["another dataset"])
    return Choice(obs, (action_key,) if action_key else recording.default_action, reward_key, success_key)


def _check_key(recording: Recording, key: str, known: Mapping[str, Leaf] | tuple[str, ...], flag: str) -> None:
    if key not in known:
        raise UserError(
            f"{recording.path} has no {key!r} for {flag}; there are {listed(known)}.",
            [f"{flag} {name}" for name in did_you_mean(key, known) or list(known)[:3]],
        )


def _no_returns(recording: Recording) -> UserError:
    there = listed(recording.step_columns) if recording.step_columns else "none"
    return UserError(
        f"{recording.path} has no {recording.default_reward!r}; keys with one number per step: {there}.",
        [*(f"--reward-key {key}" for key in recording.step_columns[:2]), "--success-key KEY", "--returns FILE"],
    )


def listed(names: Mapping[str, Leaf] | Sequence[str]) -> str:
    """Names as a message shows them: all of a few, the first of many."""
    found = list(names)
    rest = f" and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return ", ".join(found[:MOST_LISTED]) + rest if found else "none"


def episodes(recording: Recording, choice: Choice, entries: Sequence[Entry]) -> Iterator[Episode]:
    """The episodes one after the other, each checked: shapes as announced, every number finite."""
    for entry in entries:
        obs = {key: _column(recording, entry, key, recording.obs_columns[key], "obs") for key in choice.obs}
        action = {key: _column(recording, entry, key, recording.action_columns[key], "action") for key in choice.action}
        reward = None if choice.reward is None else rewards_of(recording, entry, choice.reward)
        success = None if choice.success is None else rewards_of(recording, entry, choice.success) != 0
        yield Episode(entry.id, entry.file, obs, action, reward, success, recording.terminated(entry))


def rewards_of(recording: Recording, entry: Entry, key: str) -> np.ndarray:
    """[T] float32 of one key with a number per step."""
    found = np.asarray(recording.per_step(entry, key))
    if found.dtype.kind not in "fiub" or found.shape != (entry.steps,):
        raise UserError(
            f"{entry.file}, episode {entry.id}: {key} has shape {found.shape} of {found.dtype}, "
            f"not one number for each of {entry.steps} steps.",
            ["another --reward-key", "--returns FILE"],
        )
    _refuse_nonfinite(found, entry, key)
    return found.astype(np.float32)


def _column(recording: Recording, entry: Entry, key: str, leaf: Leaf, part: str) -> np.ndarray:
    found = np.asarray(recording.obs(entry, key) if part == "obs" else recording.action(entry, key))
    wanted = (entry.steps + (part == "obs"), *spaces.leaf_shape(leaf))
    if found.shape != wanted:
        raise UserError(
            f"{entry.file}, episode {entry.id}: {key} has shape {found.shape}, where {wanted} is expected.",
            ["remove the episode", "--obs-keys without it"],
        )
    _refuse_nonfinite(found, entry, key)
    first = leaf.start if isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete) else 0
    stored: np.ndarray = (found - np.asarray(first, found.dtype)) if first else found
    return stored.astype(spaces.stored_dtype(leaf), copy=False)


def _refuse_nonfinite(values: np.ndarray, entry: Entry, key: str) -> None:
    if values.dtype.kind != "f":
        return
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        value = values[tuple(bad[0])]
        raise UserError(
            f"{entry.file}, episode {entry.id}, step {int(bad[0][0])}: {key} is {value}.",
            ["remove the episode", "--obs-keys without it"],
        )


def leaf_of(shape: Sequence[int], dtype: np.dtype, where: str) -> Leaf:
    """A Box without bounds for one value of a column; kinds that hold no numbers are refused."""
    kind = np.dtype(dtype)
    if kind.kind not in "fiub":
        raise UserError(f"{where} holds {kind}, not numbers.", ["--obs-keys without it"])
    if kind == np.uint8:
        return spaces.box(0, 255, tuple(shape), np.uint8)
    if kind.kind == "f":
        return spaces.box(-np.inf, np.inf, tuple(shape), kind)
    return spaces.box(0, 1, tuple(shape), np.int32)
