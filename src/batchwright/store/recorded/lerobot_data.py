"""LeRobot datasets of layout v2 and v3: `meta/info.json`, `data/chunk-*/*.parquet`, images in Parquet or in videos.

Read with pyarrow alone: the package `lerobot` would bring PyTorch. Layout: lerobot/datasets/utils.py of LeRobot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.spaces import Leaf
from batchwright.store.recorded.frames import Clip, decode_image, read_frames
from batchwright.store.recorded.interface import EXTRA, Entry, Recording, leaf_of

INFO = "meta/info.json"
BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")
VERSIONS = ("v2.", "v3.")


def is_lerobot(path: Path) -> bool:
    """Whether a folder has a LeRobot dataset's description."""
    return (path / INFO).is_file()


@dataclass(frozen=True)
class _Rows:
    """Rows [start, start + steps) of one Parquet file."""

    start: int
    steps: int


class LeRobotRecording(Recording):
    """One LeRobot dataset; only the asked column of the asked episode is read."""

    kind = "LeRobot"
    default_reward = "next.reward"
    default_success = ("next.success", "success")
    repeats_last_obs = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._info = _read_info(path)
        self._features: dict[str, dict[str, Any]] = self._info["features"]
        self._rows: dict[str, _Rows] = {}
        self._kept: tuple[Path, _Table] | None = None
        self.entries = self._scan()
        self._clips: dict[tuple[str, str], Clip] = {}
        obs = {k: f for k, f in self._features.items() if k.startswith("observation") and _holds_numbers(f)}
        self.skipped = [k for k, f in self._features.items() if k.startswith("observation") and not _holds_numbers(f)]
        self.obs_columns = {key: self._leaf(key, feature) for key, feature in obs.items()}
        self.action_columns = {k: self._leaf(k, f) for k, f in self._features.items() if k.startswith("action")}
        self.default_obs = tuple(self.obs_columns)
        if not self.action_columns:
            raise UserError(f"{path / INFO} has no feature 'action'.", ["another dataset"])
        self.default_action = ("action",) if "action" in self.action_columns else tuple(self.action_columns)[:1]
        self.step_columns = tuple(
            key
            for key, feature in self._features.items()
            if key not in (*BOOKKEEPING, *obs, *self.action_columns)
            and list(feature["shape"]) in ([], [1])
            and _holds_numbers(feature)
        )

    def _scan(self) -> list[Entry]:
        """Episodes from the column `episode_index` of every data file."""
        files = sorted((self.path / "data").glob("*/*.parquet"))
        if not files:
            raise UserError(f"{self.path / 'data'} has no Parquet files.", ["download the dataset whole"])
        found: list[Entry] = []
        for file in files:
            column = _Table(file).whole(["episode_index"]).column(0)
            numbers = _numbers(column, (), file, "episode_index")
            cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
            for start, end in pairwise(cuts):
                if start == end:
                    raise UserError(f"{file} has no rows.", ["remove the file", "download it again"])
                entry = Entry(str(int(numbers[start])), file, end - start)
                if entry.id in self._rows:
                    raise UserError(f"{file} has episode {entry.id} a second time.", ["download the dataset again"])
                self._rows[entry.id] = _Rows(start, end - start)
                found.append(entry)
        stated = self._info.get("total_episodes")
        if isinstance(stated, int) and stated != len(found):
            raise UserError(
                f"{self.path / INFO} tells of {stated} episodes, the data files hold {len(found)}.",
                ["download the dataset whole"],
            )
        return sorted(found, key=lambda entry: int(entry.id))

    def _leaf(self, key: str, feature: dict[str, Any]) -> Leaf:
        shape = tuple(int(side) for side in feature["shape"])
        if feature["dtype"] not in ("image", "video"):
            return leaf_of(shape, np.dtype(feature["dtype"]), f"{self.path / INFO}, {key}")
        names = feature.get("names") or ()
        first = str(names[0]) if isinstance(names, list) and names else ""
        if len(shape) == 3 and (first.startswith("channel") or (not first and shape[0] <= 4 < shape[2])):
            shape = (*shape[1:], shape[0])  # decoded frames have their channels last
        return leaf_of(shape, np.dtype(np.uint8), key)

    def obs(self, entry: Entry, key: str) -> np.ndarray:
        values = self._column(entry, key)
        return np.concatenate([values, values[-1:]])

    def action(self, entry: Entry, key: str) -> np.ndarray:
        return self._column(entry, key)

    def per_step(self, entry: Entry, key: str) -> np.ndarray:
        return self._column(entry, key).reshape(-1)

    def terminated(self, entry: Entry) -> np.ndarray:
        key = next((key for key in ("next.terminated", "next.done") if key in self.step_columns), None)
        return np.zeros(entry.steps, bool) if key is None else self.per_step(entry, key).astype(bool)

    def _column(self, entry: Entry, key: str) -> np.ndarray:
        feature = self._features[key]
        if feature["dtype"] == "video":
            return read_frames(self._clip(entry, key), entry.steps)
        rows = self._rows[entry.id]
        if self._kept is None or self._kept[0] != entry.file:
            self._kept = (entry.file, _Table(entry.file))
        values = self._kept[1].read(key, rows)
        if feature["dtype"] == "image":
            return np.stack([self._image(value, entry, step) for step, value in enumerate(values.to_pylist())])
        return _numbers(values, tuple(feature["shape"]), entry.file, f"episode {entry.id}: {key}")

    def _image(self, value: Any, entry: Entry, step: int) -> np.ndarray:
        data = value.get("bytes") if isinstance(value, dict) else None
        try:
            if data is None:
                raise ValueError("the file holds no bytes of it")
            return decode_image(data)
        except (OSError, ValueError, SyntaxError) as error:
            raise UserError(
                f"{entry.file}, episode {entry.id}, step {step}: an image cannot be decoded: {error}.",
                ["--obs-keys without it", "download the dataset again"],
            ) from None

    def _clip(self, entry: Entry, key: str) -> Clip:
        """Which part of which video file holds an episode."""
        fps = float(self._info.get("fps") or 0)
        template = str(self._info.get("video_path") or "")
        number = int(entry.id)
        if not self._info["codebase_version"].startswith("v3."):
            chunk = number // int(self._info.get("chunks_size") or 1000)
            return Clip(self._fill(template, episode_chunk=chunk, video_key=key, episode_index=number), 0.0, fps)
        if (entry.id, key) not in self._clips:
            self._read_clips(key, template, fps)
        if (entry.id, key) not in self._clips:
            raise UserError(
                f"{self.path / 'meta/episodes'} does not tell where {key} of episode {number} lies.",
                ["--obs-keys without it", "download the dataset whole"],
            )
        return self._clips[entry.id, key]

    def _read_clips(self, key: str, template: str, fps: float) -> None:
        names = [f"videos/{key}/{part}" for part in ("chunk_index", "file_index", "from_timestamp")]
        for file in sorted((self.path / "meta/episodes").glob("*/*.parquet")):
            table = _Table(file)
            if not {"episode_index", *names} <= set(table.names):
                continue
            rows = table.whole(["episode_index", *names]).to_pydict()
            for number, chunk, part, start in zip(*(rows[n] for n in ("episode_index", *names)), strict=True):
                path = self._fill(template, video_key=key, chunk_index=int(chunk), file_index=int(part))
                self._clips[str(int(number)), key] = Clip(path, float(start), fps)

    def _fill(self, template: str, **values: Any) -> Path:
        """The path of a video by the dataset's own template."""
        try:
            return self.path / template.format(**values)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise UserError(
                f"{self.path / INFO}: video_path {template!r} cannot be filled in: {error}.", ["--obs-keys without it"]
            ) from None


def _read_info(path: Path) -> dict[str, Any]:
    try:
        info = json.loads((path / INFO).read_text(encoding="utf-8"))
        version, features = str(info["codebase_version"]), info["features"]
        if not all(isinstance(f, dict) and "dtype" in f and "shape" in f for f in features.values()):
            raise ValueError("a feature has no dtype or no shape")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path / INFO} cannot be read: {type(error).__name__}: {error}.", ["download the dataset again"]
        ) from None
    if not version.startswith(VERSIONS):
        raise UserError(
            f"{path / INFO}: layout {version} is not read; v2.1 and v3.0 are.", ["convert it with LeRobot's scripts"]
        )
    return dict(info) | {"codebase_version": version}


def _holds_numbers(feature: dict[str, Any]) -> bool:
    kind = str(feature["dtype"])
    return kind in ("image", "video") or kind.startswith(("float", "int", "uint", "bool"))


@contextmanager
def _explain(file: Path) -> Iterator[Any]:
    """pyarrow's Parquet module; a damaged file and a missing package raise an error that names them."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError("reading a LeRobot dataset needs pyarrow, which is not installed.", [EXTRA]) from None
    try:
        yield parquet
    except (OSError, KeyError, pyarrow.ArrowException) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UserError(f"{file} cannot be read as Parquet: {reason}.", ["download it again"]) from None


class _Table:
    """One Parquet file; its footer is parsed once, as a file may hold hundreds of episodes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with _explain(file) as parquet:
            self._table = parquet.ParquetFile(file)
            about = self._table.metadata
            self._ends = np.cumsum([about.row_group(k).num_rows for k in range(about.num_row_groups)], dtype=np.int64)
        self.names: list[str] = list(self._table.schema_arrow.names)

    def whole(self, names: list[str]) -> Any:
        """Whole columns."""
        self._check(names)
        with _explain(self.file):
            return self._table.read(columns=names)

    def read(self, key: str, rows: _Rows) -> Any:
        """One column of an episode's rows; only the row groups that hold them are read."""
        self._check([key])
        last_row = rows.start + rows.steps - 1
        first, last = (int(np.searchsorted(self._ends, row, side="right")) for row in (rows.start, last_row))
        before = int(self._ends[first - 1]) if first else 0
        with _explain(self.file):
            column = self._table.read_row_groups(list(range(first, last + 1)), columns=[key]).column(0)
        return column.slice(rows.start - before, rows.steps).combine_chunks()

    def _check(self, names: list[str]) -> None:
        missing = [name for name in names if name not in self.names]
        if missing:
            raise UserError(
                f"{self.file} has no column {missing[0]!r}; it has {', '.join(self.names)}.",
                ["download the dataset again"],
            )


def _numbers(column: Any, shape: tuple[int, ...], file: Path, what: str) -> np.ndarray:
    """[T, *shape] of a column of numbers or of lists of them."""
    import pyarrow

    steps = len(column)
    values = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    while pyarrow.types.is_nested(values.type):
        values = values.flatten()
    if values.null_count:
        raise UserError(f"{file}, {what} has {values.null_count} empty values.", ["remove the episode"])
    array: np.ndarray = values.to_numpy(zero_copy_only=False)
    if array.size != steps * int(np.prod(shape, dtype=np.int64)):
        raise UserError(
            f"{file}, {what} holds {array.size} numbers in {steps} steps, where each has shape {shape}.",
            ["--obs-keys without it", "download the dataset again"],
        )
    return array.reshape(steps, *shape)
