"""The update of a rollout of whole episodes: one program for any number of transitions and minibatches."""

# L steps, E episodes, B = L x E rows with room for all, G epochs, M minibatches at most, S rows of one at most.

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.rollout import Rollout
from batchwright.nets.normalise import ObsStats
from batchwright.nets.param_roles import param_roles
from batchwright.nets.policy import Policy
from batchwright.on_policy.kl_adaptive import adapt_learning_rate
from batchwright.on_policy.on_policy_settings import UpdateSettings
from batchwright.on_policy.on_policy_state import Hyper, TrainState, TransitionRows
from batchwright.on_policy.on_policy_update import (
    PackedMetrics,
    Update,
    final_metrics,
    gradient_noise,
    make_minibatch_step,
    prepare_rollout,
    role_squares,
    summarise_updates,
)
from batchwright.planning.episode_plan import EpisodeCut
from batchwright.store.minibatches import shuffled_orders


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


def make_episode_update(policy: Policy, settings: UpdateSettings, cut: EpisodeCut, value_only: np.ndarray) -> Update:
    """The update of rollouts of whole episodes, of any number of transitions; compile it."""
    minibatch_step, roles = make_minibatch_step(policy, settings, value_only), param_roles(policy)

    def update(
        train: TrainState, rollout: Rollout, stats: ObsStats, hyper: Hyper, orders: EpisodeOrders
    ) -> tuple[TrainState, PackedMetrics]:
        prepared = prepare_rollout(policy, settings, train, rollout, stats, hyper)
        train = train._replace(weighting=prepared.weighting)
        most_M = cut.most_parts(rollout.valid.size)

        def epoch(carry: Any, turn: tuple[jax.Array, jax.Array]) -> Any:
            train, stopped = carry
            number, row_B = turn

            def minibatch(m: jax.Array | int) -> TransitionRows:
                return _minibatch(prepared.rows, row_B, orders, cut, m)

            def step(m: jax.Array, carry: Any) -> Any:
                moving, metrics_M = carry
                moving, metrics = minibatch_step(moving, minibatch(m), hyper)
                return moving, jax.tree.map(lambda all_M, one: all_M.at[m].set(one), metrics_M, metrics)

            start = (train, stopped, jnp.zeros_like(train.params))
            shapes = jax.eval_shape(lambda: minibatch_step(start, minibatch(0), hyper)[1])
            empty = jax.tree.map(lambda one: jnp.zeros((most_M, *one.shape), one.dtype), shapes)
            (train, stopped, total), metrics_M = jax.lax.fori_loop(0, orders.parts, step, (start, empty))
            train = adapt_learning_rate(train, metrics_M, hyper, number == 0) if settings.kl_adaptive else train
            return (train, stopped), (metrics_M, role_squares(roles, total / orders.parts))

        epochs = jnp.arange(settings.epochs), orders.rows
        (train, _), (metrics_GM, mean_square_GR) = jax.lax.scan(epoch, (train, jnp.zeros((), bool)), epochs)
        metrics = summarise_updates(metrics_GM)
        if most_M > 1:
            parts = orders.parts.astype(jnp.float32)
            metrics |= gradient_noise(metrics_GM, mean_square_GR, parts, orders.count)
        return train, PackedMetrics.pack(metrics | prepared.metrics | final_metrics(train, hyper))

    return update


def _minibatch(
    rows: TransitionRows, row_B: jax.Array, orders: EpisodeOrders, cut: EpisodeCut, m: jax.Array | int
) -> TransitionRows:
    """Minibatch m of near-equal ones; rows beyond its size have weight 0."""
    size_S = cut.largest(rows.weight.shape[0])
    small, larger = orders.count // orders.parts, orders.count % orders.parts
    index = jax.lax.dynamic_slice(row_B, (m * small + jnp.minimum(m, larger),), (size_S,))
    inside = jnp.arange(size_S) < small + (m < larger)
    minibatch: TransitionRows = jax.tree.map(lambda column: column[index], rows)
    return minibatch._replace(weight=minibatch.weight * inside)
