"""A replay buffer on disk: parts of fixed steps, each written once when it is full.

Checkpoints share the parts. Saving writes what came since the last time and the part that is not full yet, at most one
of `PARTS`: time and disk are bounded however large the buffer is and however often it is saved.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import jax
import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.safe_open import make_folder
from batchwright.data.plain_arrays import read_npz
from batchwright.store.replay_buffer import ReplayBuffer, step_rows

PARTS = 32
"""Parts of a full buffer, fewer where they would be tiny."""
SMALLEST_PART_BYTES = 1024**2
AGES = "ages"
"""Of frame stacks, in a part."""


class ReplayFiles:
    """The parts of one buffer in one folder."""

    def __init__(self, buffer: ReplayBuffer) -> None:
        self._buffer = buffer
        smallest = -(-SMALLEST_PART_BYTES * buffer.steps // max(buffer.nbytes, 1))
        self._part_steps = max(-(-buffer.steps // PARTS), smallest)
        self._hashes: dict[str, str] = {}

    def save(self, folder: Path) -> dict[str, str]:
        """SHA-256 by name of all parts that the buffer consists of; those not there yet are written."""
        make_folder(folder, 2)  # RUN/checkpoints/shared
        needed = {name: (first, end) for name, first, end in self._parts()}
        for name, (first, end) in needed.items():
            if name not in self._hashes:
                data = self._pack(first, end)
                write_atomically(folder / name, data, 3)
                self._hashes[name] = hashlib.sha256(data).hexdigest()
        self._hashes = {name: self._hashes[name] for name in needed}
        return dict(self._hashes)

    def load(self, folder: Path, hashes: dict[str, str]) -> None:
        """Fills the buffer from parts; its table must have been taken up before."""
        for name in hashes:
            first, end = (int(number) for number in name.removesuffix(".npz").split("-"))
            stored = read_npz(folder / name, 3)
            ages = stored.pop(AGES, None)
            self._put(first, end, [stored[str(k)] for k in range(len(stored))], ages)
        self._hashes = dict(hashes)

    def _parts(self) -> list[tuple[str, int, int]]:
        """(name, first step, end) of every part that holds a step which still stands."""
        table, size = self._buffer.table, self._part_steps
        found = []
        for start in range(table.oldest // size * size, table.written, size):
            first, end = start, min(start + size, table.written)
            # A part that was overwritten before it was ever saved begins later.
            if f"{first:012d}-{end:012d}.npz" not in self._hashes:
                first = max(first, table.oldest)
            found.append((f"{first:012d}-{end:012d}.npz", first, end))
        return found

    def _rows(self, first: int, end: int) -> np.ndarray:
        return np.asarray(step_rows(first, end - first, self._buffer.steps, self._buffer.num_envs, np))

    def _pack(self, first: int, end: int) -> bytes:
        rows = self._rows(first, end)
        target = io.BytesIO()
        leaves = jax.tree.leaves(self._buffer.frames)
        named = {str(k): np.asarray(leaf[rows]) for k, leaf in enumerate(leaves)}
        if self._buffer.stack is not None:
            named[AGES] = self._buffer.stack.ages[rows]
        np.savez(target, **named)  # type: ignore[arg-type]
        return target.getvalue()

    def _put(self, first: int, end: int, values: list[Any], ages: Any) -> None:
        rows = self._rows(first, end)
        if self._buffer.stack is not None and ages is not None:
            self._buffer.stack.ages[rows] = ages
        leaves, structure = jax.tree.flatten(self._buffer.frames)
        for k, value in enumerate(values):
            if value.shape[1:] != leaves[k].shape[1:] or value.dtype != leaves[k].dtype:
                raise UserError(
                    f"the checkpoint's replay rows are {value.dtype} {value.shape[1:]}, "
                    f"the run's {leaves[k].dtype} {leaves[k].shape[1:]}.",
                    ["train anew in another --run-dir"],
                )
            if self._buffer.on_device:
                leaves[k] = _written(leaves[k], rows, value)
            else:
                leaves[k][rows] = value
        self._buffer.frames = jax.tree.unflatten(structure, leaves)


def _write(stored: jax.Array, rows: jax.Array, value: jax.Array) -> jax.Array:
    return stored.at[rows].set(value)


_written = jax.jit(_write, donate_argnums=0)
