"""Minari datasets: a folder or the id of a local one, read with Minari's own storage (HDF5, Arrow, Parquet)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.spaces import Leaf
from batchwright.store.recorded.hdf5 import open_hdf5
from batchwright.store.recorded.interface import EXTRA, Entry, Recording, listed

METADATA = "metadata.json"
OWN_COLUMNS = ("rewards", "terminations", "truncations")


def find_minari(name: str) -> Path | None:
    """The folder with a dataset's data: of a path, or of an id under $MINARI_DATASETS_PATH; None where neither is."""
    home = os.environ.get("MINARI_DATASETS_PATH")
    root = Path(home) if home else Path.home() / ".minari" / "datasets"
    for folder in (Path(name), Path(name) / "data", root / name / "data"):
        if (folder / METADATA).is_file():
            return folder
    return None


class MinariRecording(Recording):
    """One Minari dataset; the last episode read is kept, as its columns are asked for one after the other."""

    kind = "Minari"
    default_reward = "rewards"

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._storage = _open(folder)
        self._kept: tuple[str, dict[str, Any]] | None = None
        self.obs_columns, skipped = _columns(self._storage.observation_space, "observation")
        self.action_columns, odd = _columns(self._storage.action_space, "action")
        if odd:
            raise UserError(f"{folder}: actions hold {listed(odd)}, which are not numbers.", ["another dataset"])
        self.skipped = skipped
        self.default_obs, self.default_action = tuple(self.obs_columns), tuple(self.action_columns)
        self.entries = self._scan()
        self.step_columns = (*OWN_COLUMNS, *self._info_columns())

    def _scan(self) -> list[Entry]:
        """The episodes with their lengths, from the metadata of each."""
        try:
            count = int(self._storage.total_episodes)
            metadata = list(self._storage.get_episode_metadata(range(count)))
            return [Entry(str(k), self._file(k), int(about["total_steps"])) for k, about in enumerate(metadata)]
        except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
            raise _damaged(self.path, error) from None

    def _file(self, number: int) -> Path:
        """Where an episode lies: a file of all, or a folder of its own."""
        one = self.path / "main_data.hdf5"
        return one if one.exists() else self.path / str(number)

    def _info_columns(self) -> list[str]:
        if not self.entries:
            return []
        first = self.entries[0]
        infos = self._episode(first).get("infos") or {}
        flat = _flatten(infos, "infos")
        return [key for key, value in flat.items() if _per_step(value, first.steps) is not None]

    def _episode(self, entry: Entry) -> dict[str, Any]:
        if self._kept is None or self._kept[0] != entry.id:
            try:
                found = next(iter(self._storage.get_episodes([int(entry.id)])))
            except UserError:
                raise
            except Exception as error:  # Minari leaks what h5py, pyarrow, Pillow and its own asserts raise
                raise _damaged(entry.file, error, f", episode {entry.id},") from None
            self._kept = (entry.id, found)
        return self._kept[1]

    def obs(self, entry: Entry, key: str) -> np.ndarray:
        return np.asarray(_value_at(self._episode(entry)["observations"], key, "observation"))

    def action(self, entry: Entry, key: str) -> np.ndarray:
        return np.asarray(_value_at(self._episode(entry)["actions"], key, "action"))

    def per_step(self, entry: Entry, key: str) -> np.ndarray:
        if key in OWN_COLUMNS and entry.file.suffix == ".hdf5":  # returns are asked for first: no image is decoded
            with open_hdf5(entry.file) as handle:
                return np.asarray(handle[f"episode_{entry.id}/{key}"][()])
        episode = self._episode(entry)
        if key in OWN_COLUMNS:
            return np.asarray(episode[key])
        found = _per_step(_flatten(episode.get("infos") or {}, "infos").get(key), entry.steps)
        if found is None:
            raise UserError(
                f"{entry.file}, episode {entry.id} has no {key}, which the first episode has.", ["another --reward-key"]
            )
        return found

    def terminated(self, entry: Entry) -> np.ndarray:
        return self.per_step(entry, "terminations").astype(bool)


def _open(folder: Path) -> Any:
    try:
        from minari.dataset.minari_storage import MinariStorage
    except ImportError:
        raise UserError("reading a Minari dataset needs minari, which is not installed.", [EXTRA]) from None
    try:
        about = json.loads((folder / METADATA).read_text(encoding="utf-8"))
        # Without its spaces Minari would make the environment, and a stranger's entry point would run.
        missing = [name for name in ("observation_space", "action_space") if name not in about]
        if missing:
            raise ValueError(f"{METADATA} has no {' and no '.join(missing)}")
        return MinariStorage.read(folder)
    except ImportError as error:
        raise UserError(f"reading {folder} needs a package that is not installed: {error}.", [EXTRA]) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError, NotImplementedError) as error:
        raise _damaged(folder / METADATA, error) from None


def _columns(space: Any, root: str) -> tuple[dict[str, Leaf], list[str]]:
    """Leaves by path as `observation/camera`, and the paths of those that hold no numbers."""
    children = getattr(space, "spaces", None)
    if children is None:
        try:
            leaf = spaces.from_gymnasium(space, root)
        except UserError:
            return {}, [root]
        return {root: leaf}, []  # type: ignore[dict-item]
    named = children.items() if isinstance(children, Mapping) else enumerate(children)
    found: dict[str, Leaf] = {}
    skipped: list[str] = []
    for name, part in named:
        inner, odd = _columns(part, f"{root}/{name}")
        found |= inner
        skipped += odd
    return found, skipped


def _value_at(tree: Any, key: str, root: str) -> Any:
    for step in key.removeprefix(root).strip("/").split("/") if key != root else ():
        tree = tree[int(step)] if isinstance(tree, tuple) else tree[step]
    return tree


def _flatten(infos: Mapping[str, Any], root: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in infos.items():
        flat |= _flatten(value, f"{root}/{key}") if isinstance(value, Mapping) else {f"{root}/{key}": value}
    return flat


def _per_step(value: Any, steps: int) -> np.ndarray | None:
    """One number per step; infos begin with the one of the reset, which is left out."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" or array.shape not in ((steps,), (steps + 1,)):
        return None
    return array[-steps:]


def _damaged(path: Path, error: Exception, where: str = "") -> UserError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return UserError(f"{path}{where} cannot be read as a Minari dataset: {reason}.", ["copy or download it again"])
