"""Entropy by kinds of heads: weights of their own, penalties below a floor, and what is logged of each head."""

# B rows, H heads.

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets.heads import Heads

if TYPE_CHECKING:
    from batchwright.training.update import Hyper, Rows


def entropy_loss(heads: Heads, entropy_BH: jax.Array, part: Rows, hyper: Hyper) -> jax.Array:
    """-bonus x weighted entropy, and a penalty for every nat by which the mean entropy of a head is below its floor.

    The floor is in nats per number of the action (per choice, bit or box dimension), over the rows that leave it free.
    """
    continuous = np.array([head.continuous for head in heads.heads])
    kind_weight = jnp.where(continuous, hyper.entropy_continuous, hyper.entropy_discrete)
    count = jnp.maximum(part.weight.sum(), 1.0)
    bonus = ((entropy_BH * kind_weight).sum(-1) * part.weight).sum() / count
    floor = jnp.where(continuous, hyper.floor_continuous, hyper.floor_discrete)
    mean_H, free_H = mean_when_free(heads, entropy_BH, part)
    sizes = np.array([1 if head.kind == "choice" else head.size for head in heads.heads])
    below = jnp.where(free_H > 0, jnp.maximum(floor - mean_H / sizes, 0.0), 0.0)
    return jnp.asarray(hyper.floor_weight * below.sum() - hyper.entropy * bonus)


def mean_when_free(heads: Heads, entropy_BH: jax.Array, part: Rows) -> tuple[jax.Array, jax.Array]:
    """(mean entropy [H] over the rows where a head has something to decide, how many rows that is [H])."""
    free_H = (heads.freedom(part.action, part.mask) * part.weight[:, None]).sum(0)
    total_H = (entropy_BH * part.weight[:, None]).sum(0)
    return total_H / jnp.where(free_H > 0, free_H, 1.0), free_H


def told_by_heads(heads: Heads, entropy_BH: jax.Array, kl_BH: jax.Array, part: Rows) -> dict[str, jax.Array]:
    """`entropy/HEAD` over the rows where the head has something to decide, `kl/HEAD` over all rows."""
    mean_H, _ = mean_when_free(heads, entropy_BH, part)
    kl_H = (kl_BH * part.weight[:, None]).sum(0) / jnp.maximum(part.weight.sum(), 1.0)
    names = [head.name for head in heads.heads]
    told = {f"entropy/{name}": mean_H[h] for h, name in enumerate(names)}
    return told | {f"kl/{name}": kl_H[h] for h, name in enumerate(names)}
