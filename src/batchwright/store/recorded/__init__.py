"""Recorded episodes: LIBERO demonstrations, Minari and LeRobot datasets, behind one interface."""

from __future__ import annotations

from pathlib import Path

from batchwright.core.errors import UserError
from batchwright.core.safe_open import checked_path
from batchwright.store.recorded.interface import Choice, Entry, Episode, Recording, choose, episodes
from batchwright.store.recorded.lerobot_data import LeRobotRecording, is_lerobot
from batchwright.store.recorded.libero import LiberoRecording, is_libero
from batchwright.store.recorded.minari_data import MinariRecording, find_minari

__all__ = ["Choice", "Entry", "Episode", "Recording", "choose", "episodes", "open_recording"]

KINDS = "a folder of LIBERO demonstrations, a Minari dataset or its id, or a LeRobot dataset"


def open_recording(name: str | Path) -> Recording:
    """The recording at a path, or the local Minari dataset of that id; its files decide the format."""
    path = checked_path(name)
    found: Recording
    if is_lerobot(path):
        found = LeRobotRecording(path)
    elif (folder := find_minari(str(path))) is not None:
        found = MinariRecording(folder)
    elif not path.exists():
        raise UserError(f"{name} does not exist, and no local Minari dataset has that id.", [KINDS])
    elif is_libero(path):
        found = LiberoRecording(path)
    else:
        raise UserError(f"{name} holds no recorded episodes: no HDF5, no metadata.json, no meta/info.json.", [KINDS])
    if not found.entries:
        raise UserError(f"{found.path} holds no episodes.", [KINDS])
    empty = next((entry for entry in found.entries if entry.steps < 1), None)
    if empty is not None:
        raise UserError(f"{empty.file}, episode {empty.id} has no steps.", ["remove the episode"])
    return found
