"""Weights of reward components: stated, or learned during training."""

# T steps, N environments, K components, P parameters, G = 2 halves of the environments.

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batchwright.data.arrays import BoolTNM, FloatTN, FloatTND, Tree
from batchwright.learn import weighting as learned
from batchwright.nets.policy import Policy
from batchwright.on_policy.on_policy_settings import UpdateSettings
from batchwright.on_policy.on_policy_state import ComponentScales, TrainState, WeightingState


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


def start_weighting_state(prior: np.ndarray) -> WeightingState:
    """A learned weighting that begins at the stated weights [K]."""
    params = learned.start_weighting(np.asarray(prior, np.float64))
    return WeightingState(params, _optimiser().init(params), params.base)


def combine(
    policy: Policy,
    settings: UpdateSettings,
    train: TrainState,
    rows: PolicyInputs,
    advantage_TNK: jax.Array,
    scales: ComponentScales,
) -> Combined:
    """How the components of this rollout are weighed; a learned weighting makes one step first."""
    count = jnp.maximum(rows.weight.sum(), 1.0)
    magnitude = (jnp.abs(advantage_TNK) * rows.weight[..., None]).sum((0, 1)) / count
    weight, state = scales.weight * scales.varies, train.weighting
    share = jnp.abs(weight) / jnp.maximum(jnp.abs(weight).sum(), 1e-8)
    if settings.learned_weighting:
        gradient = _half_gradients(policy, train.params, rows, advantage_TNK)
        assert state is not None
        state = _step(state, magnitude, scales.varies, gradient)
        share = learned.shares(state.params, magnitude, jnp.asarray(scales.varies))
        weight = share * scales.varies.sum()
    metrics: dict[str, jax.Array] = {}
    for k, name in enumerate(settings.components):
        metrics |= {
            f"component/{name}/weight": share[k],
            f"component/{name}/scale": jnp.asarray(scales.factor)[k],
            f"component/{name}/advantage": magnitude[k],
        }
    return Combined(weight, state, metrics)


def _step(state: WeightingState, magnitude: jax.Array, varies: np.ndarray, gradient_GKP: jax.Array) -> WeightingState:
    gradient = jax.grad(learned.weighting_loss)(state.params, magnitude, varies, gradient_GKP, state.prior)
    change, opt_state = _optimiser().update(gradient, state.opt_state, state.params)
    return WeightingState(optax.apply_updates(state.params, change), opt_state, state.prior)


def _optimiser() -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(learned.MAX_NORM), optax.adam(learned.RATE))


def _half_gradients(policy: Policy, flat: jax.Array, rows: PolicyInputs, advantage_TNK: jax.Array) -> jax.Array:
    """Policy gradients [G, K, P] of every component from each half of the environments, at the policy that acted."""
    steps, num_envs = rows.weight.shape
    first = np.arange(num_envs) % 2 == 0 if num_envs > 1 else (np.arange(steps) < steps // 2)[:, None]
    half_GTN = jnp.stack([rows.weight * first, rows.weight * ~first])
    mean_GK = jnp.einsum("gtn,tnk->gk", half_GTN, advantage_TNK) / _count(half_GTN)[:, None]
    centred = (advantage_TNK[None] - mean_GK[:, None, None]) * half_GTN[..., None]
    pulled_GKTN = jnp.moveaxis(centred, -1, 1) / _count(half_GTN)[:, None, None, None]

    def log_prob(flat: jax.Array) -> jax.Array:
        out = policy.outputs(flat, rows.inputs)
        return policy.heads.log_prob(out.params, out.raw, rows.action, rows.mask).sum(-1)

    pull = jax.vjp(log_prob, flat)[1]
    gradient_GKP: jax.Array = jax.vmap(jax.vmap(lambda cotangent: pull(cotangent)[0]))(pulled_GKTN)
    return gradient_GKP


def _count(half_GTN: jax.Array) -> jax.Array:
    return jnp.maximum(half_GTN.sum((1, 2)), 1.0)
