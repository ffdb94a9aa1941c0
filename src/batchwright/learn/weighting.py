"""Three-tier learnable weighting of advantages: base weights, attention, their product with a floor.

What it is trained by (docs/adr/0012): a step of the policy along the weighted gradient should improve a stated target.
The measure is the cosine between the expected weighted gradient and the expected gradient of the target. Inner products
between gradients from different halves of the environments estimate it without the noise that one half shares with
itself; it has a gradient at ratio 1.
"""

# K components, C = K or K + 1 columns (a success signal follows the components), P parameters, G = 2 halves.

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

FLOOR = 0.2
"""Of its stated share, which every component keeps."""
PRIOR_PULL = 1e-3
RATE = 0.3
ADAM_EPS = 1e-3
"""Far above rounding: where the stated weights serve the target already, nothing moves."""
MAX_NORM = 1.0
KEPT_SHARE = 0.9
"""What the inner products keep of their average from one rollout to the next: about ten rollouts are remembered."""
NOISE_SHARE = 0.0
"""Share of a rollout's gradient noise that counts like signal; docs/adr/0012 has the figures of 1."""
LEAST_SIGNAL = 0.05
"""Share of a whole rollout's inner products that counts as signal at least."""


class Weighting(NamedTuple):
    """Parameters of the tiers; all 0 at the start, where the shares are the stated ones."""

    base: jax.Array  # [K] logits added to those of the stated shares
    attention: jax.Array  # [K, K]: from relative magnitudes to logits
    bias: jax.Array  # [K]


class Tiers(NamedTuple):
    """The three tiers; each [K] sums to 1, 0 where a component cannot teach anything."""

    base: jax.Array
    attention: jax.Array
    product: jax.Array


class InnerProducts(NamedTuple):
    """Of policy gradients, averaged over rollouts [C, C]."""

    signal: jax.Array
    """Between halves: what is expected, without noise."""
    noise: jax.Array
    """Of the noise of a whole rollout's gradient."""
    rollouts: jax.Array
    """How many they are of."""


def start_weighting(size: int) -> Weighting:
    return Weighting(jnp.zeros(size), jnp.zeros((size, size)), jnp.zeros(size))


def start_inner_products(columns: int) -> InnerProducts:
    zeros = jnp.zeros((columns, columns), jnp.float32)
    return InnerProducts(zeros, zeros, jnp.zeros((), jnp.int32))


def tiers(weighting: Weighting, magnitude_K: jax.Array, stated_K: jax.Array) -> Tiers:
    """Base x attention over the mean |A|, renormalised; a fifth of the stated shares [K] is fixed."""
    teaches = stated_K > 0
    relative = magnitude_K / jnp.maximum(magnitude_K.sum(), 1e-8)
    base = _softmax(jnp.log(jnp.maximum(stated_K, 1e-12)) + weighting.base, teaches)
    attention = _softmax(weighting.attention @ relative + weighting.bias, teaches)
    product = base * attention
    product = product / jnp.maximum(product.sum(), 1e-12)
    return Tiers(base, attention, FLOOR * stated_K + (1.0 - FLOOR) * product)


def inner_products(gradient_GCP: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(signal, noise) [C, C] of one rollout, from the gradients of its two halves.

    With halves s + n1 and s + n2 the product of different halves is expected to be |s|^2. The whole rollout's gradient
    is their mean: its noise (n1 + n2) / 2 is as large as that of (n1 - n2) / 2, in which the signal is gone.
    """
    first, second = gradient_GCP
    across = first @ second.T
    apart = (first - second) / 2
    return (across + across.T) / 2, apart @ apart.T


def merge(products: InnerProducts, gradient_GCP: jax.Array, counts: jax.Array) -> InnerProducts:
    """The averages with one more rollout, where it `counts`; the first ones weigh more, so that none starts at 0."""
    rollouts = products.rollouts + 1
    share = jnp.maximum(1.0 - KEPT_SHARE, 1.0 / rollouts)
    signal, noise = inner_products(gradient_GCP)
    merged = InnerProducts(
        products.signal + share * (signal - products.signal),
        products.noise + share * (noise - products.noise),
        rollouts,
    )
    kept: InnerProducts = jax.tree.map(lambda new, old: jnp.where(counts, new, old), merged, products)
    return kept


def expected_products(products: InnerProducts) -> jax.Array:
    """Inner products [C, C] of expected gradients: the estimate without its negative part, which no gradients have.

    A share of the whole rollout's products keeps lengths away from 0. Every cosine made of them is at most 1, and 1
    only for the target's own weights: noise may blur where they are, but never moves weights that are right.
    """
    values, vectors = jnp.linalg.eigh(products.signal)
    positive: jax.Array = (vectors * jnp.maximum(values, 0.0)) @ vectors.T
    return positive + LEAST_SIGNAL * (products.signal + products.noise)


def alignment(shares_K: jax.Array, expected_CC: jax.Array, noise_CC: jax.Array, target_C: jax.Array) -> jax.Array:
    """Cosine between the mixture's expected gradient and that of the target, a weighted sum [C] of the columns."""
    size = shares_K.shape[0]
    noisy = expected_CC + NOISE_SHARE * noise_CC
    lengths = (shares_K @ noisy[:size, :size] @ shares_K) * (target_C @ expected_CC @ target_C)
    together: jax.Array = shares_K @ expected_CC[:size] @ target_C
    return together / jnp.sqrt(lengths + 1e-20)


def weighting_loss(
    weighting: Weighting,
    magnitude_K: jax.Array,
    stated_K: jax.Array,
    expected_CC: jax.Array,
    noise_CC: jax.Array,
    target_C: jax.Array,
) -> jax.Array:
    """What the weighting minimises: the squared distance of the alignment from 1, and a pull to the stated weights.

    Squared, because Adam's steps have one length however small a gradient is: where the weights serve the target, and
    components oppose each other, they would swing around it.
    """
    shares = tiers(weighting, magnitude_K, stated_K).product
    missing = 1.0 - alignment(shares, expected_CC, noise_CC, target_C)
    return PRIOR_PULL * jnp.square(weighting.base).mean() + jnp.square(missing) / 2


def _softmax(logits_K: jax.Array, teaches_K: jax.Array) -> jax.Array:
    high = jnp.where(teaches_K, logits_K, -jnp.inf).max(initial=-1e30)
    powers = jnp.where(teaches_K, jnp.exp(jnp.minimum(logits_K - high, 0.0)), 0.0)
    return powers / jnp.maximum(powers.sum(), 1e-12)
