"""The entropy term for discrete and continuous heads apart: weights, penalties below a floor, metrics of each head."""

# B rows, H heads.

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets import masked_actions
from batchwright.nets.heads import Head, Heads
from batchwright.on_policy.on_policy_state import Hyper, TransitionRows
from batchwright.on_policy.shards import Shards


def entropy_loss(
    heads: Heads, entropy_BH: jax.Array, rows: TransitionRows, hyper: Hyper, shards: Shards | None = None
) -> jax.Array:
    """-entropy_coef x weighted entropy, and a penalty for each nat that the mean entropy of a head is below its floor.

    The floor is in nats per number of the action (per choice, bit or box dimension), over the rows that leave it free.
    With shards this is the share of one: the shares of all sum to the loss.
    """
    continuous = np.array([head.continuous for head in heads.heads])
    kind_weight = jnp.where(continuous, hyper.entropy_weight_continuous, hyper.entropy_weight_discrete)
    count = jnp.maximum(_of_all(rows.weight.sum(), shards), 1.0)
    bonus = ((entropy_BH * kind_weight).sum(-1) * rows.weight).sum() / count
    floor = jnp.where(continuous, hyper.entropy_floor_continuous, hyper.entropy_floor_discrete)
    mean_H, free_H = mean_when_free(heads, entropy_BH, rows, shards)
    sizes = np.array([1 if head.kind == "choice" else head.size for head in heads.heads])
    if shards is None:
        below = jnp.where(free_H > 0, jnp.maximum(floor - mean_H / sizes, 0.0), 0.0)
    else:
        below = jnp.where(free_H > 0, shards.below_floor(jnp.asarray(floor), mean_H / sizes), 0.0)
    return jnp.asarray(hyper.entropy_floor_weight * below.sum() - hyper.entropy_coef * bonus)


def _of_all(x: jax.Array, shards: Shards | None) -> jax.Array:
    return x if shards is None else shards.total(x)


def mean_when_free(
    heads: Heads, entropy_BH: jax.Array, rows: TransitionRows, shards: Shards | None = None
) -> tuple[jax.Array, jax.Array]:
    """(mean entropy [H] over the rows where a head has something to decide, how many rows that is [H]).

    With shards rows are counted over all of them, and their means are to be summed.
    """
    free_H = _of_all(_sum_rows(freedom(heads, rows.action, rows.mask), rows), shards)
    total_H = _sum_rows(entropy_BH, rows)
    return total_H / jnp.where(free_H > 0, free_H, 1.0), free_H


def freedom(heads: Heads, action_BD: jax.Array, mask_BM: jax.Array | None = None) -> jax.Array:
    """The share [B, H] of each head's numbers that mask and choices leave free."""
    parts = [_freedom(head, action_BD, mask_BM) for head in heads.heads]
    return jnp.stack(jnp.broadcast_arrays(*parts), -1)


def _freedom(head: Head, action: jax.Array, mask: jax.Array | None) -> jax.Array:
    if head.condition is not None:
        return head.condition.used(action).mean(-1)
    if mask is None or head.kind == "box":
        return jnp.ones(action.shape[:-1])
    if head.kind == "bits":
        return masked_actions.free_bits(mask[..., head.mask])[0].mean(-1)
    return masked_actions.free_choice(mask[..., head.mask])


def head_metrics(
    heads: Heads, entropy_BH: jax.Array, kl_BH: jax.Array, rows: TransitionRows, shards: Shards | None = None
) -> dict[str, jax.Array]:
    """`entropy/HEAD` over the rows where the head has something to decide, `kl/HEAD` over all rows."""
    mean_H, _ = mean_when_free(heads, entropy_BH, rows, shards)
    kl_H = _sum_rows(kl_BH, rows) / jnp.maximum(_of_all(rows.weight.sum(), shards), 1.0)
    names = [head.name for head in heads.heads]
    entropies = {f"entropy/{name}": mean_H[h] for h, name in enumerate(names)}
    return entropies | {f"kl/{name}": kl_H[h] for h, name in enumerate(names)}


def _sum_rows(each_BH: jax.Array, rows: TransitionRows) -> jax.Array:
    """The sum [H] over transitions; rows may be sequences of them."""
    return (each_BH * rows.weight[..., None]).sum(tuple(range(each_BH.ndim - 1)))
