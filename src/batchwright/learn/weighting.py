"""Three-tier learnable weighting of advantages: base weights, attention, their product on a floor.

What it is trained by (docs/adr/0012): one step of the policy along the weighted gradient should improve the sum of all
components on data that the gradient was not computed from. The measure is the cosine between the two gradients, each
from its own half of the environments; it has a gradient at ratio 1, and a component that is mostly noise agrees with
nothing in the other half and loses weight.
"""

# K components, P parameters of the policy, G = 2 halves of the data.

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

FLOOR = 0.02
MOST_FLOOR = 0.2
"""All floors together take at most this share."""
PRIOR_PULL = 1e-3
RATE = 0.05
MAX_NORM = 1.0


class Weighting(NamedTuple):
    """Parameters of the three tiers."""

    base: jax.Array  # [K] logits
    attention: jax.Array  # [K, K]: from relative magnitudes to logits
    bias: jax.Array  # [K]


def start_weighting(prior: NDArray[np.float64]) -> Weighting:
    """Base weights at the stated ones, attention even."""
    size = len(prior)
    shares = np.maximum(prior / prior.sum(), 1e-3)
    return Weighting(
        jnp.asarray(np.log(shares / shares.sum()), jnp.float32),
        jnp.zeros((size, size), jnp.float32),
        jnp.zeros(size, jnp.float32),
    )


def shares(weighting: Weighting, magnitude_K: jax.Array, varies_K: jax.Array) -> jax.Array:
    """Shares [K] that sum to 1: base x attention over the mean |A| on a floor; 0 where nothing varies."""
    size = magnitude_K.shape[0]
    relative = magnitude_K / jnp.maximum(magnitude_K.sum(), 1e-8)
    base = jax.nn.softmax(weighting.base)
    attention = jax.nn.softmax(weighting.attention @ relative + weighting.bias)
    product = base * attention * varies_K
    product = product / jnp.maximum(product.sum(), 1e-8)
    floor = min(FLOOR, MOST_FLOOR / size)
    count = jnp.maximum(varies_K.sum(), 1.0)
    return (floor + (1.0 - floor * count) * product) * varies_K


def agreement(shares_K: jax.Array, gradient_GKP: jax.Array) -> jax.Array:
    """Mean cosine between the weighted gradient of one half and the plain sum's of the other."""
    weighted = jnp.einsum("k,gkp->gp", shares_K, gradient_GKP)
    aim = gradient_GKP.sum(1)[::-1]
    norms = jnp.sqrt(jnp.square(weighted).sum(-1) * jnp.square(aim).sum(-1))
    return ((weighted * aim).sum(-1) / (norms + 1e-12)).mean()


def weighting_loss(
    weighting: Weighting, magnitude_K: jax.Array, varies_K: jax.Array, gradient_GKP: jax.Array, prior_K: jax.Array
) -> jax.Array:
    """What the weighting minimises: -agreement, and a pull of the base towards the stated weights."""
    pull = jnp.square(weighting.base - prior_K).mean()
    return PRIOR_PULL * pull - agreement(shares(weighting, magnitude_K, varies_K), gradient_GKP)
