"""All updates of one iteration as one compiled program: values, advantages, epochs of shuffled minibatches."""

# T steps, N environments, K reward components, B = T x N rows, M minibatches, S rows of one, E epochs, H heads.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batchwright.data.rollout import Rollout
from batchwright.envs.masks import choice_groups
from batchwright.learn.policy_loss import POLICY_LOSSES, kl_estimate, value_loss
from batchwright.learn.returns import explained_variance, gae, normalise_advantages
from batchwright.nets.normalise import batch_moments
from batchwright.nets.policy import ObsStats, Outputs, Policy, join_leaves
from batchwright.store.minibatches import cut, layout
from batchwright.training.exploration import entropy_loss, told_by_heads
from batchwright.training.mixing import Acted, combine, start_weighting_state
from batchwright.training.scales import told_by_scales

PIECE_ROWS, PIECE_IMAGES = 2048, 32
"""Rows whose activations, or patches, stay near the core that uses them (docs/log.md)."""


@dataclass(frozen=True)
class UpdateShape:
    """What is compiled into the program; everything else is an array of `Hyper`."""

    algo: str
    minibatches: int
    epochs: int
    advantage_norm: str = "rollout"
    """`rollout`, `minibatch` or `none`."""
    baseline: bool = True
    value_clipping: bool = False
    kl_stop: bool = False
    kl_adaptive: bool = False
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-5
    components: tuple[str, ...] = ()
    """Names of the reward's components; empty where the reward is one number."""
    learned_weighting: bool = False
    entropy_by_kind: bool = False
    """Whether choices and boxes have weights or floors of their own."""


class ComponentNumbers(NamedTuple):
    """What one iteration does with each component; arrays [K]."""

    shift: Any
    factor: Any
    """A reward counts as (reward - shift) x factor: both tiers of normalisation."""
    weight: Any
    """Stated weights; 0 where a component cannot teach anything."""
    varies: Any
    """1 where a component can teach something, else 0."""


class Hyper(NamedTuple):
    """Numbers that may change between iterations or members of a population without compiling again."""

    learning_rate: Any
    gamma: Any
    trace: Any
    clip: Any
    entropy: Any
    value_weight: Any
    max_grad_norm: Any
    weight_decay: Any
    value_rate_factor: Any
    kl_limit: Any
    kl_target: Any
    value_clip: Any
    reward_scale: Any
    """What raw rewards are divided by."""
    warmup_updates: Any
    value_mean: Any
    value_std: Any
    """The scale that values are learned on (PopArt); 0 and 1 otherwise."""
    entropy_discrete: Any = 1.0
    entropy_continuous: Any = 1.0
    """Weights of the entropy of choices and of boxes, where they differ."""
    floor_discrete: Any = -1e9
    floor_continuous: Any = -1e9
    """Nats per number of the action below which the entropy of a head is penalised."""
    floor_weight: Any = 0.0
    components: Any = None
    """`ComponentNumbers`, where the reward has components."""


class Learner(NamedTuple):
    """What an update changes."""

    flat: jax.Array  # parameters
    adam: Any
    updates: jax.Array  # optimiser steps made so far
    rate_factor: jax.Array  # KL-adaptive factor on the learning rate; 1 otherwise
    weighting: Any = None  # (parameters, Adam's state, prior) where weights of components are learned


class Rows(NamedTuple):
    """A rollout as B rows, ready to be cut."""

    seen: Any  # the network's inputs
    action: jax.Array
    log_prob: jax.Array
    advantage: jax.Array
    target: jax.Array  # [B, K], on the scale that values are learned on
    value: jax.Array  # [B, K], likewise
    weight: jax.Array  # 1 for transitions, 0 for resets
    mask: Any = None  # [B, M], what could be done; None where the environment has no masks
    head_log_prob: Any = None  # [B, H], where there is more than one head


Update = Callable[[Learner, Rollout, ObsStats, Hyper, jax.Array], tuple[Learner, dict[str, jax.Array]]]


def make_update(policy: Policy, shape: UpdateShape, rows: int, value_only: np.ndarray) -> Update:
    """A function of (learner, rollout, observation statistics, hyper-parameters, orders [E, B]); compile it."""
    adam = optax.scale_by_adam(shape.adam_beta1, shape.adam_beta2, shape.adam_eps)
    position_MS, inside_MS = layout(rows, shape.minibatches)
    minibatch_step = make_minibatch_step(policy, shape, adam, value_only)

    def update(
        learner: Learner, rollout: Rollout, stats: ObsStats, hyper: Hyper, order_EB: jax.Array
    ) -> tuple[Learner, dict[str, jax.Array]]:
        table, before, weighting = prepare(policy, shape, learner, rollout, stats, hyper)
        learner = learner._replace(weighting=weighting)

        def epoch(carry: Any, turn: tuple[jax.Array, jax.Array]) -> Any:
            learner, stopped = carry
            number, order_B = turn
            index = cut(order_B, position_MS)
            parts = jax.tree.map(lambda column: column[index], table)
            parts = parts._replace(weight=parts.weight * inside_MS)
            step = lambda c, part: minibatch_step(c, part, hyper)  # noqa: E731
            zero = jnp.zeros_like(learner.flat)
            (learner, stopped, total), seen = jax.lax.scan(step, (learner, stopped, zero), parts)
            learner = adapt_rate(learner, seen, hyper, number == 0) if shape.kl_adaptive else learner
            mean_gradient = jnp.square(total / shape.minibatches).sum()
            return (learner, stopped), (seen, mean_gradient)

        turns = jnp.arange(shape.epochs), order_EB
        (learner, _), (seen_EM, mean_square_E) = jax.lax.scan(epoch, (learner, jnp.zeros((), bool)), turns)
        metrics = summary(seen_EM, mean_square_E, rows / shape.minibatches)
        metrics |= before | {"learning_rate": rate_of(learner, hyper)}
        metrics["finite_parameters"] = jnp.isfinite(learner.flat).all()
        return learner, metrics

    return update


def start_learner(flat: jax.Array, shape: UpdateShape, prior: Any = None) -> Learner:
    """A learner that has made no update; `prior` [K] is where a learned weighting begins."""
    adam = optax.scale_by_adam(shape.adam_beta1, shape.adam_beta2, shape.adam_eps)
    even = np.ones(len(shape.components))
    weighting = start_weighting_state(even if prior is None else prior) if shape.learned_weighting else None
    return Learner(flat, adam.init(flat), jnp.zeros((), jnp.int32), jnp.ones((), jnp.float32), weighting)


def prepare_rows(
    policy: Policy, shape: UpdateShape, flat: jax.Array, rollout: Rollout, stats: ObsStats, hyper: Hyper
) -> tuple[Rows, dict[str, jax.Array]]:
    """Values, log-probs and advantages of the whole rollout in one pass, and what they tell about it."""
    return prepare(policy, shape, start_learner(flat, shape), rollout, stats, hyper)[:2]


def prepare(
    policy: Policy, shape: UpdateShape, learner: Learner, rollout: Rollout, stats: ObsStats, hyper: Hyper
) -> tuple[Rows, dict[str, jax.Array], Any]:
    """The rows, what they tell, and the weighting of components after its own step."""
    flat = learner.flat
    seen = policy.see(rollout.obs, stats)
    out: Outputs = policy.outputs_in_turn(flat, seen)
    steps = rollout.reward.shape[0]
    now = jax.tree.map(lambda x: x[:steps], seen)
    per_head = policy.heads.log_prob(out.params, out.raw[:steps], rollout.action, rollout.mask)
    log_prob = per_head.sum(-1)
    ended = rollout.terminated | rollout.truncated
    real = out.value * hyper.value_std + hyper.value_mean
    value, next_value = real[:steps], real[1:]
    if rollout.final_obs is not None:
        final = policy.outputs_in_turn(flat, policy.see(rollout.final_obs, stats)).value
        next_value = jnp.where(ended[..., None], final * hyper.value_std + hyper.value_mean, next_value)
    weight = rollout.valid.astype(jnp.float32)
    reward = rollout.reward / hyper.reward_scale
    if shape.components:
        reward = (reward - hyper.components.shift) * hyper.components.factor * weight[..., None]
    advantage_TNK = gae(reward, value, next_value, rollout.terminated, ended, hyper.gamma, hyper.trace)
    target_TNK = advantage_TNK + value
    if not shape.baseline:
        advantage_TNK = target_TNK
    told, weighting = _finite_rollout(rollout) | _empty_masks(policy, rollout), learner.weighting
    if shape.components:
        acted = Acted(now, rollout.action, weight, rollout.mask)
        mixed = combine(policy, shape, learner, acted, advantage_TNK, hyper.components)
        advantage, weighting = (advantage_TNK * mixed.weight).sum(-1), mixed.weighting
        told |= mixed.told | _told_by_values(
            (value * mixed.weight).sum(-1), (target_TNK * mixed.weight).sum(-1), weight
        )
    else:
        advantage = advantage_TNK.sum(-1)
        told |= _told_by_values(value.sum(-1), target_TNK.sum(-1), weight)
    if shape.advantage_norm == "rollout":
        advantage = normalise_advantages(advantage, weight)
    learned = (target_TNK - hyper.value_mean) / hyper.value_std
    told |= told_by_scales(policy, rollout)
    several = per_head if len(policy.heads.heads) > 1 else None
    rest = (advantage, learned, out.value[:steps], weight, rollout.mask, several)
    table = Rows(now, rollout.action, log_prob, *rest)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), table), told, weighting


def _told_by_values(value_TN: jax.Array, target_TN: jax.Array, weight_TN: jax.Array) -> dict[str, jax.Array]:
    """What values and their targets say of a rollout; the moments feed PopArt and value clipping."""
    count, mean, squares = batch_moments(target_TN.reshape(-1, 1), weight_TN.reshape(-1))
    return {
        "explained_variance": explained_variance(value_TN, target_TN, weight_TN),
        "transitions": count,
        "value_mean": (value_TN * weight_TN).sum() / jnp.maximum(count, 1.0),
        "target_mean": mean[0],
        "target_squares": squares[0],
        "target_std": jnp.sqrt(squares[0] / jnp.maximum(count, 1.0)),
    }


def _empty_masks(policy: Policy, rollout: Rollout) -> dict[str, jax.Array]:
    """How many transitions had a choice with nothing allowed; nothing where there are no masks."""
    if rollout.mask is None:
        return {}
    groups = [rollout.mask[..., part].any(-1) for _, part in choice_groups(policy.heads.spec)]
    return {"empty_masks": (~jnp.stack(groups, -1).all(-1) & rollout.valid).sum()}


def _finite_rollout(rollout: Rollout) -> dict[str, jax.Array]:
    leaves = [leaf for leaf in jax.tree.leaves(rollout.obs) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    finite = [jnp.isfinite(leaf).all() for leaf in [*leaves, rollout.reward]]
    return {"finite_rollout": jnp.stack(finite).all()}


def make_minibatch_step(policy: Policy, shape: UpdateShape, adam: Any, value_only: np.ndarray) -> Any:
    """One optimiser step on one minibatch; told apart: the loss, its gradient, the clip, Adam."""
    row_loss = POLICY_LOSSES[shape.algo]

    def loss(tree: Any, part: Rows, count: jax.Array, hyper: Hyper) -> tuple[jax.Array, dict[str, jax.Array]]:
        """What these rows add to the loss of a minibatch of `count` transitions."""
        out = policy.outputs_of(tree, part.seen)
        per_head = policy.heads.log_prob(out.params, out.raw, part.action, part.mask)
        log_prob = per_head.sum(-1)

        def mean(x: jax.Array) -> jax.Array:
            return (x * part.weight).sum() / count

        entropy = policy.heads.entropy(out.params, out.raw, part.action, part.mask)
        old_value = part.value if shape.value_clipping else None
        parts = {
            "policy_loss": mean(row_loss(log_prob, part.log_prob, part.advantage, hyper.clip)),
            "value_loss": mean(value_loss(out.value, part.target, old_value, hyper.value_clip).sum(-1)),
            "entropy": mean(entropy.sum(-1)),
        }
        total = parts["policy_loss"] + hyper.value_weight * parts["value_loss"]
        if shape.entropy_by_kind:
            total += entropy_loss(policy.heads, entropy, part, hyper)
        else:
            total -= hyper.entropy * parts["entropy"]
        ratio = jnp.exp(log_prob - part.log_prob)
        parts |= {
            "loss": total,
            "kl": mean(kl_estimate(log_prob, part.log_prob)),
            "clip_fraction": mean(jnp.abs(ratio - 1.0) > hyper.clip),
            "ratio_error": jnp.max(jnp.abs(ratio - 1.0) * part.weight),
        }
        if part.head_log_prob is not None:
            parts |= told_by_heads(policy.heads, entropy, kl_estimate(per_head, part.head_log_prob), part)
        return total, parts

    def take(learner: Learner, part: Rows, hyper: Hyper) -> tuple[Learner, jax.Array, dict[str, jax.Array]]:
        if shape.advantage_norm == "minibatch":
            part = part._replace(advantage=normalise_advantages(part.advantage, part.weight))
        count = jnp.maximum(part.weight.sum(), 1.0)
        slope = jax.grad(loss, has_aux=True)
        # Entropies and divergences of single heads are not sums over rows: they need the minibatch whole.
        whole = shape.entropy_by_kind or part.head_log_prob is not None
        most = part.weight.shape[0] if whole else PIECE_IMAGES if policy.inputs.images else PIECE_ROWS
        branches, told = _by_pieces(lambda piece: slope(policy.unravel(learner.flat), piece, count, hyper), part, most)
        gradient = join_leaves(branches)
        norm = jnp.sqrt(jnp.square(gradient).sum())
        clipped = gradient * jnp.minimum(1.0, hyper.max_grad_norm / (norm + 1e-6))
        direction, state = adam.update(clipped, learner.adam)
        updates = learner.updates + 1
        rate = rate_of(learner._replace(updates=updates), hyper)
        if value_only.any():
            direction = direction * jnp.where(value_only, hyper.value_rate_factor, 1.0)
        flat = learner.flat - rate * (direction + hyper.weight_decay * learner.flat)
        told["gradient_norm"] = norm
        return learner._replace(flat=flat, adam=state, updates=updates), gradient, told

    def step(carry: Any, part: Rows, hyper: Hyper) -> Any:
        learner, stopped, total = carry
        if not shape.kl_stop:
            learner, gradient, told = take(learner, part, hyper)
            return (learner, stopped, total + gradient), told | {"made": jnp.ones(()), "measured": jnp.ones(())}
        moved, gradient, told = take(learner, part, hyper)
        told["measured"] = 1.0 - stopped
        stopped = stopped | (told["kl"] > hyper.kl_limit)
        learner = jax.tree.map(lambda new, old: jnp.where(stopped, old, new), moved, learner)
        return (learner, stopped, total + jnp.where(stopped, 0.0, gradient)), told | {"made": 1.0 - stopped}

    return step


def _by_pieces(
    slope: Callable[[Rows], tuple[Any, dict[str, jax.Array]]], part: Rows, most_rows: int
) -> tuple[Any, dict[str, jax.Array]]:
    """The gradient of a large minibatch as the sum over pieces of its rows, so that one piece stays in the cache."""
    rows = part.weight.shape[0]
    pieces = piece_count(rows, most_rows)
    if pieces == 1:
        return slope(part)
    cut_part = jax.tree.map(lambda x: x.reshape(pieces, rows // pieces, *x.shape[1:]), part)

    def add(total: Any, piece: Rows) -> tuple[Any, None]:
        (sums, told), (more, new) = total, slope(piece)
        largest = jnp.maximum(told["ratio_error"], new["ratio_error"])
        sums, told = jax.tree.map(jnp.add, (sums, told), (more, new))
        return (sums, told | {"ratio_error": largest}), None

    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), jax.eval_shape(jax.vmap(slope), cut_part))
    (sums, told), _ = jax.lax.scan(add, zeros, cut_part)
    return sums, told


def piece_count(rows: int, most_rows: int) -> int:
    """Into how many equal pieces a minibatch is cut: 1 up to `most_rows`, and where no near count divides the rows."""
    least = -(-rows // most_rows)
    return next((count for count in range(least, 2 * least) if rows % count == 0), 1)


def rate_of(learner: Learner, hyper: Hyper) -> jax.Array:
    """The learning rate of the learner's last update."""
    warm = jnp.minimum(1.0, learner.updates / jnp.maximum(hyper.warmup_updates, 1.0))
    return jnp.asarray(hyper.learning_rate * learner.rate_factor * warm)


def adapt_rate(learner: Learner, seen: dict[str, jax.Array], hyper: Hyper, first: jax.Array) -> Learner:
    """The learning rate down by 1.5 above twice the KL aimed at, up by 1.5 below half of it.

    The KL before the very first update of a rollout is 0 whatever the rate, and after a stop nothing moves: neither
    says anything about the rate.
    """
    tells = seen["measured"].at[0].multiply(jnp.where(first, 0.0, 1.0))
    kl = (seen["kl"] * tells).sum() / jnp.maximum(tells.sum(), 1.0)
    factor = jnp.where(kl > 2 * hyper.kl_target, 1 / 1.5, jnp.where(kl < hyper.kl_target / 2, 1.5, 1.0))
    factor = jnp.where(tells.sum() > 0, factor, 1.0)
    return learner._replace(rate_factor=jnp.clip(learner.rate_factor * factor, 1e-2, 1e2))


def summary(seen_EM: dict[str, jax.Array], mean_square_E: jax.Array, minibatch_rows: float) -> dict[str, jax.Array]:
    """Means over the updates really made; the gradient noise scale over the epochs that were not stopped."""
    made = seen_EM["made"]
    count = jnp.maximum(made.sum(), 1.0)
    apart = ("made", "measured", "ratio_error")
    means = {name: (value * made).sum() / count for name, value in seen_EM.items() if name not in apart}
    parts = made.shape[1]
    whole_E = made.min(1)
    square = jnp.square(seen_EM["gradient_norm"]).mean(1)
    # |G|^2 and its noise from one minibatch against the mean of all (McCandlish et al., 2018, appendix A.1).
    signal = (parts * mean_square_E - square) / max(parts - 1, 1)
    noise = (square - mean_square_E) * minibatch_rows * parts / max(parts - 1, 1)
    means["updates"] = made.sum()
    means["first_ratio_error"] = seen_EM["ratio_error"][0, 0]
    if parts > 1:
        means["gradient_noise_scale"] = jnp.maximum((noise * whole_E).sum(), 0.0) / jnp.maximum(
            (signal * whole_E).sum(), 1e-12
        )
    return means
