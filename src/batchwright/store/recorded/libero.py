"""LIBERO demonstrations: HDF5 files in robomimic's layout, `data/demo_k/{obs/..., actions, rewards, dones}`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.files import find_below
from batchwright.envs import spaces
from batchwright.envs.spaces import Leaf
from batchwright.store.recorded.hdf5 import open_hdf5
from batchwright.store.recorded.interface import Entry, Recording, leaf_of

ENDINGS = (".hdf5", ".h5")


def is_libero(path: Path) -> bool:
    """Whether a file or a folder holds HDF5 files, in it or in its folders."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.suffix in ENDINGS else []
    return find_below(path, lambda name: name.endswith(ENDINGS))


class LiberoRecording(Recording):
    """All demonstrations of a file, or of every file in a folder; demonstrations in the order of their numbers."""

    kind = "LIBERO HDF5"
    default_reward = "rewards"
    repeats_last_obs = True

    def __init__(self, path: Path) -> None:
        self.path, self._root = path, path if path.is_dir() else path.parent
        self.entries = []
        self._names: dict[str, str] = {}
        self.obs_columns, self.action_columns = {}, {}
        self._first = ""
        self._has_next = False
        steps: set[str] | None = None
        for file in _files(path):
            with open_hdf5(file) as handle:
                for name in _demos(handle, file):
                    found = self._scan(handle[f"data/{name}"], file, name)
                    steps = found if steps is None else steps & found
        self.step_columns = tuple(sorted(steps or ()))
        self.default_obs = tuple(self.obs_columns)
        self.default_action = tuple(self.action_columns)
        self.repeats_last_obs = not self._has_next

    def _scan(self, demo: Any, file: Path, name: str) -> set[str]:
        """Takes up one demonstration's header; returns its keys of one number per step."""
        where = f"{file}, {name}"
        if "actions" not in demo or "obs" not in demo:
            missing = [key for key in ("obs", "actions") if key not in demo]
            raise UserError(
                f"{where} has no {' and no '.join(missing)}; it has {', '.join(demo) or 'nothing'}.",
                ["a file of robomimic's layout: data/demo_k/{obs, actions, rewards, dones}"],
            )
        steps = int(demo["actions"].shape[0])
        if steps == 0:
            raise UserError(f"{where} has no steps.", ["remove the demonstration"])
        obs = {key: leaf_of(d.shape[1:], d.dtype, f"{where}, obs/{key}") for key, d in _datasets(demo["obs"])}
        action: dict[str, Leaf] = {
            "actions": leaf_of(demo["actions"].shape[1:], demo["actions"].dtype, f"{where}, actions")
        }
        if not self.entries:
            self.obs_columns, self.action_columns, self._first = obs, action, where
            self._has_next = "next_obs" in demo
        self._compare(obs | action, where)
        self._has_next = self._has_next and "next_obs" in demo
        entry = Entry(f"{file.relative_to(self._root)}/{name}", file, steps)
        self.entries.append(entry)
        self._names[entry.id] = name
        return {key for key, d in _datasets(demo) if d.shape == (steps,)}

    def _compare(self, found: dict[str, Leaf], where: str) -> None:
        """Every demonstration has the columns of the first, in their shapes."""
        for key, leaf in (self.obs_columns | self.action_columns).items():
            if key not in found:
                raise UserError(f"{where} has no {key}, which {self._first} has.", ["move the file elsewhere"])
            shape, wanted = spaces.leaf_shape(found[key]), spaces.leaf_shape(leaf)
            if shape != wanted:
                raise UserError(
                    f"{where}: {key} has shape {shape}, in {self._first} it has {wanted}.",
                    ["move the file elsewhere"],
                )

    def obs(self, entry: Entry, key: str) -> np.ndarray:
        with open_hdf5(entry.file) as handle:
            demo = handle[f"data/{self._names[entry.id]}"]
            values = demo[f"obs/{key}"][()]
            last = demo[f"next_obs/{key}"][-1:] if self._has_next else values[-1:]
        return np.concatenate([values, last])

    def action(self, entry: Entry, key: str) -> np.ndarray:
        return self.per_step(entry, key)

    def per_step(self, entry: Entry, key: str) -> np.ndarray:
        with open_hdf5(entry.file) as handle:
            return np.asarray(handle[f"data/{self._names[entry.id]}/{key}"][()])

    def terminated(self, entry: Entry) -> np.ndarray:
        if "dones" not in self.step_columns:
            return np.zeros(entry.steps, bool)
        return self.per_step(entry, "dones").astype(bool)


def _datasets(group: Any) -> list[tuple[str, Any]]:
    """The arrays of a group by path, such as `agentview_rgb` or `camera/left`."""
    found: list[tuple[str, Any]] = []
    for key in sorted(group):
        item = group[key]
        if hasattr(item, "shape"):
            found.append((key, item))
        elif key not in ("obs", "next_obs"):
            found += [(f"{key}/{name}", part) for name, part in _datasets(item)]
    return found


def _demos(handle: Any, file: Path) -> list[str]:
    if "data" not in handle:
        raise UserError(
            f"{file} has no group 'data'; it has {', '.join(handle) or 'nothing'}.",
            ["a folder of LIBERO demonstrations", "the folder of a Minari dataset (the one with data/)"],
        )
    names = [name for name in handle["data"] if re.fullmatch(r"\D*\d+", name)]
    if not names:
        raise UserError(f"{file} has no demonstrations: 'data' is empty.", ["remove the file"])
    return sorted(names, key=lambda name: int(re.sub(r"\D", "", name)))
