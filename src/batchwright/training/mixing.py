"""Advantages of several components into one: stated weights, or a weighting that is learned on the way."""

# T steps, N environments, K components, P parameters, G = 2 halves of the environments.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batchwright.learn import weighting as learned
from batchwright.nets.policy import Policy

if TYPE_CHECKING:
    from batchwright.training.update import ComponentNumbers, Learner, UpdateShape


class Acted(NamedTuple):
    """What the policy saw and did in a rollout [T, N, ...]."""

    seen: Any
    action: jax.Array
    weight: jax.Array  # 1 for transitions, 0 for resets
    mask: Any


class Combined(NamedTuple):
    """Weights [K] of this rollout's advantages, the weighting after its step, and what is logged."""

    weight: jax.Array
    weighting: Any
    told: dict[str, jax.Array]


def start_weighting_state(prior: Any) -> Any:
    """(parameters, state of their own optimiser, the base they are pulled to)."""
    params = learned.start_weighting(np.asarray(prior, np.float64))
    return params, _optimiser().init(params), params.base


def combine(
    policy: Policy,
    shape: UpdateShape,
    learner: Learner,
    rows: Acted,
    advantage_TNK: jax.Array,
    numbers: ComponentNumbers,
) -> Combined:
    """How the components of this rollout are weighed; a learned weighting makes one step first."""
    count = jnp.maximum(rows.weight.sum(), 1.0)
    magnitude = (jnp.abs(advantage_TNK) * rows.weight[..., None]).sum((0, 1)) / count
    weight, state = numbers.weight * numbers.varies, learner.weighting
    share = jnp.abs(weight) / jnp.maximum(jnp.abs(weight).sum(), 1e-8)
    if shape.learned_weighting:
        gradient = _half_gradients(policy, learner.flat, rows, advantage_TNK)
        state = _step(state, magnitude, numbers.varies, gradient)
        share = learned.shares(state[0], magnitude, numbers.varies)
        weight = share * numbers.varies.sum()
    told: dict[str, jax.Array] = {}
    for k, name in enumerate(shape.components):
        told |= {
            f"component/{name}/weight": share[k],
            f"component/{name}/scale": jnp.asarray(numbers.factor)[k],
            f"component/{name}/advantage": magnitude[k],
        }
    return Combined(weight, state, told)


def _step(state: Any, magnitude: jax.Array, varies: jax.Array, gradient_GKP: jax.Array) -> Any:
    params, moments, prior = state
    slope = jax.grad(learned.weighting_loss)(params, magnitude, varies, gradient_GKP, prior)
    change, moments = _optimiser().update(slope, moments, params)
    return optax.apply_updates(params, change), moments, prior


def _optimiser() -> Any:
    return optax.chain(optax.clip_by_global_norm(learned.MAX_NORM), optax.adam(learned.RATE))


def _half_gradients(policy: Policy, flat: jax.Array, rows: Acted, advantage_TNK: jax.Array) -> jax.Array:
    """Policy gradients [G, K, P] of every component from each half of the environments, at the policy that acted."""
    steps, num_envs = rows.weight.shape
    first = np.arange(num_envs) % 2 == 0 if num_envs > 1 else (np.arange(steps) < steps // 2)[:, None]
    half_GTN = jnp.stack([rows.weight * first, rows.weight * ~first])
    mean_GK = jnp.einsum("gtn,tnk->gk", half_GTN, advantage_TNK) / _count(half_GTN)[:, None]
    centred = (advantage_TNK[None] - mean_GK[:, None, None]) * half_GTN[..., None]
    pulled_GKTN = jnp.moveaxis(centred, -1, 1) / _count(half_GTN)[:, None, None, None]

    def log_prob(flat: jax.Array) -> jax.Array:
        out = policy.outputs(flat, rows.seen)
        return policy.heads.log_prob(out.params, out.raw, rows.action, rows.mask).sum(-1)

    pull = jax.vjp(log_prob, flat)[1]
    gradient_GKP: jax.Array = jax.vmap(jax.vmap(lambda cotangent: pull(cotangent)[0]))(pulled_GKTN)
    return gradient_GKP


def _count(half_GTN: jax.Array) -> jax.Array:
    return jnp.maximum(half_GTN.sum((1, 2)), 1.0)
