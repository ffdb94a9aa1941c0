"""Weights of reward components: stated, or learned towards a target during training."""

# T steps, N environments, K components, C = K or K + 1 columns (a success signal follows the components),
# P parameters, G = 2 halves of the environments.

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batchwright.data.arrays import BoolTNM, FloatTN, FloatTND, Tree
from batchwright.data.rollout import Rollout
from batchwright.learn import weighting as learned
from batchwright.nets.policy import Policy
from batchwright.on_policy.algorithms import Targets
from batchwright.on_policy.component_stats import reward_columns
from batchwright.on_policy.on_policy_settings import UpdateSettings
from batchwright.on_policy.on_policy_state import ComponentScales, Hyper, TrainState, WeightingState
from batchwright.on_policy.shards import Shards


class PolicyInputs(NamedTuple):
    """Inputs and actions of the policy in a rollout [T, N, ...]."""

    inputs: Tree
    action: FloatTND
    weight: FloatTN
    """1 for transitions, 0 for resets."""
    mask: BoolTNM | None


class Combined(NamedTuple):
    """Weights [K] of this rollout's advantages, the weighting after its step, and what is logged."""

    weight: jax.Array
    weighting: WeightingState | None
    metrics: dict[str, jax.Array]


def start_weighting_state(components: int, columns: int) -> WeightingState:
    """A learned weighting that begins at the stated weights."""
    params = learned.start_weighting(components)
    return WeightingState(params, _optimiser().init(params), learned.start_inner_products(columns))


def combine(
    policy: Policy,
    settings: UpdateSettings,
    train: TrainState,
    rows: PolicyInputs,
    advantage_TNC: jax.Array,
    scales: ComponentScales,
) -> Combined:
    """How the components of this rollout are weighed; a learned weighting makes one step first."""
    size, shards = len(settings.components), settings.shards
    transitions = rows.weight.sum()
    magnitude = (jnp.abs(advantage_TNC[..., :size]) * rows.weight[..., None]).sum((0, 1))
    if shards is not None:
        transitions, magnitude = shards.total(transitions), shards.total(magnitude)
    magnitude = magnitude / jnp.maximum(transitions, 1.0)
    weight, state = scales.weight * scales.varies[:size], train.weighting
    shown: dict[str, jax.Array] = {}
    if settings.learned_weighting:
        assert state is not None
        spread = jnp.asarray(scales.spread)
        whole = (weight * spread[:size]).sum()
        stated = weight * spread[:size] / jnp.maximum(whole, 1e-12)
        gradient = half_gradients(policy, train.params, rows, advantage_TNC / spread, shards)
        state = take_step(state, magnitude / spread[:size], stated, gradient, jnp.asarray(scales.target) * spread)
        tiers = learned.tiers(state.params, magnitude / spread[:size], stated)
        weight = whole * tiers.product / spread[:size]
        shown = tiers._asdict()
    counts = jnp.abs(weight) * scales.factor[:size] * scales.unit[:size]
    shown |= {
        "weight": counts / jnp.maximum(counts.sum(), 1e-12),
        "share": jnp.abs(weight) * magnitude / jnp.maximum((jnp.abs(weight) * magnitude).sum(), 1e-12),
        "scale": jnp.asarray(scales.factor)[:size],
        "advantage": magnitude,
    }
    metrics = {
        f"component/{name}/{part}": value[k]
        for k, name in enumerate(settings.components)
        for part, value in shown.items()
    }
    return Combined(jnp.asarray(weight), state, metrics)


def component_rewards(
    settings: UpdateSettings, rollout: Rollout, hyper: Hyper, next_value_TNC: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(scaled rewards, values of successors) [T, N, C] of every column."""
    assert hyper.components is not None
    valid = rollout.valid.astype(jnp.float32)[..., None]
    reward = (reward_columns(rollout) - hyper.components.shift) * hyper.components.factor * valid
    if settings.success_head:  # an episode has one success: nothing of it comes after a time limit
        ended = rollout.terminated | rollout.truncated
        next_value_TNC = next_value_TNC.at[..., -1].multiply(1.0 - ended)
    return reward, next_value_TNC


def weigh_components(
    policy: Policy,
    settings: UpdateSettings,
    train: TrainState,
    rows: PolicyInputs,
    value_TNC: jax.Array,
    targets: Targets,
    hyper: Hyper,
) -> tuple[tuple[jax.Array, ...], Combined]:
    """((advantages, values, value targets) [T, N] of the weighted sum of the components, how they are weighed)."""
    assert hyper.components is not None
    unit, size = jnp.asarray(hyper.components.unit), len(settings.components)
    mixed = combine(policy, settings, train, rows, targets.advantage * unit, hyper.components)
    # In the units of the environment's reward, or balanced; divided like the plain sum where that is normalised.
    counts = mixed.weight * unit[:size] / hyper.reward_scale
    columns = targets.advantage, value_TNC, targets.value_target
    return tuple((column[..., :size] * counts).sum(-1) for column in columns), mixed


def take_step(
    state: WeightingState, magnitude: jax.Array, stated: jax.Array, gradient_GCP: jax.Array, target_C: jax.Array
) -> WeightingState:
    """One step towards the target; where nothing of it has been seen yet, the weighting stays as it is."""
    seen = jnp.abs(target_C).sum() > 0
    target_C = target_C / jnp.maximum(jnp.sqrt(jnp.square(target_C).sum()), 1e-12)
    products = learned.merge(state.products, gradient_GCP, seen)
    expected = learned.expected_products(products)
    gradient = jax.grad(learned.weighting_loss)(state.params, magnitude, stated, expected, products.noise, target_C)
    change, opt_state = _optimiser().update(gradient, state.opt_state, state.params)
    moved = WeightingState(optax.apply_updates(state.params, change), opt_state, products)
    stepped: WeightingState = jax.tree.map(lambda new, old: jnp.where(seen, new, old), moved, state)
    return stepped


def _optimiser() -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(learned.MAX_NORM), optax.adam(learned.RATE, eps=learned.ADAM_EPS))


def half_gradients(
    policy: Policy, flat: jax.Array, rows: PolicyInputs, advantage_TNC: jax.Array, shards: Shards | None = None
) -> jax.Array:
    """Policy gradients [G, C, P] of every column from each half of the environments, at the policy that acted."""
    steps, num_envs = rows.weight.shape
    first: Any = np.arange(num_envs) % 2 == 0 if num_envs > 1 else (np.arange(steps) < steps // 2)[:, None]
    first = first if shards is None else shards.even_envs(num_envs)
    half_GTN = jnp.stack([rows.weight * first, rows.weight * ~first])
    sum_GC, count_G = jnp.einsum("gtn,tnc->gc", half_GTN, advantage_TNC), half_GTN.sum((1, 2))
    if shards is not None:
        sum_GC, count_G = shards.total(sum_GC), shards.total(count_G)
    count_G = jnp.maximum(count_G, 1.0)
    centred = (advantage_TNC[None] - (sum_GC / count_G[:, None])[:, None, None]) * half_GTN[..., None]
    pulled_GCTN = jnp.moveaxis(centred, -1, 1) / count_G[:, None, None, None]

    def log_prob(flat: jax.Array) -> jax.Array:
        out = policy.outputs(flat, rows.inputs)
        return policy.heads.log_prob(out.params, out.raw, rows.action, rows.mask).sum(-1)

    pull = jax.vjp(log_prob, flat)[1]
    gradient_GCP: jax.Array = jax.vmap(jax.vmap(lambda cotangent: pull(cotangent)[0]))(pulled_GCTN)
    return gradient_GCP if shards is None else shards.total(gradient_GCP)
