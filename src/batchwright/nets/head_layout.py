"""The heads of an action space: where each leaf reads the raw output and writes the action."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.masks import Activity
from batchwright.envs.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Spec
from batchwright.nets import masked_actions
from batchwright.nets.heads import Head, Heads

WHOLE = "action"
"""The name of the head of an action that has no parts."""


def make_heads(spec: Spec, activity: Mapping[str, Activity] | None = None) -> Heads:
    """Heads for every leaf: one per choice, one per group of bits, one per box; `activity` as engines declare it."""
    heads: list[Head] = []
    raw = action = std = mask = 0
    conditions = masked_actions.find_conditions(spec, activity or {})
    for path, leaf in spaces.leaves(spec):
        name = spaces.path_name(path) or WHOLE
        if isinstance(leaf, (Discrete, MultiDiscrete)):
            choices = (leaf.n,) if isinstance(leaf, Discrete) else leaf.nvec
            for k, n in enumerate(choices):
                label = name if isinstance(leaf, Discrete) else f"{name}[{k}]"
                where = slice(raw, raw + n), slice(action, action + 1), slice(std, std), slice(mask, mask + n)
                heads.append(Head(label, "choice", *where))
                raw, action, mask = raw + n, action + 1, mask + n
            continue
        size = leaf.n if isinstance(leaf, MultiBinary) else math.prod(leaf.shape)
        kind = "bits" if isinstance(leaf, MultiBinary) else "box"
        width, booleans = (size, 0) if kind == "box" else (0, 2 * size)
        if isinstance(leaf, Box):
            _refuse_half_bounded(name, leaf)
        where = (
            slice(raw, raw + size),
            slice(action, action + size),
            slice(std, std + width),
            slice(mask, mask + booleans),
        )
        heads.append(Head(name, kind, *where, conditions.get(name)))
        raw, action, std, mask = raw + size, action + size, std + width, mask + booleans
    return Heads(spec, tuple(heads), raw, action, std)


def action_label(name: str) -> str:
    """How messages call a part of the action; the whole of it is just the action."""
    return "the action" if name in ("", WHOLE) else f"the action {name!r}"


def _refuse_half_bounded(name: str, leaf: Box) -> None:
    if leaf.dtype.kind != "f":
        raise UserError(
            f"{action_label(name)} is a Box of {leaf.dtype}; a Box of floats is supported.",
            ["wrap the environment: Discrete or MultiDiscrete for whole numbers"],
        )
    finite = np.isfinite(leaf.low), np.isfinite(leaf.high)
    if not np.array_equal(*finite):
        raise UserError(
            f"{action_label(name)} is bounded on one side only.",
            ["wrap the environment with bounds on both sides, or none"],
        )
