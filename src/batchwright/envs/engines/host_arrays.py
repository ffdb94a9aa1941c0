"""Preallocated arrays for N environments: observations written and actions read row by row."""

# N envs

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.envs.spaces import (
    Box,
    DictSpace,
    Discrete,
    Leaf,
    MultiBinary,
    MultiDiscrete,
    Path,
    Spec,
    TupleSpace,
    leaf_shape,
    leaves,
    path_name,
    stored_dtype,
    unflatten,
    value_at,
)

MEND_OBSERVATIONS = "correct the environment's observation_space or what reset and step return"

SCALARS = frozenset((int, np.int64))
"""Types of a Discrete observation that need no second look."""

Layout = list[tuple[tuple[int, ...], np.dtype[Any]]]


def observation_layout(spec: Spec, num_envs: int) -> Layout:
    """Shape [N, ...] and dtype of each observation array, in the order of the leaves."""
    return [((num_envs, *leaf_shape(leaf)), stored_dtype(leaf)) for _, leaf in leaves(spec)]


def allocate_observations(spec: Spec, num_envs: int) -> list[NDArray[Any]]:
    """Zeroed observation arrays [N, ...], in the order of the leaves."""
    return [np.zeros(shape, dtype) for shape, dtype in observation_layout(spec, num_envs)]


class ObservationRows:
    """Writes observations into rows of the arrays, refusing what the space does not allow."""

    def __init__(self, spec: Spec, arrays: list[NDArray[Any]], who: Callable[[int], str]) -> None:
        """`who` names the environment of a row, for messages."""
        self.tree = unflatten(spec, list(arrays))
        self._who = who
        self._leaves = [_Rows(path, leaf, array) for (path, leaf), array in zip(leaves(spec), arrays, strict=True)]
        self._single = self._leaves[0] if not isinstance(spec, DictSpace | TupleSpace) else None

    def write(self, row: int, observation: Any) -> None:
        """Puts one observation into row `row`."""
        single = self._single
        if single is not None:
            # The common case, one array of the right shape and dtype, costs one comparison of each.
            if (
                type(observation) is np.ndarray
                and observation.dtype == single.dtype
                and observation.shape == single.shape
                and single.is_plain
            ):
                single.array[row] = observation
            elif type(observation) in SCALARS and 0 <= observation - single.first < single.count:
                single.array[row] = observation - single.first
            else:
                self._write_checked(row, single, observation)
            return
        for rows in self._leaves:
            try:
                value = value_at(observation, rows.path)
            except (KeyError, IndexError, TypeError) as error:
                raise self._refusal(row, rows, "nothing", "no such part") from error
            self._write_checked(row, rows, value)

    def _write_checked(self, row: int, rows: _Rows, value: Any) -> None:
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise self._refusal(row, rows, "a ragged value", "the shape differs") from error
        if array.shape != rows.shape:
            raise self._refusal(row, rows, f"{array.dtype.name} {array.shape}", "the shape differs")
        # float64 for float32 is common and harmless; a float where the space says integer is not.
        if not np.can_cast(array.dtype, rows.dtype, "same_kind"):
            raise self._refusal(row, rows, f"{array.dtype.name} {array.shape}", "the dtype differs")
        array = array - rows.start if rows.start is not None else array
        outside = None if rows.is_plain else out_of_range(rows.leaf, array)
        if outside is not None:
            part = f" at {path_name(rows.path)!r}" if rows.path else ""
            raise UserError(f"{self._who(row)}: observation{part} is {outside}.", (MEND_OBSERVATIONS,))
        rows.array[row] = array

    def _refusal(self, row: int, rows: _Rows, got: str, why: str) -> UserError:
        part = f" at {path_name(rows.path)!r}" if rows.path else ""
        return UserError(
            f"{self._who(row)}: observation{part} is {got}, its space says {rows.dtype.name} {rows.shape} ({why}).",
            (MEND_OBSERVATIONS,),
        )


class _Rows:
    """One leaf: the array that holds it and what one row of it must look like."""

    def __init__(self, path: Path, leaf: Leaf, array: NDArray[Any]) -> None:
        self.path, self.leaf = path, leaf
        self.array = array
        self.is_plain = isinstance(leaf, Box)
        """Whether any value of the right shape and dtype is accepted as it is."""
        self.first, self.count = (leaf.start, leaf.n) if isinstance(leaf, Discrete) else (0, 0)
        self.shape = leaf_shape(leaf)
        self.start: Any = None
        # Choices are kept from zero, whatever number the environment begins with.
        if isinstance(leaf, Discrete) and leaf.start != 0:
            self.start = leaf.start
        elif isinstance(leaf, MultiDiscrete) and any(leaf.start):
            self.start = np.asarray(leaf.start)
        self.dtype = leaf.dtype if isinstance(leaf, Box) else np.dtype(np.int64)


def out_of_range(leaf: Leaf, from_zero: NDArray[Any]) -> str | None:
    """What is wrong with choices (from zero) that their space does not have; None where all is well."""
    if isinstance(leaf, Box):
        return None
    counts: Any = leaf.nvec if isinstance(leaf, MultiDiscrete) else 2 if isinstance(leaf, MultiBinary) else leaf.n
    wrong = (from_zero < 0) | (from_zero >= np.asarray(counts))
    if not wrong.any():
        return None
    start: Any = 0 if isinstance(leaf, MultiBinary) else np.asarray(leaf.start or 0)
    place = tuple(int(at) for at in np.argwhere(wrong)[0])
    value, first, count = ((np.broadcast_to(x, wrong.shape)[place]) for x in (from_zero + start, start, counts))
    kind = type(leaf).__name__
    return f"{value}; its {kind} space has {count} values, {first} to {first + count - 1}"


ToRows = Callable[[Any], Iterable[Any]]


def action_rows(spec: Spec) -> ToRows:
    """A function from canonical actions [N, ...] to N native actions, fresh memory at every call."""
    if isinstance(spec, DictSpace):
        parts = [(name, action_rows(part)) for name, part in spec.items]
        names = [name for name, _ in parts]

        def dict_rows(action: Any) -> Iterable[Any]:
            columns = [to_rows(action[name]) for name, to_rows in parts]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

        return dict_rows
    if isinstance(spec, TupleSpace):
        positions = [action_rows(part) for part in spec.items]

        def tuple_rows(action: Any) -> Iterable[Any]:
            return list(zip(*(to_rows(action[i]) for i, to_rows in enumerate(positions)), strict=True))

        return tuple_rows
    return lambda action: native_action(spec, action)


def native_action(leaf: Leaf, action: Any) -> NDArray[Any]:
    """Canonical actions [N, ...] of one leaf in the environment's own numbering and dtype, as a copy."""
    if isinstance(leaf, Discrete):
        # int64 scalars are what Gymnasium's own sampler gives, and what environments expect.
        return np.asarray(action, np.int64) + leaf.start
    if isinstance(leaf, MultiDiscrete):
        return np.asarray(action, np.int64) + np.asarray(leaf.start or 0, np.int64)
    if isinstance(leaf, MultiBinary):
        return np.array(action, np.int8)
    if leaf.dtype.kind != "f":
        return np.asarray(np.rint(action)).astype(leaf.dtype)
    return np.array(action, leaf.dtype)


def native_tree(spec: Spec, action: Any) -> Any:
    """Canonical actions [N, ...] as the tree of native arrays a vector environment takes."""
    natives = [native_action(leaf, value_at(action, path)) for path, leaf in leaves(spec)]
    return unflatten(spec, natives)
