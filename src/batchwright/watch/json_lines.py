"""Append-only files with one JSON object per line, written unbuffered; a truncated last line is tolerated."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

from batchwright.core.files import explain_full_disk
from batchwright.core.safe_open import explain_refusal, open_plain

LONGEST_LINE = 1 << 24
"""Bytes; a record that was damaged may hold gigabytes without a line end."""
NONFINITE = "nonfinite"
_encode = json.JSONEncoder(allow_nan=False, check_circular=False).encode


class Lines(list[dict[str, Any]]):
    """The objects of a file; `unreadable` counts the lines that could not be parsed."""

    unreadable: int = 0


class JsonLines:
    """A file to append to. Opening it removes a half-written line that a killed process left at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with explain_refusal(path, "write"), explain_full_disk(path):
            self._handle = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            _repair_end(self._handle)

    def append(self, values: Mapping[str, Any]) -> None:
        """Writes one line in one call; on a full disk a partly written line is removed again."""
        self.append_lines(encode(values))

    def append_lines(self, lines: bytes) -> None:
        """Writes whole lines, already encoded, as `append` does."""
        with explain_full_disk(self.path, len(lines)):
            written = 0
            try:
                while written < len(lines):
                    written += os.write(self._handle, lines[written:])
            except OSError:
                if written:
                    os.ftruncate(self._handle, os.fstat(self._handle).st_size - written)
                raise

    def sync(self) -> None:
        """Waits until all lines are on disk; used at checkpoints."""
        with explain_full_disk(self.path):
            os.fsync(self._handle)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def encode(values: Mapping[str, Any]) -> bytes:
    """One line of JSON; plain finite values, the common case, are encoded directly."""
    try:
        return (_encode(values) + "\n").encode()
    except (ValueError, TypeError):  # NaN, infinity, or an array
        return (_encode(json_safe(values)) + "\n").encode()


def json_safe(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as plain Python objects; NaN and infinity become None and are named under `nonfinite`."""
    safe: dict[str, Any] = {}
    nonfinite: list[str] = []
    for name, value in values.items():
        kind = type(value)
        if kind is float:
            if math.isfinite(value):
                safe[name] = value
            else:
                safe[name] = None
                nonfinite.append(name)
        elif kind is int or kind is str or kind is bool or value is None:
            safe[name] = value
        else:
            safe[name], finite = _plain(value)
            if not finite:
                nonfinite.append(name)
    if nonfinite:
        safe[NONFINITE] = nonfinite
    return safe


def read_lines(path: Path) -> Lines:
    """All objects of a file; blank lines are skipped, unreadable ones counted. A missing file counts as empty.

    Raises `UserError` where the file may not be read, is a link, or is no file.
    """
    lines = Lines()
    with explain_refusal(path, "read", f"make {path} readable"), contextlib.suppress(FileNotFoundError):
        for line in each_line(path, skip_holes=True):
            value = parse(line)
            if value is not None:
                lines.append(value)
            elif line.strip():
                lines.unreadable += 1
    return lines


def each_line(path: Path, skip_holes: bool = False) -> Iterator[bytes]:
    """The raw lines of a file, line ends included; one that is longer than any of ours comes in pieces."""
    with os.fdopen(open_plain(path), "rb") as file:
        while line := file.readline(LONGEST_LINE):
            yield line
            if skip_holes and len(line) == LONGEST_LINE:
                _skip_hole(file)


def _skip_hole(file: BinaryIO) -> None:
    """Goes on where the file has data again; a hole of gigabytes takes no room on the disk and long to read."""
    try:
        file.seek(os.lseek(file.fileno(), file.tell(), os.SEEK_DATA))
    except OSError as error:  # elsewhere: a file system that knows no holes
        if error.errno == errno.ENXIO:
            file.seek(0, os.SEEK_END)


def parse(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None if the line is not a JSON object."""
    if len(line) >= LONGEST_LINE:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # torn, not text at all, or nested without end
        return None
    return value if isinstance(value, dict) else None


def _plain(value: Any) -> tuple[Any, bool]:
    """A JSON-ready value, and whether all its floats are finite; an array of one number becomes that number."""
    if hasattr(value, "tolist"):  # NumPy and JAX, scalars and arrays
        value = value.tolist()
    if isinstance(value, float):
        return (value, True) if math.isfinite(value) else (None, False)
    if isinstance(value, Mapping):
        found = {str(name): _plain(part) for name, part in value.items()}
        return {name: part for name, (part, _) in found.items()}, all(finite for _, finite in found.values())
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        return [part for part, _ in parts], all(finite for _, finite in parts)
    return value, True


def _repair_end(handle: int) -> None:
    """Makes the file end with a complete line: adds a missing line end, or cuts off a truncated line."""
    size = os.fstat(handle).st_size
    if size == 0 or os.pread(handle, 1, size - 1) == b"\n":
        return
    start = end_of_line_before(handle, size)
    if parse(os.pread(handle, min(size - start, LONGEST_LINE), start)) is None:
        os.ftruncate(handle, start)
    else:
        os.write(handle, b"\n")


def end_of_line_before(handle: int, offset: int, chunk_bytes: int = 65_536) -> int:
    """The offset just behind the last line end before `offset`; 0 where there is none."""
    while offset > 0:
        start = max(0, offset - chunk_bytes)
        found = os.pread(handle, offset - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        offset = start
    return 0


def numbers_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The finite numeric values of a record."""
    return {name: float(value) for name, value in json_safe(record).items() if isinstance(value, int | float)}
