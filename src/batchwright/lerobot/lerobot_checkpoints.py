"""Checkpoints of LeRobot's own form, whole or not there: written beside, synced, renamed, with what we add."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchwright.core.files import write_atomically

OWN_STATE = "batchwright.json"
LAST = "last"
_NAME = re.compile(r"[0-9]{6,}")
_NEEDED = (
    Path("pretrained_model") / "train_config.json",
    Path("pretrained_model") / "model.safetensors",
    Path("training_state") / "training_step.json",
    Path("training_state") / "optimizer_state.safetensors",
    Path(OWN_STATE),
)


@dataclass(frozen=True)
class SavedUpdate:
    """A checkpoint on disk: the updates done, and our own state."""

    folder: Path
    update: int
    state: dict[str, Any]

    @property
    def config_path(self) -> Path:
        return self.folder / "pretrained_model" / "train_config.json"


def last_checkpoint(folder: Path) -> SavedUpdate | None:
    """The newest complete checkpoint of a run; None without one."""
    names = (
        sorted((path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=int)
        if folder.is_dir()
        else []
    )
    for name in reversed(names):
        path = folder / name
        if path.is_symlink() or not all((path / needed).is_file() for needed in _NEEDED):
            continue
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            state = json.loads((path / OWN_STATE).read_bytes())
            return SavedUpdate(path, int(state["update"]), state)
    return None


class CheckpointWriter:
    """Takes the place of two functions of LeRobot's loop: where a checkpoint is written, and that it is the last."""

    def __init__(self, folder: Path, own_state: Callable[[], dict[str, Any]], on_saved: Callable[[Path], None]) -> None:
        self.folder, self.own_state, self.on_saved = folder, own_state, on_saved

    def partial_folder(self, output_dir: Any, total_steps: int, step: int) -> Path:
        """In the place of `get_step_checkpoint_dir`: a name that no reader takes for a checkpoint."""
        path = self.folder / f".{step:09d}.partial"
        shutil.rmtree(path, ignore_errors=True)
        return path

    def complete(self, partial: Path) -> Path:
        """In the place of `update_last_checkpoint`: adds our state, syncs, renames; returns the checkpoint."""
        write_atomically(partial / OWN_STATE, json.dumps(self.own_state()).encode())
        for path in partial.rglob("*"):
            if path.is_file():
                _sync(path)
        final = self.folder / f"{int(partial.name.split('.')[1]):06d}"
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        _sync(self.folder)
        link = self.folder / f".{LAST}"
        link.unlink(missing_ok=True)
        link.symlink_to(final.name)
        link.replace(self.folder / LAST)
        self.on_saved(final)
        return final


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
