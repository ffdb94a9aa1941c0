"""Actions that are not always free: masks forbid values of choices, and choices leave boxes unused.

What a mask forbids has probability 0: a choice with one value left, a forced bit and a box that its choice leaves
unused add nothing to log-probs, entropies and gradients.
"""

# B any leading axes, D numbers of one action, n values of a choice or bits of one head.

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from batchwright.core.errors import UserError, unknown
from batchwright.envs import spaces
from batchwright.envs.masks import Activity, choice_groups
from batchwright.envs.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Spec

FORBIDDEN = -1e30
"""In the place of the logit of a forbidden value: its probability is exactly 0, and every logarithm stays finite."""


@dataclass(frozen=True)
class Condition:
    """When a box is used: the choices that decide it, and the values of theirs with which it is."""

    choices: slice
    """Of the flat action: one number, or one per row of the box."""
    values: tuple[int, ...]
    repeats: int
    """Numbers of the box that one of these choices decides."""

    def used(self, action_BD: jax.Array) -> jax.Array:
        """1.0 for the numbers of the box that the chosen values use, 0.0 for the others."""
        chosen = action_BD[..., self.choices]
        used = jnp.isin(chosen, jnp.asarray(self.values, jnp.float32)).astype(jnp.float32)
        return jnp.repeat(used, self.repeats, -1)


def allowed_logits(logits_Bn: jax.Array, mask_Bn: jax.Array) -> jax.Array:
    """The logits of a choice with those of forbidden values at probability 0."""
    return jnp.where(mask_Bn, logits_Bn, FORBIDDEN)


def free_bits(mask_Bn: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(bits that may be either, bits that may be 1) of a mask that holds both halves."""
    zero, one = jnp.split(mask_Bn, 2, axis=-1)
    return zero & one, one


def allowed_bits(bits_Bn: jax.Array, mask_Bn: jax.Array) -> jax.Array:
    """Bits with forced ones at the value that the mask leaves."""
    free, ones = free_bits(mask_Bn)
    return jnp.where(free, bits_Bn, ones.astype(jnp.float32))


def sum_free_bits(each_Bn: jax.Array, mask_Bn: jax.Array) -> jax.Array:
    """The sum [B] over the bits that may be either."""
    return jnp.where(free_bits(mask_Bn)[0], each_Bn, 0.0).sum(-1)


def free_choice(mask_Bn: jax.Array) -> jax.Array:
    """1.0 [B] where a choice has more than one value left."""
    return (mask_Bn.sum(-1) > 1).astype(jnp.float32)


def find_conditions(spec: Spec, activity: Mapping[str, Activity]) -> dict[str, Condition]:
    """The condition of each box that has one; paths and values that the action does not have are refused."""
    known: dict[str, tuple[spaces.Leaf, int]] = {}
    at = 0
    for path, leaf in spaces.leaves(spec):
        known[spaces.path_name(path)] = leaf, at
        at += math.prod(spaces.leaf_shape(leaf))
    found = {}
    for box_path, (choice_path, values) in activity.items():
        for part, wanted in ((box_path, "box"), (choice_path, "choice")):
            if part not in known or isinstance(known[part][0], Box) != (wanted == "box"):
                raise unknown(f"{wanted} in action_activity", part, known)
        found[box_path] = _condition(known[box_path][0], known[choice_path], (box_path, choice_path), values)
    return found


def _condition(
    box: spaces.Leaf, choice: tuple[spaces.Leaf, int], paths: tuple[str, str], values: tuple[int, ...]
) -> Condition:
    leaf, at = choice
    numbers = math.prod(spaces.leaf_shape(box))
    if isinstance(leaf, Discrete):
        ranges, count = [range(leaf.start, leaf.start + leaf.n)], 1
    elif isinstance(leaf, MultiBinary):
        ranges, count = [range(2)], leaf.n
    else:
        assert isinstance(leaf, MultiDiscrete)
        starts = leaf.start or (0,) * len(leaf.nvec)
        if len(set(starts)) > 1:
            raise UserError(f"action_activity: the choices of {paths[1]!r} begin at different numbers {starts}.")
        ranges, count = [range(start, start + n) for start, n in zip(starts, leaf.nvec, strict=True)], len(leaf.nvec)
    rows = spaces.leaf_shape(box)[:1]
    if count > 1 and rows != (count,):
        raise UserError(
            f"action_activity: {paths[1]!r} has {count} choices; the box {paths[0]!r} needs as many rows, it has "
            f"shape {spaces.leaf_shape(box)}."
        )
    wrong = [value for value in values if not any(value in allowed for allowed in ranges)]
    if wrong or not values:
        raise UserError(
            f"action_activity of {paths[0]!r}: {paths[1]!r} has no value {wrong[0] if wrong else '(none)'}."
        )
    first = ranges[0].start
    return Condition(slice(at, at + count), tuple(int(value) - first for value in values), numbers // count)


def empty_masks(spec: Spec, mask_TNM: jax.Array, valid_TN: jax.Array) -> jax.Array:
    """How many transitions had a choice with nothing allowed."""
    groups = [mask_TNM[..., part].any(-1) for _, part in choice_groups(spec)]
    return jnp.sum(~jnp.stack(groups, -1).all(-1) & valid_TN)
