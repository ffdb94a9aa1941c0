"""Facts of datasets in LeRobot's format, read from their `meta/info.json`; several are checked for fitting together."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.core.files import find_below
from batchwright.core.safe_open import checked_path

INFO = Path("meta") / "info.json"
FORMAT = "v3.0"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class DatasetFacts:
    """One dataset; `root` is None where it lies on the hub and its facts are unknown."""

    name: str
    root: Path | None
    info: dict[str, Any]

    @property
    def repo_id(self) -> str:
        """The name that LeRobot wants; a folder has none of its own."""
        return self.name if self.root is None else f"local/{self.root.name}"

    @property
    def frames(self) -> int:
        return int(self.info.get("total_frames", 0))

    @property
    def episodes(self) -> int:
        return int(self.info.get("total_episodes", 0))

    @property
    def fps(self) -> float:
        return float(self.info.get("fps", 0))

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        found = self.info.get("features", {})
        return found if isinstance(found, dict) else {}

    @property
    def cameras(self) -> dict[str, tuple[int, int]]:
        """Height and width of each camera's frames."""
        found = {}
        for name, feature in self.features.items():
            if feature.get("dtype") in ("image", "video"):
                shape = [int(side) for side in feature["shape"]]
                found[name] = (shape[1], shape[2]) if shape[0] in (1, 3) else (shape[0], shape[1])
        return found

    @property
    def is_video(self) -> bool:
        return any(feature.get("dtype") == "video" for feature in self.features.values())

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample's images as the loader passes them on: float32, three channels."""
        return sum(height * width * 3 * 4 for height, width in self.cameras.values())

    def digest(self) -> str:
        """Changes with any file of the dataset: names, sizes and times, and the content of the metadata."""
        assert self.root is not None
        sha = hashlib.sha256()
        for path in find_below(self.root, lambda name: not name.startswith(".")):
            stat = path.stat()
            sha.update(f"{path.relative_to(self.root)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        sha.update((self.root / INFO).read_bytes())
        return sha.hexdigest()


def find_dataset(name: str, offline: bool = False) -> DatasetFacts:
    """A folder in LeRobot's format, or a name on the hub; anything else is refused."""
    path = checked_path(name)
    if not path.exists():
        if _HUB_NAME.fullmatch(name) and not name.startswith("."):
            return _from_hub_cache(name, offline)
        raise UserError(f"{name} is neither a folder nor a name on the hub.", ["--dataset DIR", "--dataset USER/NAME"])
    return _read_folder(path.resolve(), name)


def _from_hub_cache(name: str, offline: bool) -> DatasetFacts:
    """A dataset of the hub that LeRobot has downloaded before, else its name alone."""
    import os

    home = Path(os.environ.get("HF_LEROBOT_HOME") or _hub_home() / "lerobot")
    if (home / name / INFO).is_file():
        return _read_folder(home / name, name)
    if offline:
        raise UserError(
            f"{name} is not in {home}, and --hub-offline forbids to download it.",
            ["--dataset DIR", "leave out --hub-offline"],
        )
    return DatasetFacts(name, None, {})


def _hub_home() -> Path:
    import os

    return Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")


def _read_folder(root: Path, name: str) -> DatasetFacts:
    try:
        info = json.loads((root / INFO).read_bytes())
    except OSError:
        raise UserError(
            f"{name} is not a dataset in LeRobot's format: {INFO} is missing.",
            ["--dataset the folder that holds meta, data and videos"],
        ) from None
    except ValueError as error:
        raise UserError(f"{name}: {INFO} is damaged: {error}.", ["--dataset another folder"]) from None
    facts = DatasetFacts(name, root, info if isinstance(info, dict) else {})
    version = str(facts.info.get("codebase_version"))
    if version != FORMAT:
        raise UserError(
            f"{name} has the format {version}; LeRobot from 0.4 on reads {FORMAT}.",
            ["python -m lerobot.datasets.v30.convert_dataset_v21_to_v30 --repo-id=USER/NAME"],
        )
    if "action" not in facts.features or not facts.frames:
        what = "no frames" if "action" in facts.features else "no action among its features"
        raise UserError(f"{name} has {what}.", ["--dataset another folder"])
    return facts


def check_together(datasets: Sequence[DatasetFacts]) -> None:
    """Refuses datasets that cannot be trained on together, with the figures of both."""
    first = datasets[0]
    for other in datasets[1:]:
        for what, one, two in (
            ("frames per second", first.fps, other.fps),
            ("robot", first.info.get("robot_type"), other.info.get("robot_type")),
        ):
            if one != two:
                raise _apart(first, other, f"{what} {_figure(one)} and {_figure(two)}")
        _check_features(first, other)


def _check_features(first: DatasetFacts, other: DatasetFacts) -> None:
    for one, two in ((first, other), (other, first)):
        missing = sorted(one.features.keys() - two.features.keys())
        if missing:
            kind = "camera" if missing[0] in one.cameras else "feature"
            raise _apart(first, other, f"{two.name} lacks the {kind} {missing[0]} of {one.name}")
    for name, feature in first.features.items():
        here, there = (f"{found.get('dtype')} {found.get('shape')}" for found in (feature, other.features[name]))
        if here != there:
            raise _apart(first, other, f"{name} is {here} and {there}")


def _apart(first: DatasetFacts, other: DatasetFacts, difference: str) -> UserError:
    return UserError(
        f"{first.name} and {other.name} cannot be trained on together: {difference}.",
        [f"--dataset {first.name}", f"--dataset {other.name}", "record or convert them alike"],
    )


def _figure(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
