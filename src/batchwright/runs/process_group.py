"""The processes of one training: which one this is, the mesh of their devices, and what they exchange on the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from batchwright.core.errors import UserError
from batchwright.planning.quantity import counted

ENVS_AXIS = "envs"
"""The mesh axis over which the environments of a rollout are spread."""


START_SECONDS = 24 * 3600
"""How long processes wait for the first one to plan, and at the end for its last evaluation."""


LOST_WORDS = ("gloo", "coordination service", "socket closed", "barrier", "heartbeat")
"""What errors of a lost process speak of."""


class PeerLost(BaseException):
    """Another process of this training has ended; this one cannot go on without it.

    No `Exception`: nothing on the way may take it for a fault of an environment or of an evaluation.
    """


@dataclass(frozen=True)
class ProcessGroup:
    """One process of a training; the same collective calls must be made by all of them, in the same order."""

    process_id: int = 0
    processes: int = 1
    devices: int = 1
    """Of each process."""
    folder: str = ""
    """Where the parent of this process reads from it."""

    @property
    def shards(self) -> int:
        """Parts of a rollout: one for each device."""
        return self.processes * self.devices

    @property
    def is_first(self) -> bool:
        """Whether this process writes the record, evaluates and saves."""
        return self.process_id == 0

    @cached_property
    def mesh(self) -> Mesh:
        """All devices of all processes along one axis, those of a process side by side."""
        by_process = [
            [device for device in jax.devices() if device.process_index == number][: self.devices]
            for number in range(self.processes)
        ]
        least = min(len(found) for found in by_process)
        if least < self.devices:
            raise UserError(
                f"a process has {counted(least, 'device')}, and --devices asks for {self.devices} in each.",
                [f"--devices {least}"],
            )
        return Mesh(np.array(by_process).reshape(-1), (ENVS_AXIS,))

    def sharding(self, *axes: str | None) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]

    def spread(self, tree: Any, dim: int) -> Any:
        """Arrays that hold this process's part along `dim`, as parts of arrays of all processes."""
        sharding = self.sharding(*([None] * dim), ENVS_AXIS)
        return jax.tree.map(lambda x: _global_array(sharding, x), tree)

    def replicate(self, tree: Any) -> Any:
        """Arrays that are the same in all processes, on all devices."""
        sharding = self.sharding()
        return jax.tree.map(lambda x: _global_array(sharding, x), tree)

    def local(self, tree: Any) -> Any:
        """Replicated arrays as arrays of this process's first device."""
        return jax.tree.map(lambda x: x.addressable_data(0), tree)

    def gather_rows(self, tree: Any) -> Any:
        """Host arrays [n, ...] of this process joined with those of all others to [N, ...], in one exchange."""
        leaves, structure = jax.tree.flatten(tree)
        leaves = [np.ascontiguousarray(leaf) for leaf in leaves]
        rows = leaves[0].shape[0]
        packed = [leaf.reshape(rows, -1).view(np.uint8).reshape(rows, -1) for leaf in leaves]
        joined = np.concatenate(packed, 1)
        if self.processes > 1:
            padding = -joined.shape[1] % 4  # words of 4 bytes: the exchange knows no smaller ones everywhere
            words = np.ascontiguousarray(np.pad(joined, ((0, 0), (0, padding)))).view(np.uint32)
            words = np.asarray(multihost_utils.process_allgather(words, tiled=True))
            joined = np.ascontiguousarray(words).view(np.uint8)[:, : joined.shape[1]]
        found, place = [], 0
        for leaf, part in zip(leaves, packed, strict=True):
            piece = np.ascontiguousarray(joined[:, place : place + part.shape[1]])
            found.append(piece.view(leaf.dtype).reshape(len(joined), *leaf.shape[1:]))
            place += part.shape[1]
        return jax.tree.unflatten(structure, found)

    def any(self, flag: bool) -> bool:
        """Whether a flag is set in some process."""
        if self.processes == 1:
            return flag
        return bool(np.asarray(multihost_utils.process_allgather(np.array([flag], np.int32))).any())

    def send(self, content: bytes | None) -> bytes:
        """The bytes of the first process, which alone states them, in all processes."""
        if self.processes == 1:
            return content or b""
        size = int(multihost_utils.broadcast_one_to_all(np.int32(len(content or b""))))
        words = np.zeros(-(-size // 4), np.uint32)
        if self.is_first:
            words = np.frombuffer((content or b"").ljust(4 * len(words), b"\0"), np.uint32)
        return np.asarray(multihost_utils.broadcast_one_to_all(words)).astype(np.uint32).tobytes()[:size]

    def publish(self, text: str) -> None:
        """Hands a text of the first process to all others, before they have devices."""
        _client().key_value_set("training", text)

    def receive(self) -> str:
        """The text that the first process has published, as soon as it has."""
        with peers_lost():
            return str(_client().blocking_key_value_get("training", 1000 * START_SECONDS))

    def texts(self, text: str) -> list[str]:
        """A short text of each process, in their order."""
        line = np.frombuffer(text.encode()[:1000].ljust(1000, b"\0"), np.uint8)[None]
        return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in self.gather_rows(line)]


_current = ProcessGroup()


def current_group() -> ProcessGroup:
    """The group that this process belongs to; alone unless `join_group` was called."""
    return _current


def join_group(group: ProcessGroup) -> None:
    global _current  # noqa: PLW0603 - the one place that decides the process's rank
    _current = group


def leave_group(in_order: bool) -> None:
    """Waits for the others where the training came to its end, so that none is taken for one that died."""
    if in_order and _current.processes > 1:
        with peers_lost():
            _client().wait_at_barrier("end", 1000 * START_SECONDS)
            jax.distributed.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def peers_lost() -> Iterator[None]:
    """Errors of JAX that mean that another process is gone, as `PeerLost`."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # a ValueError where an array is read whose exchange has failed
        if _current.processes > 1 and any(word in str(error).lower() for word in LOST_WORDS):
            raise PeerLost(str(error).splitlines()[0]) from error
        raise


def _client() -> Any:
    from jax._src import distributed  # the public interface has no barrier and no messages

    return distributed.global_state.client


def _global_array(sharding: NamedSharding, x: Any) -> jax.Array:
    made: jax.Array = jax.make_array_from_process_local_data(sharding, np.asarray(x))  # type: ignore[no-untyped-call]
    return made


def own_rows(array: Any, group: ProcessGroup, dim: int = 0) -> Any:
    """This process's part along `dim` of an array of all environments."""
    size = array.shape[dim] // group.processes
    part = slice(group.process_id * size, (group.process_id + 1) * size)
    return array[(slice(None),) * dim + (part,)]
