"""All updates of one iteration as one compiled program: values and advantages, then epochs of shuffled minibatches."""

# T steps, N environments, K components, B = T x N rows, M minibatches, S rows of one, E epochs, H heads, R roles.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batchwright.data.rollout import Rollout
from batchwright.learn.returns import explained_variance, normalise_advantages
from batchwright.nets.grouped_policy import GroupedPolicy
from batchwright.nets.masked_actions import empty_masks
from batchwright.nets.normalise import ObsStats, batch_moments
from batchwright.nets.param_roles import ParamRoles, param_roles
from batchwright.nets.policy import Outputs, Policy, join_leaves
from batchwright.on_policy.agent_rows import normalise_by_group, present_numbers
from batchwright.on_policy.algorithms import RolloutValues, find_algorithm, kl_estimate, value_loss
from batchwright.on_policy.component_weighting import (
    PolicyInputs,
    component_rewards,
    weigh_components,
)
from batchwright.on_policy.entropy_loss import entropy_loss, head_metrics
from batchwright.on_policy.kl_adaptive import adapt_learning_rate
from batchwright.on_policy.large_minibatches import sum_over_pieces
from batchwright.on_policy.on_policy_settings import UpdateSettings
from batchwright.on_policy.on_policy_state import Hyper, Metrics, TrainState, TransitionRows, WeightingState
from batchwright.on_policy.shards import Shards
from batchwright.store.minibatches import cut, layout

PIECE_ROWS, PIECE_IMAGES = 2048, 32
"""Rows whose activations, or patches, stay in the cache of the core that uses them (docs/log.md)."""
ROLE_SQUARES = ("policy_square", "value_square")
"""Squared norms of a minibatch's gradient over the parameters of each role."""


@partial(jax.tree_util.register_dataclass, data_fields=("values",), meta_fields=("names",))
@dataclass(frozen=True)
class PackedMetrics:
    """Metrics in one vector, so that the host needs one transfer instead of thirty."""

    values: jax.Array  # [number of names]
    names: tuple[str, ...]

    @classmethod
    def pack(cls, metrics: Metrics) -> PackedMetrics:
        return cls(jnp.stack([jnp.asarray(value, jnp.float32) for value in metrics.values()]), tuple(metrics))

    def to_floats(self) -> dict[str, float]:
        return dict(zip(self.names, np.asarray(self.values).tolist(), strict=True))


Update = Callable[[TrainState, Rollout, ObsStats, Hyper, Any], tuple[TrainState, PackedMetrics]]
"""(train state, rollout, observation statistics, hyper-parameters, minibatch order) -> (train state, metrics)."""


class PreparedRollout(NamedTuple):
    """A rollout ready for minibatches."""

    rows: TransitionRows
    metrics: Metrics
    weighting: WeightingState | None
    """After its own step, where the weights of components are learned."""


Prepare = Callable[[Policy, UpdateSettings, TrainState, Rollout, ObsStats, Hyper], PreparedRollout]


def make_optimiser(settings: UpdateSettings) -> optax.GradientTransformation:
    return optax.scale_by_adam(settings.adam_beta1, settings.adam_beta2, settings.adam_eps)


def make_update(
    policy: Policy, settings: UpdateSettings, rows: int, value_only: np.ndarray, prepare: Prepare | None = None
) -> Update:
    """The update for rollouts that `prepare` cuts into so many rows; compile it. The order of rows is [E, B].

    `value_only` marks the parameters that move the values alone: the critic may have a learning rate of its own.
    """
    position_MS, inside_MS = layout(rows, settings.minibatches)
    prepare = prepare or prepare_rollout
    minibatch_step, roles = make_minibatch_step(policy, settings, value_only), param_roles(policy)
    shards, shard_count = settings.shards, 1 if settings.shards is None else settings.shards.count

    def update(
        train: TrainState, rollout: Rollout, stats: ObsStats, hyper: Hyper, order_EB: jax.Array
    ) -> tuple[TrainState, PackedMetrics]:
        prepared = prepare(policy, settings, train, rollout, stats, hyper)
        train = train._replace(weighting=prepared.weighting)
        position, inside = (position_MS, inside_MS) if shards is None else shards.layout(rows, settings.minibatches)
        inside = inside.reshape(*inside.shape, *(1 for _ in prepared.rows.weight.shape[1:]))

        def epoch(carry: Any, turn: tuple[jax.Array, jax.Array]) -> Any:
            train, stopped = carry
            number, order_B = turn
            index = cut(order_B, position)
            minibatches = jax.tree.map(lambda column: column[index], prepared.rows)
            weight = minibatches.weight * inside
            minibatches = minibatches._replace(
                weight=weight, count=None if shards is None else shards.count_rows(weight)
            )
            start = train, stopped, jnp.zeros_like(train.params)
            (train, stopped, total), metrics_M = jax.lax.scan(
                lambda carry, minibatch: minibatch_step(carry, minibatch, hyper), start, minibatches
            )
            train = adapt_learning_rate(train, metrics_M, hyper, number == 0) if settings.kl_adaptive else train
            return (train, stopped), (metrics_M, role_squares(roles, total / settings.minibatches))

        epochs = jnp.arange(settings.epochs), order_EB
        (train, _), (metrics_EM, mean_square_ER) = jax.lax.scan(epoch, (train, jnp.zeros((), bool)), epochs)
        metrics = summarise_updates(metrics_EM)
        if settings.minibatches > 1:
            transitions = shard_count * prepared.rows.weight.size
            metrics |= gradient_noise(metrics_EM, mean_square_ER, settings.minibatches, transitions)
        return train, PackedMetrics.pack(metrics | prepared.metrics | final_metrics(train, hyper))

    return update


def prepare_rollout(
    policy: Policy, settings: UpdateSettings, train: TrainState, rollout: Rollout, stats: ObsStats, hyper: Hyper
) -> PreparedRollout:
    """Values, log-probs and advantages of the whole rollout in one pass, as B rows."""
    inputs, final = policy.preprocess(rollout.obs, stats), None
    out = policy.outputs_in_turn(train.params, inputs)
    if rollout.final_obs is not None:
        final = policy.outputs_in_turn(train.params, policy.preprocess(rollout.final_obs, stats)).value
    acted = jax.tree.map(lambda x: x[: rollout.reward.shape[0]], inputs)
    prepared = weigh_rollout(policy, settings, train, rollout, hyper, acted, out, final)
    return prepared._replace(rows=jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), prepared.rows))


def weigh_rollout(
    policy: Policy,
    settings: UpdateSettings,
    train: TrainState,
    rollout: Rollout,
    hyper: Hyper,
    inputs: Any,
    out: Outputs,
    final_value: jax.Array | None,
) -> PreparedRollout:
    """Rows [T, N] with log-probs and advantages, from outputs [T + 1, N] and, where rows have them, last values."""
    steps = rollout.reward.shape[0]
    head_log_prob = policy.heads.log_prob(out.params, out.raw[:steps], rollout.action, rollout.mask)
    weight = rollout.valid.astype(jnp.float32)
    values = _rollout_values(settings, rollout, hyper, out.value, final_value)
    targets = find_algorithm(settings.algo).targets(values, hyper, settings.baseline)
    shards, weighting = settings.shards, train.weighting
    metrics = rollout_metrics(policy, rollout, settings.agents, shards)
    measure_values = value_metrics if shards is None else shards.of_all(value_metrics)
    if settings.components:
        policy_inputs = PolicyInputs(inputs, rollout.action, weight, rollout.mask)
        sums, mixed = weigh_components(policy, settings, train, policy_inputs, values.value, targets, hyper)
        (advantage, value, target), weighting = sums, mixed.weighting
        metrics |= mixed.metrics | measure_values(value, target, weight)
    else:
        advantage = targets.advantage.sum(-1)
        metrics |= measure_values(values.value.sum(-1), targets.value_target.sum(-1), weight)
    if settings.advantage_norm == "rollout":
        advantage = _normalised(policy, advantage, weight, inputs, shards)
    rows = TransitionRows(
        inputs=inputs,
        action=rollout.action,
        log_prob=head_log_prob.sum(-1),
        advantage=advantage,
        target=(targets.value_target - hyper.value_mean) / hyper.value_std,
        value=out.value[:steps],
        weight=weight,
        mask=rollout.mask,
        head_log_prob=head_log_prob if len(policy.heads.heads) > 1 else None,
    )
    return PreparedRollout(rows, metrics, weighting)


def _normalised(policy: Policy, advantage: Any, weight: Any, inputs: Any, shards: Any, dim: int = 1) -> jax.Array:
    if isinstance(policy, GroupedPolicy):
        return normalise_by_group(policy, advantage, weight, inputs)
    return normalise_advantages(advantage, weight) if shards is None else shards.normalise(advantage, weight, dim)


def _rollout_values(
    settings: UpdateSettings, rollout: Rollout, hyper: Hyper, value: jax.Array, final_value: jax.Array | None
) -> RolloutValues:
    """Scaled rewards and values of a rollout; `value` [T + 1, N, K] is on the scale that values are learned on."""
    steps = rollout.reward.shape[0]
    ended = rollout.terminated | rollout.truncated
    real = value * hyper.value_std + hyper.value_mean
    now, after = real[:steps], real[1:]
    if final_value is not None:
        after = jnp.where(ended[..., None], final_value * hyper.value_std + hyper.value_mean, after)
    if not settings.components:
        return RolloutValues(rollout.reward / hyper.reward_scale, now, after, rollout.terminated, ended)
    reward, after = component_rewards(settings, rollout, hyper, after)
    return RolloutValues(reward, now, after, rollout.terminated, ended)


def make_minibatch_step(policy: Policy, settings: UpdateSettings, value_only: np.ndarray) -> Any:
    """One optimiser step on one minibatch; with a KL stop, no step once the policy has moved too far."""
    optimiser, shards = make_optimiser(settings), settings.shards
    grad_fn, roles = jax.grad(make_loss(policy, settings), has_aux=True), param_roles(policy)

    def take_step(train: TrainState, minibatch: TransitionRows, hyper: Hyper) -> tuple[TrainState, jax.Array, Metrics]:
        if settings.advantage_norm == "minibatch":
            advantage = _normalised(policy, minibatch.advantage, minibatch.weight, minibatch.inputs, shards, 0)
            minibatch = minibatch._replace(advantage=advantage)
        count = jnp.maximum(minibatch.weight.sum() if shards is None else minibatch.count, 1.0)
        minibatch = minibatch._replace(count=None)
        # Entropies and divergences of single heads are not sums over rows: they need the minibatch whole.
        whole = settings.entropy_by_kind or minibatch.head_log_prob is not None
        rows = minibatch.weight.shape[0]
        pieces = 1 if whole else piece_count(rows, PIECE_IMAGES if policy.inputs.images else PIECE_ROWS)
        compute = partial(grad_fn, policy.unravel(train.params), count=count, hyper=hyper)
        gradient_tree, metrics = compute(minibatch) if pieces == 1 else sum_over_pieces(compute, minibatch, pieces)
        gradient = join_leaves(gradient_tree)
        if shards is not None:
            gradient, metrics = shards.sum_update(gradient, metrics)
        norm = jnp.sqrt(jnp.square(gradient).sum())
        clipped = gradient * jnp.minimum(1.0, hyper.max_grad_norm / (norm + 1e-6))
        direction, opt_state = optimiser.update(clipped, train.opt_state)
        if value_only.any():
            direction = direction * jnp.where(value_only, hyper.value_rate_factor, 1.0)
        moved = train._replace(opt_state=opt_state, updates=train.updates + 1)
        step = current_learning_rate(moved, hyper) * (direction + hyper.weight_decay * train.params)
        metrics |= {"gradient_norm": norm} | dict(zip(ROLE_SQUARES, role_squares(roles, gradient), strict=True))
        return moved._replace(params=train.params - step), gradient, metrics

    def minibatch_step(carry: Any, minibatch: TransitionRows, hyper: Hyper) -> Any:
        train, stopped, total = carry
        moved, gradient, metrics = take_step(train, minibatch, hyper)
        if not settings.kl_stop:
            return (moved, stopped, total + gradient), metrics | {"made": jnp.ones(()), "measured": jnp.ones(())}
        metrics["measured"] = 1.0 - stopped
        stopped = stopped | (metrics["kl"] > hyper.kl_stop)
        train = jax.tree.map(lambda new, old: jnp.where(stopped, old, new), moved, train)
        return (train, stopped, total + jnp.where(stopped, 0.0, gradient)), metrics | {"made": 1.0 - stopped}

    return minibatch_step


def over_heads(loss_BC: jax.Array) -> jax.Array:
    """The mean over value heads: gradients are clipped together, and more heads must not leave less for the policy."""
    return loss_BC.sum(-1) / loss_BC.shape[-1]


def make_loss(policy: Policy, settings: UpdateSettings) -> Callable[..., tuple[jax.Array, Metrics]]:
    """The loss as a function of (parameter tree, rows, transitions of the whole minibatch, hyper-parameters)."""
    algorithm = find_algorithm(settings.algo)

    def loss(tree: Any, rows: TransitionRows, count: jax.Array, hyper: Hyper) -> tuple[jax.Array, Metrics]:
        out = policy.outputs_of(tree, rows.inputs)
        head_log_prob = policy.heads.log_prob(out.params, out.raw, rows.action, rows.mask)
        log_prob = head_log_prob.sum(-1)

        def mean(x: jax.Array) -> jax.Array:
            return (x * rows.weight).sum() / count

        entropy = policy.heads.entropy(out.params, out.raw, rows.action, rows.mask)
        old_value = rows.value if settings.value_clipping else None
        metrics = {
            "policy_loss": mean(algorithm.policy_loss(log_prob, rows.log_prob, rows.advantage, hyper)),
            "value_loss": mean(over_heads(value_loss(out.value, rows.target, old_value, hyper.value_clip))),
            "entropy": mean(entropy.sum(-1)),
        }
        total = metrics["policy_loss"] + hyper.value_weight * metrics["value_loss"]
        if settings.entropy_by_kind:
            total += entropy_loss(policy.heads, entropy, rows, hyper, settings.shards)
        else:
            total -= hyper.entropy_coef * metrics["entropy"]
        ratio = jnp.exp(log_prob - rows.log_prob)
        metrics |= {
            "loss": total,
            "kl": mean(kl_estimate(log_prob, rows.log_prob)),
            "clip_fraction": mean(jnp.abs(ratio - 1.0) > hyper.clip_range),
            "ratio_error": jnp.max(jnp.abs(ratio - 1.0) * rows.weight),
        }
        if rows.head_log_prob is not None:
            kl = kl_estimate(head_log_prob, rows.head_log_prob)
            metrics |= head_metrics(policy.heads, entropy, kl, rows, settings.shards)
        return total, metrics

    return loss


def piece_count(rows: int, most_rows: int) -> int:
    """Into how many equal pieces a minibatch is cut: 1 up to `most_rows`, and where no near count divides the rows."""
    least = -(-rows // most_rows)
    return next((count for count in range(least, 2 * least) if rows % count == 0), 1)


def current_learning_rate(train: TrainState, hyper: Hyper) -> jax.Array:
    """The learning rate of the last update: scheduled, adapted, warmed up."""
    warm = jnp.minimum(1.0, train.updates / jnp.maximum(hyper.warmup_updates, 1.0))
    return jnp.asarray(hyper.learning_rate * train.learning_rate_factor * warm)


def final_metrics(train: TrainState, hyper: Hyper) -> Metrics:
    """Metrics of the parameters after all updates."""
    return {
        "learning_rate": current_learning_rate(train, hyper),
        "finite_parameters": jnp.isfinite(train.params).all(),
    }


def summarise_updates(metrics_EM: Metrics) -> Metrics:
    """Means over the updates really made."""
    made = metrics_EM["made"]
    count = jnp.maximum(made.sum(), 1.0)
    apart = ("made", "measured", "ratio_error", *ROLE_SQUARES)
    means = {name: (value * made).sum() / count for name, value in metrics_EM.items() if name not in apart}
    return means | {"updates": made.sum(), "first_ratio_error": metrics_EM["ratio_error"][0, 0]}


def role_squares(roles: ParamRoles, vector: jax.Array) -> jax.Array:
    """Squared norms [R] of a vector of parameters over those of each role."""
    return jnp.stack([sum((jnp.square(vector[a:b]).sum() for a, b in part), jnp.zeros(())) for part in roles])


def gradient_noise(metrics_EM: Metrics, mean_square_ER: jax.Array, parts: Any, rows: Any) -> Metrics:
    """Of policy and value apart: |G|^2 (signal) and the variance of one row (noise), both unbiased.

    From single minibatches of the first epoch against their mean (McCandlish et al., 2018, appendix A.1): later epochs
    repeat its rows. Both are 0 where a stop or a single minibatch leaves nothing to compare.
    """
    known = (metrics_EM["made"][0].sum() >= parts) & (parts > 1)
    others = jnp.maximum(parts - 1.0, 1.0)
    metrics = {}
    for name, mean in zip(ROLE_SQUARES, mean_square_ER[0], strict=True):
        role, one = name.removesuffix("_square"), metrics_EM[name][0].sum() / parts
        metrics[f"{role}_gradient_signal"] = jnp.where(known, (parts * mean - one) / others, 0.0)
        metrics[f"{role}_gradient_noise"] = jnp.where(known, (one - mean) * rows / others, 0.0)
    return metrics


def rollout_metrics(policy: Policy, rollout: Rollout, agents: bool = False, shards: Shards | None = None) -> Metrics:
    """Whether all numbers are finite, and the scales of rewards, actions and observations, those at resets too."""
    weight_TN, reward_TN = rollout.valid.astype(jnp.float32), rollout.reward.sum(-1)
    boxes = [head.action for head in policy.heads.heads if head.kind == "box"]
    outside_TN = jnp.zeros_like(weight_TN)
    if boxes and not isinstance(policy, GroupedPolicy):  # boxes of other groups are drawn and not used
        outside_TN = jnp.concatenate([jnp.abs(rollout.action[..., part]) > 1.0 for part in boxes], -1).mean(-1)
    if shards is not None:
        weight_TN, reward_TN, outside_TN = shards.gather(weight_TN, reward_TN, outside_TN)
    count = jnp.maximum(weight_TN.sum(), 1.0)
    mean = (reward_TN * weight_TN).sum() / count
    metrics = {
        "finite_rollout": _is_finite(rollout) if shards is None else shards.in_all(_is_finite(rollout)),
        "reward_abs_mean": (jnp.abs(reward_TN) * weight_TN).sum() / count,
        "reward_std": jnp.sqrt((jnp.square(reward_TN - mean) * weight_TN).sum() / count),
    }
    if rollout.mask is not None:
        empty = empty_masks(policy.heads.spec, rollout.mask, rollout.valid)
        metrics["empty_masks"] = empty if shards is None else shards.total(empty)
    if policy.inputs.vector_size:
        vector_TNV = policy.inputs.vector(jax.tree.map(lambda x: x[:-1], rollout.obs))
        present = present_numbers(policy, vector_TNV, rollout.valid) if agents else None
        metrics |= _observation_metrics(vector_TNV, present, shards)
    if boxes and not isinstance(policy, GroupedPolicy):
        metrics["action_clip_fraction"] = (outside_TN * weight_TN).sum() / count
    return metrics


def value_metrics(value_TN: jax.Array, target_TN: jax.Array, weight_TN: jax.Array) -> Metrics:
    """How values agree with their targets; the moments of the targets feed PopArt and value clipping."""
    count, mean, squares = batch_moments(target_TN.reshape(-1, 1), weight_TN.reshape(-1))
    return {
        "explained_variance": explained_variance(value_TN, target_TN, weight_TN),
        "transitions": count,
        "value_mean": (value_TN * weight_TN).sum() / jnp.maximum(count, 1.0),
        "target_mean": mean[0],
        "target_squares": squares[0],
        "target_std": jnp.sqrt(squares[0] / jnp.maximum(count, 1.0)),
    }


def _is_finite(rollout: Rollout) -> jax.Array:
    leaves = [leaf for leaf in jax.tree.leaves(rollout.obs) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in [*leaves, rollout.reward]]).all()


def _observation_metrics(vector_TNV: jax.Array, present_TNV: jax.Array | None, shards: Shards | None) -> Metrics:
    """Before normalisation; of all numbers, or of those that are there."""
    rows = vector_TNV.reshape(-1, vector_TNV.shape[-1])
    where = None if present_TNV is None else present_TNV.reshape(-1, present_TNV.shape[-1])
    std_V = jnp.std(rows, 0, where=where) if shards is None else shards.spread(rows)
    rows = rows if where is None else jnp.where(where, rows, 0.0)
    varies_V = std_V > np.float32(1e-8)
    return {
        "obs_abs_max": jnp.abs(rows).max() if shards is None else shards.largest(jnp.abs(rows).max()),
        "obs_std_min": jnp.where(varies_V.any(), jnp.where(varies_V, std_V, jnp.inf).min(), 0.0),
        "obs_std_max": std_V.max(),
        "obs_widest_entry": std_V.argmax(),
        "obs_constant_entries": (~varies_V).sum(),
        "obs_constant_entry": jnp.where(varies_V.all(), -1, varies_V.argmin()),
    }
