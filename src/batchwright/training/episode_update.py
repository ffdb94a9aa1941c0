"""The update of a rollout of whole episodes: one program for any number of transitions and minibatches."""

# L steps, E episodes, B = L x E rows with room for all, G epochs, M minibatches at most, S rows of one at most.

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batchwright.data.rollout import Rollout
from batchwright.nets.policy import ObsStats, Policy
from batchwright.planning.episodes import EpisodeCut
from batchwright.store.minibatches import shuffled_orders
from batchwright.training.update import (
    Hyper,
    Learner,
    Rows,
    UpdateShape,
    adapt_rate,
    make_minibatch_step,
    prepare,
    rate_of,
    summary,
)


class EpisodeOrders(NamedTuple):
    """Which rows are transitions, in a fresh order for every epoch, and how many minibatches they make."""

    rows: Any  # [G, B + S] int32; what follows the first `count` is padding
    count: Any  # [] int32
    parts: Any  # [] int32


def episode_orders(stream: int, valid_LE: np.ndarray, epochs: int, cut: EpisodeCut) -> EpisodeOrders:
    """The orders of one rollout, drawn on the host."""
    rows = np.flatnonzero(valid_LE.reshape(-1)).astype(np.int32)
    padded = np.zeros((epochs, valid_LE.size + cut.largest(valid_LE.size)), np.int32)
    padded[:, : len(rows)] = rows[shuffled_orders(stream, len(rows), epochs)]
    return EpisodeOrders(padded, np.int32(len(rows)), np.int32(cut.parts(len(rows))))


def make_episode_update(policy: Policy, shape: UpdateShape, cut: EpisodeCut, value_only: np.ndarray) -> Any:
    """A function of (learner, rollout, observation statistics, hyper-parameters, orders); compile it."""
    adam = optax.scale_by_adam(shape.adam_beta1, shape.adam_beta2, shape.adam_eps)
    minibatch_step = make_minibatch_step(policy, shape, adam, value_only)

    def update(
        learner: Learner, rollout: Rollout, stats: ObsStats, hyper: Hyper, orders: EpisodeOrders
    ) -> tuple[Learner, dict[str, jax.Array]]:
        table, before, weighting = prepare(policy, shape, learner, rollout, stats, hyper)
        learner = learner._replace(weighting=weighting)
        most_M = cut.most_parts(rollout.valid.size)
        parts = orders.parts

        def epoch(carry: Any, turn: tuple[jax.Array, jax.Array]) -> Any:
            learner, stopped = carry
            number, row_B = turn

            def part(m: Any) -> Rows:
                return _minibatch(table, row_B, orders, cut, m)

            def step(m: jax.Array, at: Any) -> Any:
                moving, seen = at
                moving, told = minibatch_step(moving, part(m), hyper)
                return moving, jax.tree.map(lambda all_M, one: all_M.at[m].set(one), seen, told)

            start = (learner, stopped, jnp.zeros_like(learner.flat))
            told = jax.eval_shape(lambda: minibatch_step(start, part(0), hyper)[1])
            seen = jax.tree.map(lambda one: jnp.zeros((most_M, *one.shape), one.dtype), told)
            (learner, stopped, total), seen = jax.lax.fori_loop(0, parts, step, (start, seen))
            learner = adapt_rate(learner, seen, hyper, number == 0) if shape.kl_adaptive else learner
            return (learner, stopped), (seen, jnp.square(total / parts).sum())

        turns = jnp.arange(shape.epochs), orders.rows
        (learner, _), (seen_GM, mean_square_G) = jax.lax.scan(epoch, (learner, jnp.zeros((), bool)), turns)
        metrics = summary(seen_GM, mean_square_G, 1.0)
        if most_M > 1:
            metrics["gradient_noise_scale"] = _noise_scale(seen_GM, mean_square_G, orders)
        metrics |= before | {"learning_rate": rate_of(learner, hyper)}
        metrics["finite_parameters"] = jnp.isfinite(learner.flat).all()
        return learner, metrics

    return update


def _minibatch(table: Rows, row_B: jax.Array, orders: EpisodeOrders, cut: EpisodeCut, m: Any) -> Rows:
    """Minibatch m of near-equal ones; rows beyond its size have weight 0."""
    size_S = cut.largest(table.weight.shape[0])
    small, larger = orders.count // orders.parts, orders.count % orders.parts
    index = jax.lax.dynamic_slice(row_B, (m * small + jnp.minimum(m, larger),), (size_S,))
    inside = jnp.arange(size_S) < small + (m < larger)
    part: Rows = jax.tree.map(lambda column: column[index], table)
    return part._replace(weight=part.weight * inside)


def _noise_scale(seen_GM: dict[str, jax.Array], mean_square_G: jax.Array, orders: EpisodeOrders) -> jax.Array:
    """As for rollouts of steps (McCandlish et al., 2018), over epochs that were not stopped; 0 for one minibatch."""
    parts = orders.parts.astype(jnp.float32)
    whole_G = seen_GM["made"].sum(1) >= parts
    square_G = jnp.square(seen_GM["gradient_norm"]).sum(1) / parts
    others = jnp.maximum(parts - 1.0, 1.0)
    signal = (parts * mean_square_G - square_G) / others
    noise = (square_G - mean_square_G) * orders.count / others
    return jnp.maximum((noise * whole_G).sum(), 0.0) / jnp.maximum((signal * whole_G).sum(), 1e-12)
