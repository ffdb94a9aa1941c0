"""One block of anonymous shared memory with every array that passes between parent and workers."""

# N envs

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.envs.engines.host_arrays import Layout
from batchwright.envs.engines.loop_arrays import LoopArrays
from batchwright.envs.spaces import Box, Spec, leaf_shape, leaves

# Arrays of different workers' rows begin on their own cache line.
ALIGN_BYTES = 64


@dataclass(frozen=True)
class SharedBlock:
    """What a loop writes and the canonical actions of N environments; can be sent to a worker.

    The memory has no name in /dev/shm, so nothing is left behind when everything is killed.
    """

    memory: Any
    layout: Layout
    num_written: int
    at: Any
    """[N] the environment that a worker is at, in the place of the first of its share; -1 before it began."""

    @staticmethod
    def create(
        context: Any, spaces: tuple[Spec, Spec], num_envs: int, num_info_keys: int, num_components: int
    ) -> SharedBlock:
        """A zeroed block for the given observation and action specs."""
        written = LoopArrays.layout(spaces, num_envs, num_info_keys, num_components)
        actions = [((num_envs, *leaf_shape(leaf)), canonical_dtype(leaf)) for _, leaf in leaves(spaces[1])]
        layout = [*written, *actions]
        size_bytes = sum(_padded_bytes(shape, dtype) for shape, dtype in layout)
        try:
            memory, at = context.RawArray("b", size_bytes), context.RawArray("i", [-1] * num_envs)
        except OSError as error:
            raise UserError(
                f"{num_envs} environments need {size_bytes / 2**20:.0f} MiB of shared memory: {error}",
                ("fewer --num-envs", "--engine gymnasium-sync"),
            ) from error
        block = SharedBlock(memory, layout, len(written), at)
        LoopArrays.of(block.arrays()[0])
        return block

    def arrays(self) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
        """Views of the block: what the loop writes, and the action arrays it reads."""
        views: list[NDArray[Any]] = []
        offset_bytes = 0
        for shape, dtype in self.layout:
            count = int(np.prod(shape, dtype=np.int64))
            view = np.frombuffer(self.memory, dtype, count, offset_bytes)
            views.append(view.reshape(shape))
            offset_bytes += _padded_bytes(shape, dtype)
        return views[: self.num_written], views[self.num_written :]


def canonical_dtype(leaf: Any) -> np.dtype[Any]:
    """The dtype of canonical actions: float32 for Box, int32 for choices."""
    return np.dtype(np.float32 if isinstance(leaf, Box) else np.int32)


def _padded_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    size_bytes = max(1, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
    return -(-size_bytes // ALIGN_BYTES) * ALIGN_BYTES
