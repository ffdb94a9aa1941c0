"""Files that are whole or not there: written under a temporary name, synced, renamed."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from batchwright.core.errors import UserError
from batchwright.core.safe_open import NO_FOLLOW, names_in, open_folder

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)-\d+\.tmp")
_counter = itertools.count()
MOST_ENTRIES = 100_000
"""Files and folders that a search looks at; a folder with more is given by mistake."""


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


def write_atomically(path: Path, data: bytes, below: int = 1) -> None:
    """Writes a file so that a reader, even after a crash, finds the old content or the new, never a part.

    The last `below` parts of the path are no links; a link at its end is replaced, not followed. Raises `DiskFull`;
    then the old file is as it was and no temporary file is left.
    """
    temporary = f".{path.name}.{os.getpid()}-{next(_counter)}.tmp"
    with explain_full_disk(path, len(data)), open_folder(path.parent, below - 1) as folder:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW
            with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


def sweep_temporaries(path: Path, below: int = 0, only: str | None = None) -> int:
    """Removes what writers killed half-way left in a folder; returns how many.

    Files of a process that still lives are left alone, and so is all that is not named as we name them. `only` sweeps
    those of one file.
    """
    swept = 0
    for name in names_in(path, below):
        found = _TEMPORARY.fullmatch(name)
        if found is None or only not in (None, found["name"]) or _lives(int(found["process"])):
            continue
        with contextlib.suppress(OSError), open_folder(path, below) as folder:
            if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=folder)
                swept += 1
    return swept


def free_name_beside(path: Path) -> Path:
    """`name.<time>.ending` beside a file or folder, numbered where that is taken; for what is set aside."""
    marked = f"{path.stem}.{time.strftime('%Y%m%d-%H%M%S')}"
    for number in itertools.count(1):
        found = path.with_name(f"{marked}{'' if number == 1 else f'-{number}'}{path.suffix}")
        if not os.path.lexists(found):
            return found
    raise AssertionError("unreachable")


def find_below(folder: Path, is_wanted: Callable[[str], bool]) -> list[Path]:
    """The files in a folder and its folders whose names are wanted, sorted; a folder without end is refused."""
    found, seen = [], 0
    for place, folders, files in os.walk(folder):
        folders.sort()
        seen += len(folders) + len(files)
        if seen > MOST_ENTRIES:
            raise UserError(f"{folder} holds more than {MOST_ENTRIES:,} files and folders.", ["a folder further down"])
        found += [Path(place) / name for name in files if is_wanted(name)]
    return sorted(found)


def remove_folder(path: Path, below: int) -> None:
    """Removes a folder with its content, best effort; what is no folder is left, and links in its last parts are."""
    with contextlib.suppress(OSError, UserError), open_folder(path.parent, below - 1) as above:
        if stat.S_ISDIR(os.stat(path.name, dir_fd=above, follow_symlinks=False).st_mode):  # rmtree waits at a pipe
            shutil.rmtree(path.name, ignore_errors=True, dir_fd=above)


def _lives(process: int) -> bool:
    """Whether another process of that number runs on this machine."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free:,} bytes are free"
    except OSError:
        return "how much is free is not known"
