"""Files that are whole or not there: written under a temporary name, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from batchwright.core.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_counter = itertools.count()


class DiskFull(UserError):  # noqa: N818 - a kind of UserError, named after what happened
    """No room for a file; what was written before is untouched."""


@contextlib.contextmanager
def explain_full_disk(path: Path, needed_bytes: int = 0) -> Iterator[None]:
    """Turns "no space left" of the system into a message with the path and the figures."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        needed = f" It needs {needed_bytes:,} bytes;" if needed_bytes else ""
        raise DiskFull(
            f"cannot write {path}: {os.strerror(error.errno)}.{needed} {_free(path.parent)}. "
            "What was written before is intact.",
            [f"free space on the disk of {path.parent}", "--run-dir on another disk"],
        ) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file so that a reader, even after a crash, finds the old content or the new, never a part.

    Raises `DiskFull`; then the old file is as it was and no temporary file is left.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}-{next(_counter)}.tmp"
    with explain_full_disk(path, len(data)):
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names created or renamed in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sweep_temporaries(folder: Path) -> int:
    """Removes what writers killed half-way left behind; returns how many. Only for the holder of the run's lock."""
    found = [*folder.glob(".*.*-*.tmp")]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free:,} bytes are free"
    except OSError:
        return "how much is free is not known"
