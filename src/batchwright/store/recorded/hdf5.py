"""HDF5 files; the one place that needs h5py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.store.recorded.interface import EXTRA


@contextmanager
def open_hdf5(file: Path) -> Iterator[Any]:
    """An HDF5 file to read; the error for a damaged one names it."""
    try:
        import h5py
    except ImportError:
        raise UserError("reading HDF5 needs h5py, which is not installed.", [EXTRA]) from None
    try:
        with h5py.File(file, "r") as handle:
            yield handle
    except (OSError, RuntimeError, KeyError) as error:
        raise UserError(
            f"{file} cannot be read as HDF5: {str(error).splitlines()[0]}.", ["copy it again", "remove the file"]
        ) from None
