"""Append-only files of one JSON object per line: each reaches the system at once, a torn last one does no harm."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from batchwright.core.files import explain_full_disk

NONFINITE = "nonfinite"
_encode = json.JSONEncoder(allow_nan=False, check_circular=False).encode


class Lines(list[dict[str, Any]]):
    """The objects of a file, and how many of its lines could not be read."""

    unreadable: int = 0


class JsonLines:
    """A file to append to. What a killed process left half-written at its end is removed when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with explain_full_disk(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            _mend_end(self._handle)

    def append(self, values: Mapping[str, Any]) -> None:
        """Writes one line in one call; on a full disk the part that was written is taken back."""
        line = encode(values)
        with explain_full_disk(self.path, len(line)):
            written = 0
            try:
                while written < len(line):
                    written += os.write(self._handle, line[written:])
            except OSError:
                if written:
                    os.ftruncate(self._handle, os.fstat(self._handle).st_size - written)
                raise

    def sync(self) -> None:
        """Waits until all lines are on the disk itself; for checkpoints."""
        with explain_full_disk(self.path):
            os.fsync(self._handle)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def encode(values: Mapping[str, Any]) -> bytes:
    """One line of JSON; plain finite values, the usual case, are not looked at twice."""
    try:
        return (_encode(values) + "\n").encode()
    except (ValueError, TypeError):  # a float that JSON lacks, or an array
        return (_encode(json_safe(values)) + "\n").encode()


def json_safe(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as plain Python ones; floats that JSON lacks become null and are named under `nonfinite`."""
    safe: dict[str, Any] = {}
    lost: list[str] = []
    for name, value in values.items():
        kind = type(value)
        if kind is float:
            if math.isfinite(value):
                safe[name] = value
            else:
                safe[name] = None
                lost.append(name)
        elif kind is int or kind is str or kind is bool or value is None:
            safe[name] = value
        else:
            safe[name], finite = _plain(value)
            if not finite:
                lost.append(name)
    if lost:
        safe[NONFINITE] = lost
    return safe


def read_lines(path: Path) -> Lines:
    """All objects of a file; blank lines are passed over, unreadable ones counted. No file is an empty one."""
    lines = Lines()
    with contextlib.suppress(FileNotFoundError):
        for line in each_line(path):
            value = parse(line)
            if value is not None:
                lines.append(value)
            elif line.strip():
                lines.unreadable += 1
    return lines


def each_line(path: Path) -> Iterator[bytes]:
    """The lines of a file as they are, endings included."""
    with path.open("rb") as file:
        yield from file


def parse(line: bytes) -> dict[str, Any] | None:
    """The object of a line; None for anything else."""
    try:
        value = json.loads(line)
    except ValueError:  # torn, or not text at all
        return None
    return value if isinstance(value, dict) else None


def _plain(value: Any) -> tuple[Any, bool]:
    """A value as JSON has it, and whether all its floats were finite; arrays of one number count as that number."""
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


def _mend_end(handle: int) -> None:
    """Ends the file with a whole line: a last one that only lacks its end gets it, a torn one is cut off."""
    size = os.fstat(handle).st_size
    if size == 0 or os.pread(handle, 1, size - 1) == b"\n":
        return
    start = end_of_line_before(handle, size)
    if parse(os.pread(handle, size - start, start)) is None:
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
