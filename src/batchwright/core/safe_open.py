"""Opens what lies below a run directory without following links, waiting for pipes, or reading without end.

A run directory may come from somebody else. It may itself be reached through a link; below it there are plain files and
folders only. `below` counts the last parts of a path that lie below the run directory: 1 for `RUN/plan.json`, 3 for
`RUN/checkpoints/000000001/state.npz`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError, quoted

LONGEST_TEXT_BYTES = 1 << 22
"""Of a file that is read whole, such as a plan or a manifest."""
# Absent on Windows, where plans are made but no run is read or written.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}


class UnsafeFile(UserError):  # noqa: N818 - a kind of UserError, named after what was found
    """Something below a run directory that is neither a plain file nor a plain folder; it was not touched."""


def checked_path(text: str | Path) -> Path:
    """A path from a user, `~` expanded; refused where no system call can take it."""
    try:
        path = Path(text).expanduser()
        os.lstat(path)
    except FileNotFoundError:
        return path
    except (ValueError, RuntimeError) as error:  # a NUL, or a home that nobody has
        raise UserError(f"{quoted(str(text))} is no path: {error}.", ["another path"]) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            long = f"{quoted(str(text))} is too long for a path: {len(str(text)):,} characters."
            raise UserError(long, ["another path"]) from None
    return path


@contextlib.contextmanager
def open_folder(path: Path, below: int) -> Iterator[int]:
    """A descriptor of a folder whose last `below` parts are no links."""
    parts = path.parts[len(path.parts) - below :] if below else ()
    handle = os.open(path.parents[below - 1] if below else path, _FOLDER)
    try:
        for part in parts:
            inner = _open_part(part, _FOLDER | NO_FOLLOW, handle, path)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def open_plain(path: Path, flags: int = os.O_RDONLY, below: int = 1) -> int:
    """A descriptor of a plain file; raises `UnsafeFile` for anything else, OSError as `os.open` does."""
    with open_folder(path.parent, below - 1) as folder:
        handle = _open_part(path.name, flags | _NO_LINK, folder, path)
    kind = stat.S_IFMT(os.fstat(handle).st_mode)
    if kind != stat.S_IFREG:
        os.close(handle)
        raise _unsafe(path, kind)
    return handle


def read_plain(path: Path, most_bytes: int = LONGEST_TEXT_BYTES, below: int = 1) -> bytes:
    """The content of a plain file; ValueError where it is longer than `most_bytes`."""
    with os.fdopen(open_plain(path, below=below), "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"it is longer than {most_bytes:,} bytes")
    return content


def read_json(path: Path, below: int = 1) -> Any:
    """The value of a JSON file; ValueError for damage of any kind."""
    try:
        return json.loads(read_plain(path, below=below))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def make_folder(path: Path, below: int) -> None:
    """Makes a folder whose last `below` parts are no links, those missing among them included."""
    if below > 1:
        make_folder(path.parent, below - 1)
    with open_folder(path.parent, below - 1) as above:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path.name, dir_fd=above)
        os.close(_open_part(path.name, _FOLDER | NO_FOLLOW, above, path))


def names_in(path: Path, below: int) -> list[str]:
    """The names in a folder, sorted; empty where it is missing."""
    try:
        with open_folder(path, below) as handle:
            return sorted(os.listdir(handle))  # noqa: PTH208 - of a descriptor
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def explain_refusal(path: Path, action: str, fix: str = "another --run-dir") -> Iterator[None]:
    """Turns an OSError, such as a missing permission, into one message; `action` is "read" or "write"."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot {action} {path}: {error.strerror or error}.", [fix]) from error


def _open_part(name: str, flags: int, folder: int, path: Path) -> int:
    """Opens one part of a path; a link, or a folder in place of a file and the reverse, becomes `UnsafeFile`."""
    try:
        return os.open(name, flags, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.EMLINK):
            raise
        try:
            found = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except OSError:
            raise error from None
        raise _unsafe(path.parent / name if path.name != name else path, found) from None


def _unsafe(path: Path, kind: int) -> UnsafeFile:
    return UnsafeFile(
        f"{path} is {_KINDS.get(kind, 'of an unknown kind')}: below a run directory only plain files and folders "
        "are opened, each in its place. Nothing was changed.",
        [f"move {path} away"],
    )
