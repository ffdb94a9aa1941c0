"""Opens files by name inside the runs folder only, without following symbolic links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEEPEST = 3
"""Levels below the runs folder that are searched for runs, as in `tune/sweep/trial`."""
MOST_RUNS = 2000
RUN_FILES = ("plan.json", "config.yaml", "metrics.jsonl")
"""Any of them makes a folder a run; a damaged run is shown as far as possible."""
TUNING_FILE = "ledger.jsonl"
"""Makes a folder a tuning; its runs lie below."""


class Folder:
    """A folder of runs. Names are relative, `/` between their parts; each part is opened without following links."""

    def __init__(self, path: Path, only: str | None = None) -> None:
        self.path = path.resolve()
        self.only = only
        """The only run or tuning to show, if the user named one instead of a folder."""

    def open_file(self, name: str) -> int:
        """A descriptor of a regular file; OSError if it is missing or reached through a link."""
        *above, last = _parts(name)
        with self._directory(above) as directory:
            # NONBLOCK: a pipe in place of the file must not block the page.
            handle = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileNotFoundError(f"{name} is not a regular file")
        return handle

    def read_file(self, name: str, most_bytes: int) -> bytes:
        """The content of a file, at most `most_bytes` of it."""
        with os.fdopen(self.open_file(name), "rb") as file:
            return file.read(most_bytes)

    def entries(self, name: str = "") -> list[os.DirEntry[str]]:
        """The entries of a folder, sorted by name; empty if it cannot be read."""
        try:
            with self._directory(_parts(name) if name else []) as directory, os.scandir(directory) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError:
            return []

    def run_names(self) -> tuple[list[str], int]:
        """The names of all runs, and the number of links that were skipped."""
        names, _, links = self.scan()
        return names, links

    def scan(self) -> tuple[list[str], list[str], int]:
        """The names of all runs, those of all tunings, and the number of links that were skipped."""
        names: list[str] = []
        tunings: list[str] = []
        links = 0
        waiting = [("", 0)]
        if self.only is not None:
            if self.holds_run(self.only) or not self._holds(self.only, (TUNING_FILE,)):
                return ([self.only] if self.holds_run(self.only) else []), [], 0
            tunings, waiting = [self.only], [(self.only, 1)]
        while waiting and len(names) < MOST_RUNS:
            name, depth = waiting.pop()
            for entry in self.entries(name):
                inner = f"{name}/{entry.name}" if name else entry.name
                if entry.is_symlink():
                    links += 1
                elif _is_folder(entry) and not entry.name.startswith("."):
                    if self.holds_run(inner):
                        names.append(inner)
                        continue
                    if self._holds(inner, (TUNING_FILE,)):
                        tunings.append(inner)
                    if depth + 1 < DEEPEST:
                        waiting.append((inner, depth + 1))
        return sorted(names), sorted(tunings), links

    def holds_run(self, name: str) -> bool:
        """Whether a folder has any of the files of a run."""
        return self._holds(name, RUN_FILES)

    def _holds(self, name: str, files: tuple[str, ...]) -> bool:
        try:
            with self._directory(_parts(name)) as directory:
                return any(_is_file(file, directory) for file in files)
        except OSError:
            return False

    @contextmanager
    def _directory(self, parts: list[str]) -> Iterator[int]:
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                inner = os.open(part, flags, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FileNotFoundError(f"{name!r} is not a name inside the folder")
    return parts


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_file(name: str, directory: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False
