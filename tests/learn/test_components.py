"""Both tiers of normalisation and the three tiers of weighting, on figures by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.learn.component_scaling import nested, tier_one, tier_two, varying
from batchwright.learn.weighting import Weighting, agreement, shares, start_weighting, weighting_loss

F = np.float64


def test_tier_one_scales_without_centring_unless_told_otherwise() -> None:
    known = {
        "reward_mean": F([2, -1]),
        "reward_std": F([4, 0.5]),
        "return_std": F([10, 3]),
        "low": F([-6, -2]),
        "high": F([10, 0]),
    }
    wanted = {
        "none": ([0, 0], [1, 1]),
        "scale": ([0, 0], [10, 3]),
        "adaptive": ([0, 0], [10, 3]),
        "z-score": ([2, -1], [4, 0.5]),
        "min-max": ([-6, -2], [16, 2]),
    }
    for method, (shift, scale) in wanted.items():
        found = tier_one(method, **known)
        assert (found[0].tolist(), found[1].tolist()) == (shift, scale), method


def test_a_component_without_spread_is_left_as_it_is() -> None:
    shift, scale = tier_one("scale", F([3]), F([0]), F([0]), F([3]), F([3]))
    assert (shift[0], scale[0]) == (0, 1)


def test_tier_two_brings_spreads_to_their_median_by_at_most_ten() -> None:
    # Median of 1, 2, 400 is 2: factors 2, 1, and 0.005 clipped to 0.1.
    assert tier_two(F([1, 2, 400]), np.ones(3, bool)).tolist() == [2, 1, 0.1]
    # Median of 0.01 and 1 is 0.505: 50.5 is clipped to 10. What does not vary takes no part.
    assert tier_two(F([0.01, 1, 7]), np.array([True, True, False])).tolist() == [10, 0.505, 1]


def test_a_constant_teaches_nothing_unless_episodes_can_be_ended() -> None:
    low, high = F([0, 1, -1]), F([0, 1, 1])
    assert varying(low, high, terminates=False).tolist() == [False, False, True]
    # A point for every step survived pays for surviving; nothing never does.
    assert varying(low, high, terminates=True).tolist() == [False, True, True]


def test_a_sum_of_other_components_is_found_with_its_coefficients() -> None:
    draw = np.random.default_rng(0)
    a, b, c = draw.normal(size=(3, 200)).astype(np.float32)
    assert nested(np.stack([a, b, c], -1)) is None
    whole, parts = nested(np.stack([a, b, c, a + 2 * b], -1)) or (None, {})
    assert whole == 3
    assert parts == pytest.approx({0: 1.0, 1: 2.0}, rel=1e-3)
    # A constant is no relation.
    assert nested(np.stack([a, np.ones_like(a)], -1)) is None


def test_shares_are_base_times_attention_renormalised_on_a_floor() -> None:
    # Base 1/4, 3/4; attention of logits (ln 3, 0) 3/4, 1/4: product 3/16, 3/16 -> even.
    even = Weighting(jnp.log(jnp.float32([1, 3])), jnp.zeros((2, 2)), jnp.log(jnp.float32([3, 1])))
    np.testing.assert_allclose(shares(even, jnp.ones(2), jnp.ones(2)), [0.5, 0.5], rtol=1e-5)
    # Attention by magnitude: relative magnitudes 0.8, 0.2 through 5 x identity give logits 4 and 1.
    tilted = Weighting(jnp.zeros(2), 5 * jnp.eye(2), jnp.zeros(2))
    large = np.exp(4) / (np.exp(4) + np.exp(1))
    # Floor 0.02 each: 0.02 + 0.96 x product.
    np.testing.assert_allclose(
        shares(tilted, jnp.float32([4, 1]), jnp.ones(2)), [0.02 + 0.96 * large, 0.02 + 0.96 * (1 - large)], rtol=1e-5
    )


def test_no_share_dies_and_what_cannot_teach_has_none() -> None:
    lost = Weighting(jnp.float32([100, 0, 0]), jnp.zeros((3, 3)), jnp.zeros(3))
    found = shares(lost, jnp.ones(3), jnp.float32([1, 1, 0]))
    np.testing.assert_allclose(found, [0.98, 0.02, 0], atol=1e-5)


def test_the_start_is_the_stated_weights() -> None:
    start = start_weighting(F([3, 1]))
    np.testing.assert_allclose(jax.nn.softmax(start.base), [0.75, 0.25], rtol=1e-5)


def test_agreement_is_the_cosine_between_halves() -> None:
    # Component 0 points along x in both halves; component 1 is noise: +y in one half, -y in the other.
    gradient = jnp.float32([[[1, 0], [0, 1]], [[1, 0], [0, -1]]])
    # All on component 0: (1, 0) against the other half's sum (1, -1) or (1, 1): cosine 1/sqrt 2.
    assert float(agreement(jnp.float32([1, 0]), gradient)) == pytest.approx(2**-0.5, rel=1e-5)
    # All on the noise: (0, 1) against (1, -1): -1/sqrt 2.
    assert float(agreement(jnp.float32([0, 1]), gradient)) == pytest.approx(-(2**-0.5), rel=1e-5)


def test_the_weighting_has_a_gradient_away_from_noise_and_its_base_is_pulled_to_the_prior() -> None:
    gradient = jnp.float32([[[1, 0], [0, 1]], [[1, 0], [0, -1]]])
    start = start_weighting(F([1, 1]))
    slope = jax.grad(weighting_loss)(start, jnp.ones(2), jnp.ones(2), gradient, start.base)
    assert float(slope.base[0]) < 0 < float(slope.base[1])
    assert float(slope.bias[0]) < 0 and float(jnp.abs(slope.attention).sum()) > 0
    still = jnp.ones((2, 2, 2))  # all agree: only the prior is left
    moved = start._replace(base=start.base + jnp.float32([1, 0]))
    slope = jax.grad(weighting_loss)(moved, jnp.ones(2), jnp.ones(2), still, start.base)
    np.testing.assert_allclose(slope.base, [1e-3, 0], atol=1e-6)
