"""What a reward model takes: the keys of its observations and actions, and the file that keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.envs import spaces
from batchwright.envs.spaces import Box, Discrete, Leaf, MultiBinary, MultiDiscrete

SPEC_FILE = "model.json"
"""The file of a run directory with the model's specification."""


@dataclass(frozen=True)
class ModelSpec:
    """Observations and actions by key, and the hidden layers."""

    observation: dict[str, Leaf]
    action: dict[str, Leaf]
    hidden: tuple[int, ...]
    """Units of each layer; empty for the convolutional network."""

    @property
    def images(self) -> bool:
        """Whether an observation has images."""
        return any(spaces.is_image(leaf) for leaf in self.observation.values())

    def to_json(self) -> str:
        return json.dumps(
            {
                "observation": {key: _leaf_to_json(leaf) for key, leaf in self.observation.items()},
                "action": {key: _leaf_to_json(leaf) for key, leaf in self.action.items()},
                "hidden": list(self.hidden),
            },
            indent=2,
        )

    @classmethod
    def from_json(cls, text: str) -> ModelSpec:
        record = json.loads(text)
        observation, action = (
            {key: _leaf_from_json(leaf) for key, leaf in record[name].items()} for name in ("observation", "action")
        )
        return cls(observation, action, tuple(int(units) for units in record["hidden"]))


def _leaf_to_json(leaf: Leaf) -> dict[str, object]:
    if isinstance(leaf, Discrete):
        return {"kind": "discrete", "n": leaf.n, "start": leaf.start}
    if isinstance(leaf, MultiDiscrete):
        return {"kind": "multi-discrete", "nvec": list(leaf.nvec), "start": list(leaf.start)}
    if isinstance(leaf, MultiBinary):
        return {"kind": "bits", "n": leaf.n}
    return {"kind": "box", "shape": list(leaf.shape), "dtype": spaces.stored_dtype(leaf).name}


def _leaf_from_json(record: Mapping[str, Any]) -> Leaf:
    if record["kind"] == "discrete":
        return Discrete(int(record["n"]), int(record["start"]))
    if record["kind"] == "multi-discrete":
        return MultiDiscrete(tuple(record["nvec"]), tuple(record["start"]))
    if record["kind"] == "bits":
        return MultiBinary(int(record["n"]))
    return unbounded_box(tuple(record["shape"]), np.dtype(record["dtype"]))


def unbounded_box(shape: tuple[int, ...], dtype: np.dtype) -> Box:
    """A Box with the widest bounds of a stored type; a reward network does not use the recorded bounds."""
    if dtype.kind == "f":
        return spaces.box(-np.inf, np.inf, shape, np.float32)
    return spaces.box(0, np.iinfo(dtype).max, shape, dtype)
