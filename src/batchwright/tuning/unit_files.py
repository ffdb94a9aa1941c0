"""The files of a run directory as bytes, so that a machine that shares no disk with this one can train it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from batchwright.core.errors import UserError


def pack_run(run: Path) -> dict[str, bytes]:
    """All plain files of a run by their relative paths; links are left out."""
    files: dict[str, bytes] = {}
    for folder, _, names in os.walk(run):
        for name in names:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                files[path.relative_to(run).as_posix()] = path.read_bytes()
    return files


def unpack_run(files: Mapping[str, bytes], run: Path) -> None:
    """Replaces a run by files. A kill in the middle leaves the old run, the new one, or none: never a mixture."""
    partial = run.with_name(f".{run.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name, content in files.items():
        parts = PurePosixPath(name)
        if parts.is_absolute() or ".." in parts.parts:
            raise UserError(f"a file of a unit lies outside of its run: {name!r}.", ["check the nodes of the cluster"])
        path = partial / parts
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    shutil.rmtree(run, ignore_errors=True)
    partial.rename(run)
