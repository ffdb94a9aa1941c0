"""Signal and noise of the gradient between environments: what minibatches of one rollout cannot tell."""

# T steps, N environments, B = T x N rows, G groups of neighbouring environments, P parameters.

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp

from batchwright.data.rollout import Rollout
from batchwright.learn.returns import normalise_advantages
from batchwright.nets.normalise import ObsStats
from batchwright.nets.param_roles import param_roles
from batchwright.nets.policy import Policy, join_leaves
from batchwright.on_policy.large_minibatches import sum_over_pieces
from batchwright.on_policy.on_policy_settings import OnPolicySettings, UpdateSettings
from batchwright.on_policy.on_policy_state import Hyper, Metrics, TrainState
from batchwright.on_policy.on_policy_update import (
    PIECE_IMAGES,
    PIECE_ROWS,
    ROLE_SQUARES,
    PackedMetrics,
    make_loss,
    piece_count,
    prepare_rollout,
    role_squares,
)
from batchwright.runs.shared_programs import SharedPrograms

GROUPS = 8
"""At most; with fewer environments a group is a stretch of one of them."""
NOISE_EVERY, LEAST_ITERATIONS = 8, 100
"""A pass over the rollout in one iteration of eight costs about 1% of ten epochs; it is compiled for long runs only."""

Measure = Callable[[TrainState, Rollout, ObsStats, Hyper], PackedMetrics]


def measures_noise(settings: OnPolicySettings) -> bool:
    """Whether a run is long enough, and its rows are single transitions of one process with one reward."""
    iterations = settings.run.iterations
    single = settings.rollout_episodes is None and settings.network.memory is None and settings.update.shards is None
    return iterations is not None and iterations >= LEAST_ITERATIONS and single and settings.components is None


def noise_measure(
    settings: OnPolicySettings, policy: Policy, programs: SharedPrograms, key: Hashable
) -> Measure | None:
    """The compiled measurement for long runs; None for others."""
    if not measures_noise(settings):
        return None
    program: Measure = programs.get(key, lambda: jax.jit(make_rollout_noise(policy, settings.update)))
    return program


def make_rollout_noise(policy: Policy, settings: UpdateSettings) -> Measure:
    """The measurement before an update, of the parameters that collected; compile it.

    Transitions of one environment are alike: their values err together. So the gradients of groups of environments
    are compared, of all their transitions, and not those of shuffled minibatches.
    """
    grad_fn, roles = jax.grad(make_loss(policy, settings), has_aux=True), param_roles(policy)

    def measure(train: TrainState, rollout: Rollout, stats: ObsStats, hyper: Hyper) -> PackedMetrics:
        rows_B = prepare_rollout(policy, settings, train, rollout, stats, hyper).rows
        if settings.advantage_norm == "minibatch":
            rows_B = rows_B._replace(advantage=normalise_advantages(rows_B.advantage, rows_B.weight))
        steps, envs = rollout.reward.shape[:2]
        count = groups_of(steps * envs)

        def by_env(x: Any) -> Any:
            together = jnp.swapaxes(x.reshape(steps, envs, *x.shape[1:]), 0, 1)
            return together.reshape(count, steps * envs // count, *x.shape[1:])

        groups = jax.tree.map(by_env, rows_B)
        tree, size = policy.unravel(train.params), steps * envs // count
        pieces = piece_count(size, PIECE_IMAGES if policy.inputs.images else PIECE_ROWS)

        def add(total_P: jax.Array, group: Any) -> tuple[jax.Array, jax.Array]:
            def compute(rows: Any) -> Any:
                return grad_fn(tree, rows, count=jnp.maximum(group.weight.sum(), 1.0), hyper=hyper)

            gradient, _ = compute(group) if pieces == 1 else sum_over_pieces(compute, group, pieces)
            gradient_P = join_leaves(gradient)
            return total_P + gradient_P, role_squares(roles, gradient_P)

        total_P, squares_GR = jax.lax.scan(add, jnp.zeros_like(train.params), groups)
        mean_squares = role_squares(roles, total_P / count)
        return PackedMetrics.pack(between_groups(squares_GR, mean_squares, rows_B.weight.sum()))

    return measure


def groups_of(rows: int) -> int:
    """The most groups of equal size, up to `GROUPS`."""
    return next(count for count in range(GROUPS, 0, -1) if rows % count == 0)


def between_groups(squares_GR: jax.Array, mean_square_R: jax.Array, rows: Any) -> Metrics:
    """|G|^2 (signal) and the variance of one row (noise) of each role, unbiased; nothing from a single group."""
    groups, metrics = squares_GR.shape[0], {}
    if groups == 1:
        return {}
    for name, mean, one in zip(ROLE_SQUARES, mean_square_R, squares_GR.mean(0), strict=True):
        role = name.removesuffix("_square")
        metrics[f"{role}_gradient_signal_by_env"] = (groups * mean - one) / (groups - 1)
        metrics[f"{role}_gradient_noise_by_env"] = (one - mean) * rows / (groups - 1)
    return metrics
