"""The recorded episodes that settings name: opened, checked and split; arrays are read only when a run needs them."""

# E episodes.

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.config.load import Resolved
from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.envs import spaces
from batchwright.planning.network_plan import image_size
from batchwright.planning.recorded_plan import RecordedFacts
from batchwright.reward.reward_spec import ModelSpec
from batchwright.store.recorded import Choice, Entry, Recording, choose, open_recording
from batchwright.store.recorded.bank import Bank
from batchwright.store.recorded.episode_returns import refuse_constant, returns_of, told_source


@dataclass(frozen=True)
class RewardData:
    """A recording, and what of it is used."""

    recording: Recording
    choice: Choice
    entries: list[Entry]
    returns: np.ndarray  # [E]
    returns_from: str
    """Where the returns come from, such as `sum of rewards`."""
    name: str

    @property
    def facts(self) -> RecordedFacts:
        """What the planner needs."""
        leaves = [self.recording.obs_columns[key] for key in self.choice.obs]
        actions = [self.recording.action_columns[key] for key in self.choice.action]
        images = [leaf for leaf in leaves if isinstance(leaf, spaces.Box) and spaces.is_image(leaf)]
        return RecordedFacts(
            self.name,
            self.recording.kind,
            tuple(entry.steps for entry in self.entries),
            len(self.recording.entries),
            sum(spaces.observation_bytes(leaf) for leaf in leaves),
            4 * sum(spaces.action_size(leaf) for leaf in actions),
            bool(images),
            self.returns_from,
            self.digest,
            min((min(image_size(leaf.shape)[:2]) for leaf in images), default=None),
        )

    def spec(self, hidden: tuple[int, ...]) -> ModelSpec:
        """What a model of this recording takes, as its file keeps it."""
        spec = ModelSpec(
            {key: self.recording.obs_columns[key] for key in self.choice.obs},
            {key: self.recording.action_columns[key] for key in self.choice.action},
            hidden,
        )
        return ModelSpec.from_json(spec.to_json())

    @property
    def digest(self) -> str:
        """Changes when episodes, their lengths or returns change; a resumed run must find the same."""
        text = repr([(e.id, e.steps, float(r)) for e, r in zip(self.entries, self.returns, strict=True)])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def read(self, folder: Path | None) -> Bank:
        """All chosen arrays; in memory-mapped files where a folder is given."""
        return Bank(self.recording, self.choice, self.entries, self.returns, folder)


def find_data(resolved: Resolved, needs_returns: bool = True) -> RewardData:
    """The recording that the settings name; reads returns, not observations.

    Where returns are neither recorded nor needed, they are NaN.
    """
    wishes = resolved.config.recorded
    if wishes.data is None:
        raise UserError("recorded episodes are needed.", ["batchwright rrd FOLDER"])
    flags = {"--reward-key": wishes.reward_key, "--success-key": wishes.success_key, "--returns": wishes.returns}
    stated = [flag for flag, value in flags.items() if value is not None]
    if len(stated) > 1:
        first, second = stated[:2]
        raise UserError(f"{first} and {second} are two sources of returns.", [first, second])
    recording = open_recording(wishes.data)
    keys = tuple(key.strip() for key in (wishes.obs_keys or "").split(",") if key.strip())
    if wishes.obs_keys is not None and not keys:
        raise UserError(f"--obs-keys {wishes.obs_keys} names no key.", ["leave out --obs-keys"])
    file = None if wishes.returns is None else Path(wishes.returns).expanduser()
    choice = choose(
        recording, keys, wishes.action_key, wishes.reward_key, wishes.success_key, needs_returns and file is None
    )
    entries = _draw_entries(recording, wishes.recorded_episodes, resolved.config.running.seed or 0)
    name = Path(wishes.data).name
    if file is None and choice.reward is None and choice.success is None:
        return RewardData(recording, choice, entries, np.full(len(entries), np.nan), "none recorded", name)
    # A file has the returns of all episodes, also of those that were not drawn.
    listed = entries if file is None else recording.entries
    by_id = dict(zip((e.id for e in listed), returns_of(recording, choice, listed, file), strict=True))
    returns = np.array([by_id[entry.id] for entry in entries])
    return RewardData(recording, choice, entries, returns, told_source(choice, file), name)


def _draw_entries(recording: Recording, most: int | None, seed: int) -> list[Entry]:
    """At most so many episodes, drawn by the seed, in the order of the recording."""
    if most is None or most >= len(recording.entries):
        return list(recording.entries)
    order = generator(seed, "recorded-episodes").permutation(len(recording.entries))[:most]
    return [recording.entries[k] for k in sorted(order)]


def check_returns(data: RewardData, resolved: Resolved) -> None:
    """Refuses a single episode and, unless allowed, returns that are all the same."""
    if len(data.entries) < 2:
        raise UserError(
            f"{data.name} has one episode; returns of at least two are needed to tell good from bad.",
            ["a recording of more episodes"],
        )
    if not resolved.config.recorded.allow_constant_returns:
        refuse_constant(data.name, data.returns, data.returns_from)


def split_episodes(episodes: int, held_out: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers of the training episodes, numbers of the held-out ones), each in order."""
    order = generator(seed, "held-out").permutation(episodes)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def generator(seed: int, name: str, *counters: int) -> np.random.Generator:
    """A NumPy generator that depends on its arguments alone, so that checkpoints need not hold it."""
    return np.random.Generator(np.random.PCG64(Streams(seed).number(name, *counters)))


def summary(data: RewardData) -> dict[str, Any]:
    """Counts, lengths, returns and keys of the recording, ready for JSON."""
    recording, facts = data.recording, data.facts
    lengths, returns = np.array(facts.lengths), data.returns
    chosen = {*data.choice.obs, *data.choice.action}
    columns = recording.obs_columns | recording.action_columns
    rows, steps = int((lengths + 1).sum()), int(lengths.sum())
    return {
        "path": str(recording.path),
        "format": recording.kind,
        "episodes": len(lengths),
        "steps": steps,
        "length": {"min": int(lengths.min()), "mean": float(lengths.mean()), "max": int(lengths.max())},
        "returns": None
        if np.isnan(returns).any()
        else {
            "from": data.returns_from,
            "mean": float(returns.mean()),
            "std": float(returns.std()),
            "min": float(returns.min()),
            "median": float(np.median(returns)),
            "max": float(returns.max()),
        },
        "keys": {
            key: {
                "shape": list(spaces.leaf_shape(leaf)),
                "dtype": spaces.stored_dtype(leaf).name,
                "part": "observation" if key in recording.obs_columns else "action",
                "used": key in chosen,
                "bytes": (rows if key in recording.obs_columns else steps) * spaces.observation_bytes(leaf),
            }
            for key, leaf in columns.items()
        },
        "per_step_keys": list(recording.step_columns),
        "bytes": rows * facts.obs_bytes + steps * (facts.action_bytes + 4),
    }
