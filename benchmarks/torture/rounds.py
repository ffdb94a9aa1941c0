"""The file of a campaign: a round for each part and seed, written when it ends, so that a campaign can be stopped."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_rounds(path: Path) -> list[dict[str, Any]]:
    """The rounds on file; none where there is no file."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rounds"] if path.exists() else []
    return found


def is_on_file(path: Path, part: str, seed: int) -> bool:
    return any((done["part"], done["seed"]) == (part, seed) for done in read_rounds(path))


def add_round(path: Path, one: dict[str, Any], order: Sequence[str]) -> None:
    """Adds a round to those on file, which are sorted by part, in this order, and by seed."""
    rounds = sorted([*read_rounds(path), one], key=lambda done: (order.index(done["part"]), done["seed"]))
    machine = {"cores": len(os.sched_getaffinity(0)), "processor": platform.machine()}
    whole = path.with_suffix(".partial")
    whole.write_text(json.dumps({"machine": machine, "rounds": rounds}, indent=1) + "\n", encoding="utf-8")
    whole.replace(path)
