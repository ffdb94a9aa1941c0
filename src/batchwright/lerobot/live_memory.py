"""The bytes of all tensors that are alive at once, counted by storages; with fake tensors nothing is allocated."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_READ_A_NUMBER = torch.ops.aten._local_scalar_dense.default


class LiveMemory(TorchDispatchMode):  # type: ignore[misc,unused-ignore] # untyped where torch is not installed
    """Counts storages from their first appearance in an operation until they are freed.

    With `fake` a number that is read from a tensor is 1.0: fake tensors have no values, and 0 would be divided by.
    """

    def __init__(self, fake: bool) -> None:
        super().__init__()
        self.fake = fake
        self.live_bytes = self.peak_bytes = 0
        self._storages: dict[int, tuple[weakref.ref[Any], int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.fake and func is _READ_A_NUMBER:
            return 1.0 if args[0].is_floating_point() else 1
        result = func(*args, **(kwargs or {}))
        self.count(result)
        return result

    def count(self, tensors: Any) -> None:
        """Counts the storages of the tensors in a nested structure that are not counted yet."""
        for tensor in tree_leaves(tensors):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            key = id(storage)
            known = self._storages.get(key)
            if known is not None and known[0]() is storage:
                self._resize(key, known, storage)
                continue
            size = storage.size() if self.fake else storage.nbytes()
            self._storages[key] = (weakref.ref(storage, self._freed(key)), size)
            self._add(size)

    def _resize(self, key: int, known: tuple[weakref.ref[Any], int], storage: Any) -> None:
        size = storage.size()
        if size != known[1]:
            self._storages[key] = (known[0], size)
            self._add(size - known[1])

    def _freed(self, key: int) -> Any:
        def forget(reference: weakref.ref[Any]) -> None:
            known = self._storages.get(key)
            if known is not None and known[0] is reference:
                del self._storages[key]
                self.live_bytes -= known[1]

        return forget

    def _add(self, size: int) -> None:
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
