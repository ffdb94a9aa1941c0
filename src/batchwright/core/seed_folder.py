"""The folder of one setting over several seeds: `seeds.json` and one run directory per seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.safe_open import read_json

SEEDS_FILE = "seeds.json"


def is_seed_folder(path: str | Path) -> bool:
    """Whether a folder holds the runs of one setting over seeds."""
    try:
        return (Path(path).expanduser() / SEEDS_FILE).is_file()
    except (OSError, ValueError):
        return False


def write_seed_folder(folder: Path, env: str, algo: str, seeds: Sequence[int]) -> None:
    """Names the runs of a folder; written last, so that a folder without it was never whole."""
    content = {"env": env, "algo": algo, "seeds": list(seeds)}
    write_atomically(folder / SEEDS_FILE, json.dumps(content).encode())


def seed_run(folder: Path, seed: int) -> Path:
    """The run directory of a seed."""
    return folder / f"seed-{seed}"


def seed_paths(folder: str | Path) -> list[Path]:
    """The run directories of a folder, in the order of the seeds."""
    place = Path(folder).expanduser()
    try:
        return [seed_run(place, int(seed)) for seed in read_json(place / SEEDS_FILE)["seeds"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{place / SEEDS_FILE} cannot be read: {error}.", ["train anew in another --run-dir"]) from None
