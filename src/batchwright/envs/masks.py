"""Which actions are possible: masks as rows of booleans, and boxes that are used only with some choices."""

# N envs, M booleans of one mask.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.envs.spaces import Box, DictSpace, Discrete, Leaf, MultiBinary, Spec, TupleSpace, leaves, path_name

Activity: TypeAlias = tuple[str, tuple[int, ...]]
"""(path of a choice, the values of it with which a box is used); paths as `spaces.path_name` writes them."""

FORMS = "Discrete [n]; MultiDiscrete a tuple of [nvec[k]]; MultiBinary [n] of 0, 1 or 2 (free); Box None"


def leaf_mask_size(leaf: Leaf) -> int:
    """Booleans of one leaf: one per choice; for bits, whether each may be 0, then whether each may be 1."""
    if isinstance(leaf, Box):
        return 0
    if isinstance(leaf, MultiBinary):
        return 2 * leaf.n
    return leaf.n if isinstance(leaf, Discrete) else sum(leaf.nvec)


def mask_size(spec: Spec) -> int:
    """M: booleans of one row, in the order of the leaves."""
    return sum(leaf_mask_size(leaf) for _, leaf in leaves(spec))


def flat_mask(spec: Spec, mask: Any, where: str, numpy: Any = np) -> Any:
    """One row [M] of booleans from a mask in Gymnasium's form; a part that is absent or None is free.

    With `numpy=jax.numpy` it can be traced; shapes are refused then too, values cannot be.
    """
    parts = list(_parts(spec, mask, (), where, numpy))
    return numpy.concatenate(parts) if parts else numpy.ones(0, bool)


def _parts(spec: Spec, mask: Any, path: tuple[str | int, ...], where: str, numpy: Any) -> Any:
    if isinstance(spec, DictSpace | TupleSpace):
        items = spec.items if isinstance(spec, DictSpace) else enumerate(spec.items)
        parts: list[tuple[Any, Spec]] = list(items)
        given = _children(spec, mask, [name for name, _ in parts], path, where)
        for name, child in parts:
            yield from _parts(child, given.get(name), (*path, name), where, numpy)
        return
    if isinstance(spec, Box):
        if mask is not None:
            raise _refusal(where, path, "a Box has no mask")
    elif mask is None:
        yield numpy.ones(leaf_mask_size(spec), bool)
    elif isinstance(spec, Discrete):
        yield _row(mask, spec.n, path, where, numpy) != 0
    elif isinstance(spec, MultiBinary):
        bits = _row(mask, spec.n, path, where, numpy)
        if numpy is np and not np.isin(bits, (0, 1, 2)).all():
            raise _refusal(where, path, f"bits are masked with 0, 1 or 2 (free), not {sorted(set(bits.tolist()))}")
        yield bits != 1
        yield bits != 0
    else:
        if not isinstance(mask, tuple | list) or len(mask) != len(spec.nvec):
            raise _refusal(where, path, f"{len(spec.nvec)} choices need a tuple of as many masks")
        for k, (part, n) in enumerate(zip(mask, spec.nvec, strict=True)):
            yield _row(part, n, (*path, k), where, numpy) != 0


def _children(
    spec: DictSpace | TupleSpace, mask: Any, names: list[Any], path: tuple[str | int, ...], where: str
) -> dict[Any, Any]:
    if mask is None:
        return {}
    if isinstance(spec, TupleSpace):
        if not isinstance(mask, tuple | list) or len(mask) != len(names):
            raise _refusal(where, path, f"a Tuple of {len(names)} parts needs a tuple of as many masks")
        return dict(enumerate(mask))
    if not isinstance(mask, Mapping):
        raise _refusal(where, path, f"a Dict needs a dict of masks, got {type(mask).__name__}")
    strangers = [name for name in mask if name not in names]
    if strangers:
        raise _refusal(where, path, f"it names {strangers[0]!r}; the action has {', '.join(map(str, names))}")
    return dict(mask)


def _row(mask: Any, n: int, path: tuple[str | int, ...], where: str, numpy: Any) -> Any:
    try:
        row = numpy.asarray(mask)
    except (TypeError, ValueError):
        raise _refusal(where, path, f"shape ({n},) is needed") from None
    if row.shape != (n,) or row.dtype.kind not in "biu":
        raise _refusal(where, path, f"shape ({n},) of booleans or integers is needed, got {row.dtype} {row.shape}")
    return row


def _refusal(where: str, path: tuple[str | int, ...], why: str) -> UserError:
    part = f" at {path_name(path)!r}" if path else ""
    return UserError(
        f"{where}: the action mask{part} does not fit the action: {why}.",
        [f"masks have the forms of Gymnasium's Space.sample(mask=): {FORMS}"],
    )


def choice_groups(spec: Spec) -> list[tuple[str, slice]]:
    """Every single choice with the booleans that must not all be False; a bit is a choice of two."""
    found: list[tuple[str, slice]] = []
    at = 0
    for path, leaf in leaves(spec):
        name = path_name(path) or "action"
        if isinstance(leaf, Discrete):
            found.append((name, slice(at, at + leaf.n)))
        elif isinstance(leaf, MultiBinary):
            found += [(f"{name}[{k}]", slice(at + k, at + 2 * leaf.n, leaf.n)) for k in range(leaf.n)]
        elif not isinstance(leaf, Box):
            ends = at + np.cumsum(leaf.nvec)
            found += [
                (f"{name}[{k}]", slice(int(end) - n, int(end)))
                for k, (n, end) in enumerate(zip(leaf.nvec, ends, strict=True))
            ]
        at += leaf_mask_size(leaf)
    return found


def refuse_empty(spec: Spec, mask: NDArray[np.bool_], where: str) -> None:
    """Refuses rows [..., M] that forbid every value of a choice."""
    for name, part in choice_groups(spec):
        if not mask[..., part].any(-1).all():
            raise UserError(
                f"{where}: the action mask forbids every value of {name!r}.",
                ["allow at least one action in every state that is not the end of an episode"],
            )
