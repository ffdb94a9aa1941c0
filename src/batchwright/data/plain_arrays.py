"""Arrays from `.npz` and `.npy` files that may be damaged or made to harm: no code is run, no size is believed.

A header states a shape. It is checked against the bytes that are really there before an array is allocated.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from batchwright.core.safe_open import open_plain

NUMBERS = "fiub"
"""Kinds of arrays that are read: floats, integers, flags."""
_LONGEST_HEADER = 65_536


def read_npz(path: Path, below: int) -> dict[str, np.ndarray]:
    """The arrays of a file as `numpy.savez` writes it, by name; ValueError where it is damaged."""
    with os.fdopen(open_plain(path, below=below), "rb") as file, _only_value_errors(), zipfile.ZipFile(file) as archive:
        size = os.fstat(file.fileno()).st_size
        arrays = {}
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:
                raise ValueError(f"{member.filename} is not stored as it should be")
            with archive.open(member) as stream:
                arrays[member.filename.removesuffix(".npy")] = _read_array(stream, member.file_size)
        return arrays


def read_npy(path: Path, below: int) -> np.ndarray:
    """The array of a file as `numpy.save` writes it; ValueError where it is damaged."""
    with os.fdopen(open_plain(path, below=below), "rb") as file, _only_value_errors():
        return _read_array(file, os.fstat(file.fileno()).st_size)


@contextlib.contextmanager
def _only_value_errors() -> Iterator[None]:
    """Damaged headers make zipfile and NumPy raise whatever they meet first; a caller needs one kind."""
    try:
        yield
    except (OSError, ValueError):
        raise
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}"[:200]) from error


def _read_array(stream: IO[bytes], size: int) -> np.ndarray:
    """One array from a stream of `size` bytes, which are all its own."""
    head = io.BytesIO(stream.read(min(size, _LONGEST_HEADER)))
    version = np.lib.format.read_magic(head)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its array format {version} is unknown")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read_header(head)
    if dtype.kind not in NUMBERS:
        raise ValueError(f"it holds {dtype}, not numbers")
    stated, there = math.prod(shape) * dtype.itemsize, size - head.tell()
    if min((0, *shape)) < 0 or stated != there:
        raise ValueError(f"an array of shape {shape} needs {stated:,} bytes, {there:,} are there")
    values = np.frombuffer(bytearray(head.read() + stream.read()), dtype=dtype)
    return values.reshape(shape, order="F" if fortran_order else "C")
