"""Reads scalars of TensorBoard event files without TensorBoard: TFRecord frames around three protobuf messages.

Event (1 wall time, 2 step, 5 summary), Summary (1 value, repeated), Value (1 tag, 2 simple value, 8 tensor). Checksums
are not verified; reading ends at a truncated frame, which a killed writer may leave.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
FLOAT, DOUBLE = 1, 2
"""Types of a tensor's numbers."""


class Scalar(NamedTuple):
    """One logged number."""

    step: int
    tag: str
    value: float


def read_scalars(path: Path) -> Iterator[Scalar]:
    """All scalars of one file in the order in which they were written."""
    for frame in _frames(path.read_bytes()):
        try:
            yield from _scalars(frame)
        except (IndexError, struct.error, UnicodeDecodeError):  # not an event: skipped
            continue


def _frames(data: bytes) -> Iterator[bytes]:
    """The content of each record: length (8 bytes), its checksum (4), content, its checksum (4)."""
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        begin, end = at + 12, at + 12 + length
        if end + 4 > len(data):
            return
        yield data[begin:end]
        at = end + 4


def _scalars(event: bytes) -> Iterator[Scalar]:
    step, values = 0, []
    for number, kind, content in _fields(event):
        if number == 2 and kind == VARINT:
            step = int(content) if isinstance(content, int) else 0
        elif number == 5 and isinstance(content, bytes):
            values += [value for field, _, value in _fields(content) if field == 1 and isinstance(value, bytes)]
    for value in values:
        found = _tag_and_number(value)
        if found is not None:
            yield Scalar(step, *found)


def _tag_and_number(value: bytes) -> tuple[str, float] | None:
    tag: str | None = None
    number: float | None = None
    for field, kind, content in _fields(value):
        if field == 1 and isinstance(content, bytes):
            tag = content.decode()
        elif field == 2 and kind == FIXED32 and isinstance(content, bytes):
            (number,) = struct.unpack("<f", content)
        elif field == 8 and isinstance(content, bytes):
            number = _tensor_number(content)
    return None if tag is None or number is None else (tag, float(number))


def _tensor_number(tensor: bytes) -> float | None:
    """The number of a tensor that holds one: 1 type, 4 content, 5 floats, 6 doubles."""
    kind, content = FLOAT, b""
    for field, wire, part in _fields(tensor):
        if field == 1 and isinstance(part, int):
            kind = part
        elif field in (4, 5, 6) and wire != VARINT and isinstance(part, bytes):
            content = part
    form = {FLOAT: "<f", DOUBLE: "<d"}.get(kind)
    if form is None or len(content) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, content)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, content) of each field: whole numbers as such, everything else as bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, kind, value
            continue
        if kind == LENGTH:
            length, at = _varint(message, at)
        else:
            length = {FIXED64: 8, FIXED32: 4}[kind] if kind in (FIXED64, FIXED32) else len(message)
        yield number, kind, message[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
