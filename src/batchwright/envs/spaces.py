"""One spec tree for observations and actions, whatever library the environment comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import getitem
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError

SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of those"


@dataclass(frozen=True)
class Discrete:
    """One of n choices; the environment numbers them from `start`, Batchwright from zero."""

    n: int
    start: int = 0


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices at once: choice k is one of nvec[k], from zero."""

    nvec: tuple[int, ...]
    start: tuple[int, ...] = ()


@dataclass(frozen=True)
class MultiBinary:
    """n bits."""

    n: int


@dataclass(frozen=True, eq=False)
class Box:
    """An array of one shape and dtype with elementwise bounds; `dtype` is the environment's own."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: NDArray[Any]
    high: NDArray[Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        same_layout = self.shape == other.shape and self.dtype == other.dtype
        return same_layout and np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        low, high = (_bound(values) for values in (self.low, self.high))
        return f"Box(shape={self.shape}, dtype={self.dtype.name}, low={low}, high={high})"


@dataclass(frozen=True)
class DictSpace:
    """Named parts, in the order of the environment; values are plain dicts."""

    items: tuple[tuple[str, Spec], ...]


@dataclass(frozen=True)
class TupleSpace:
    """Parts by position; values are plain tuples."""

    items: tuple[Spec, ...]


Leaf: TypeAlias = Discrete | MultiDiscrete | MultiBinary | Box
Spec: TypeAlias = Leaf | DictSpace | TupleSpace
Path: TypeAlias = tuple[str | int, ...]


def box(low: Any, high: Any, shape: tuple[int, ...] | None = None, dtype: Any = np.float32) -> Box:
    """A Box from bounds that are broadcast to `shape` (the shape of `low` when not given)."""
    kind = np.dtype(dtype)
    low_array = np.asarray(low, kind)
    shape = low_array.shape if shape is None else tuple(shape)
    high_array = np.asarray(high, kind)
    return Box(shape, kind, np.broadcast_to(low_array, shape), np.broadcast_to(high_array, shape))


def from_gymnasium(space: Any, where: str = "space") -> Spec:
    """The spec of a Gymnasium space; an unsupported one is refused by name.

    Spaces are recognised by the names of their classes, so that this file needs no Gymnasium.
    """
    kinds = {cls.__name__ for cls in type(space).__mro__}
    if "Dict" in kinds:
        parts = space.spaces.items()
        return DictSpace(tuple((str(k), from_gymnasium(v, f"{where}[{k!r}]")) for k, v in parts))
    if "Tuple" in kinds:
        return TupleSpace(tuple(from_gymnasium(v, f"{where}[{i}]") for i, v in enumerate(space.spaces)))
    if "Box" in kinds:
        return _box_from_gymnasium(space, where)
    if "MultiDiscrete" in kinds:
        starts = tuple(int(s) for s in np.ravel(getattr(space, "start", ())))
        return MultiDiscrete(tuple(int(n) for n in _flat_choices(space, where)), starts)
    if "MultiBinary" in kinds:
        return MultiBinary(int(_flat_bits(space, where)))
    if "Discrete" in kinds:
        return Discrete(int(space.n), int(getattr(space, "start", 0)))
    raise _unsupported(space, where)


def without_huge_bounds(shape: tuple[int, ...], dtype: np.dtype[Any], low: Any, high: Any) -> Box:
    """A Box whose bounds at float32's limits, a custom for "none", are infinite."""
    low, high = (np.broadcast_to(np.asarray(bound, dtype), shape) for bound in (low, high))
    if dtype.kind == "f":
        largest = float(np.finfo(np.float32).max)
        low = np.where(low <= -largest, -np.inf, low).astype(dtype)
        high = np.where(high >= largest, np.inf, high).astype(dtype)
    return Box(shape, dtype, low, high)


def leaves(spec: Spec) -> list[tuple[Path, Leaf]]:
    """Every leaf with its path (names and positions from the root), depth first."""
    if isinstance(spec, DictSpace):
        return [((name, *path), leaf) for name, part in spec.items for path, leaf in leaves(part)]
    if isinstance(spec, TupleSpace):
        return [((i, *path), leaf) for i, part in enumerate(spec.items) for path, leaf in leaves(part)]
    return [((), spec)]


def unflatten(spec: Spec, values: list[Any]) -> Any:
    """The tree of plain dicts and tuples that holds `values` in the order of `leaves(spec)`."""
    remaining = iter(values)

    def build(part: Spec) -> Any:
        if isinstance(part, DictSpace):
            return {name: build(child) for name, child in part.items}
        if isinstance(part, TupleSpace):
            return tuple(build(child) for child in part.items)
        return next(remaining)

    return build(spec)


def value_at(tree: Any, path: Path) -> Any:
    """What a tree of dicts and tuples holds at the end of a path."""
    return reduce(getitem, path, tree)


def reader(path: Path) -> Callable[[Any], Any]:
    """`value_at` of one path as a function of the tree: for code that reads the same part at every step."""
    return partial(reduce, getitem, path)


def leaf_shape(leaf: Leaf) -> tuple[int, ...]:
    """The shape of one value: () for Discrete, (k,) for MultiDiscrete and MultiBinary."""
    if isinstance(leaf, Box):
        return leaf.shape
    if isinstance(leaf, MultiDiscrete):
        return (len(leaf.nvec),)
    return (leaf.n,) if isinstance(leaf, MultiBinary) else ()


def stored_dtype(leaf: Leaf) -> np.dtype[Any]:
    """The dtype observations are kept in: float32 for floats, uint8 as it is, int32 for other integers."""
    if isinstance(leaf, Box) and leaf.dtype.kind == "f":
        return np.dtype(np.float32)
    if isinstance(leaf, Box) and leaf.dtype == np.uint8:
        return np.dtype(np.uint8)
    return np.dtype(np.int32)


WIDE_RANGE = 10
"""Whole numbers that span more than this drown others in a network that takes them as they are."""


def is_numeric(leaf: Leaf) -> bool:
    """Whether a leaf holds numbers that a scale makes sense for: no image, no bits, no one-hot of a discrete space."""
    return isinstance(leaf, Box) and leaf.dtype.kind in "fiu" and not is_image(leaf)


def is_wide(leaf: Leaf) -> bool:
    """Whether a leaf holds whole numbers of a wide range, such as bytes of text or of a memory."""
    if not isinstance(leaf, Box) or leaf.dtype.kind not in "iu" or is_image(leaf):
        return False
    return bool(np.any(leaf.high.astype(np.float64) - leaf.low.astype(np.float64) > WIDE_RANGE))


def is_image(spec: Spec) -> TypeGuard[Box]:
    """Whether the spec is one uint8 array of rank 3."""
    return isinstance(spec, Box) and spec.dtype == np.uint8 and len(spec.shape) == 3


def image_shapes(spec: Spec) -> list[tuple[int, ...]]:
    """The shape of each image of an observation."""
    return [leaf.shape for _, leaf in leaves(spec) if is_image(leaf)]


def is_discrete(spec: Spec) -> bool:
    """Whether every leaf is a choice (Discrete, MultiDiscrete, MultiBinary)."""
    return all(not isinstance(leaf, Box) for _, leaf in leaves(spec))


def action_size(spec: Spec) -> int:
    """Numbers in one action: 1 for Discrete, k for MultiDiscrete and MultiBinary, prod(shape) for Box."""
    return sum(int(np.prod(leaf_shape(leaf), dtype=np.int64)) for _, leaf in leaves(spec))


def observation_bytes(spec: Spec) -> int:
    """Bytes of one observation as it is stored."""
    sizes = [(leaf_shape(leaf), stored_dtype(leaf).itemsize) for _, leaf in leaves(spec)]
    return sum(int(np.prod(shape, dtype=np.int64)) * itemsize for shape, itemsize in sizes)


def path_name(path: Path) -> str:
    """A path as people write it: `camera/left`, empty for the root."""
    return "/".join(str(step) for step in path)


def _box_from_gymnasium(space: Any, where: str) -> Box:
    dtype = np.dtype(space.dtype)
    if dtype.kind not in "fiub":
        raise _unsupported(space, where)
    return without_huge_bounds(tuple(int(s) for s in space.shape), dtype, space.low, space.high)


def _flat_choices(space: Any, where: str) -> NDArray[Any]:
    nvec = np.asarray(space.nvec)
    if nvec.ndim != 1:
        raise _unsupported(space, where, f"a MultiDiscrete of rank {nvec.ndim} (rank 1 is supported)")
    return nvec


def _flat_bits(space: Any, where: str) -> int:
    if len(space.shape) != 1:
        raise _unsupported(space, where, f"a MultiBinary of rank {len(space.shape)} (rank 1 is supported)")
    return int(space.shape[0])


def _unsupported(space: Any, where: str, what: str | None = None) -> UserError:
    what = what or f"a {type(space).__name__} space"
    return UserError(
        f"{where} is {what}: {space}. Supported: {SUPPORTED}.",
        ("wrap the environment so that it offers a supported space",),
    )


def _bound(values: NDArray[Any]) -> str:
    lowest, highest = (values.min(), values.max()) if values.size else (0, 0)
    return f"{lowest:g}" if lowest == highest else f"[{lowest:g}..{highest:g}]"
