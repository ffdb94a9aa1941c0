"""The entropy term for discrete and continuous heads apart: weights, penalties below a floor, metrics of each head."""

# B rows, H heads.

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets.heads import Heads
from batchwright.on_policy.on_policy_state import Hyper, TransitionRows


def entropy_loss(heads: Heads, entropy_BH: jax.Array, rows: TransitionRows, hyper: Hyper) -> jax.Array:
    """-entropy_coef x weighted entropy, and a penalty for each nat that the mean entropy of a head is below its floor.

    The floor is in nats per number of the action (per choice, bit or box dimension), over the rows that leave it free.
    """
    continuous = np.array([head.continuous for head in heads.heads])
    kind_weight = jnp.where(continuous, hyper.entropy_weight_continuous, hyper.entropy_weight_discrete)
    count = jnp.maximum(rows.weight.sum(), 1.0)
    bonus = ((entropy_BH * kind_weight).sum(-1) * rows.weight).sum() / count
    floor = jnp.where(continuous, hyper.entropy_floor_continuous, hyper.entropy_floor_discrete)
    mean_H, free_H = mean_when_free(heads, entropy_BH, rows)
    sizes = np.array([1 if head.kind == "choice" else head.size for head in heads.heads])
    below = jnp.where(free_H > 0, jnp.maximum(floor - mean_H / sizes, 0.0), 0.0)
    return jnp.asarray(hyper.entropy_floor_weight * below.sum() - hyper.entropy_coef * bonus)


def mean_when_free(heads: Heads, entropy_BH: jax.Array, rows: TransitionRows) -> tuple[jax.Array, jax.Array]:
    """(mean entropy [H] over the rows where a head has something to decide, how many rows that is [H])."""
    free_H = (heads.freedom(rows.action, rows.mask) * rows.weight[:, None]).sum(0)
    total_H = (entropy_BH * rows.weight[:, None]).sum(0)
    return total_H / jnp.where(free_H > 0, free_H, 1.0), free_H


def head_metrics(heads: Heads, entropy_BH: jax.Array, kl_BH: jax.Array, rows: TransitionRows) -> dict[str, jax.Array]:
    """`entropy/HEAD` over the rows where the head has something to decide, `kl/HEAD` over all rows."""
    mean_H, _ = mean_when_free(heads, entropy_BH, rows)
    kl_H = (kl_BH * rows.weight[:, None]).sum(0) / jnp.maximum(rows.weight.sum(), 1.0)
    names = [head.name for head in heads.heads]
    entropies = {f"entropy/{name}": mean_H[h] for h, name in enumerate(names)}
    return entropies | {f"kl/{name}": kl_H[h] for h, name in enumerate(names)}
