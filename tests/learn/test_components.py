"""Both tiers of balancing and the three tiers of weighting, on figures by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.learn.component_scaling import nested, tier_one, tier_two, varying
from batchwright.learn.weighting import (
    InnerProducts,
    Weighting,
    alignment,
    expected_products,
    inner_products,
    merge,
    start_inner_products,
    start_weighting,
    tiers,
    weighting_loss,
)

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


def products(gradient_GCP: jax.Array) -> InnerProducts:
    return merge(start_inner_products(gradient_GCP.shape[1]), gradient_GCP, jnp.bool_(True))


def expected(gradient_GCP: jax.Array) -> jax.Array:
    return expected_products(products(gradient_GCP))


def cosine(shares: list[float], expected_CC: jax.Array, target_C: jax.Array) -> float:
    return float(alignment(jnp.float32(shares), expected_CC, 0 * expected_CC, target_C))


def loss_slope(weighting: Weighting, stated_K: jax.Array, expected_CC: jax.Array, target_C: jax.Array) -> Weighting:
    ones = jnp.ones(len(stated_K))
    return jax.grad(weighting_loss)(weighting, ones, stated_K, expected_CC, 0 * expected_CC, target_C)


def test_the_product_is_base_times_attention_renormalised_with_a_fifth_of_the_stated_shares() -> None:
    # Stated 1/2 each; base logits ln 3 and 0: 3/4, 1/4. Attention of logits (0, ln 3): 1/4, 3/4. Product: even.
    even = Weighting(jnp.log(jnp.float32([3, 1])), jnp.zeros((2, 2)), jnp.log(jnp.float32([1, 3])))
    found = tiers(even, jnp.ones(2), jnp.float32([0.5, 0.5]))
    np.testing.assert_allclose(found.base, [0.75, 0.25], rtol=1e-5)
    np.testing.assert_allclose(found.attention, [0.25, 0.75], rtol=1e-5)
    np.testing.assert_allclose(found.product, [0.5, 0.5], rtol=1e-5)
    # Attention by magnitude: relative magnitudes 0.8, 0.2 through 5 x identity give logits 4 and 1.
    tilted = Weighting(jnp.zeros(2), 5 * jnp.eye(2), jnp.zeros(2))
    large = np.exp(4) / (np.exp(4) + np.exp(1))
    shares = tiers(tilted, jnp.float32([4, 1]), jnp.float32([0.5, 0.5])).product
    np.testing.assert_allclose(shares, [0.1 + 0.8 * large, 0.1 + 0.8 * (1 - large)], rtol=1e-5)


def test_weights_begin_at_the_stated_shares_and_no_component_dies() -> None:
    stated = jnp.float32([0.999, 0.001, 0.0])
    np.testing.assert_allclose(tiers(start_weighting(3), jnp.ones(3), stated).product, stated, rtol=1e-4)
    lost = start_weighting(3)._replace(base=jnp.float32([0, 100, 100]))
    # A fifth of 0.999 stays; what cannot teach anything, or is stated as 0, has no share.
    np.testing.assert_allclose(tiers(lost, jnp.ones(3), stated).product, [0.1998, 0.8002, 0], atol=1e-5)


def test_inner_products_between_halves_leave_out_the_noise() -> None:
    # Signal (1, 0) with noise (0, 1) in one half and (0, -1) in the other: the whole rollout has (1, 0).
    gradient = jnp.float32([[[1, 1]], [[1, -1]]])
    signal, noise = inner_products(gradient)
    # (1, 1) . (1, -1) = 0 is |signal|^2 - |noise|^2 by this one draw; of (first - second) / 2 = (0, 1) it is 1.
    assert (float(signal[0, 0]), float(noise[0, 0])) == (0.0, 1.0)
    np.testing.assert_allclose(inner_products(jnp.float32([[[1, 0]], [[1, 0]]])), [[[1.0]], [[0.0]]])


def test_inner_products_are_averaged_over_about_ten_rollouts_and_not_where_nothing_is_seen() -> None:
    ones = jnp.ones((2, 1, 1))
    first = products(ones)
    second = merge(first, 3 * ones, jnp.bool_(True))
    assert float(second.signal[0, 0]) == pytest.approx((1 + 9) / 2)
    assert merge(second, 7 * ones, jnp.bool_(False)) == second
    late = second._replace(rollouts=jnp.int32(100))
    assert float(merge(late, 0 * ones, jnp.bool_(True)).signal[0, 0]) == pytest.approx(0.9 * 5)


def test_alignment_is_the_cosine_with_the_target() -> None:
    right_angles = expected(jnp.stack([jnp.eye(2)] * 2))
    total = jnp.ones(2) / 2**0.5
    assert cosine([0.5, 0.5], right_angles, total) == pytest.approx(1.0, rel=1e-5)
    assert cosine([1, 0], right_angles, total) == pytest.approx(2**-0.5, rel=1e-5)
    # Against a component that points the other way: all on it is -1.
    opposed = expected(jnp.float32([[[1, 0], [-1, 0]]] * 2))
    assert cosine([0, 1], opposed, jnp.float32([1, 0])) == pytest.approx(-1.0, rel=1e-5)


def test_expected_products_have_no_negative_part() -> None:
    # Halves that disagree: the estimate of the squared length is -1; what is left is 0.05 x (-1 + 1) = 0.
    assert float(expected(jnp.float32([[[1.0]], [[-1.0]]]))[0, 0]) == pytest.approx(0.0, abs=1e-6)


def test_with_the_total_as_target_nothing_pulls_away_from_the_right_weights_however_noisy_gradients_are() -> None:
    draw = np.random.default_rng(0)
    noisy = expected(jnp.asarray(draw.normal(size=(2, 3, 500)) + draw.normal(size=(3, 500)), jnp.float32))
    stated = jnp.float32([0.6, 0.3, 0.1])
    slope = loss_slope(start_weighting(3), stated, noisy, stated)
    np.testing.assert_allclose(slope.base, 0, atol=1e-6)
    wrong = jnp.float32([0.1, 0.3, 0.6])
    slope = loss_slope(start_weighting(3), wrong, noisy, stated)
    assert float(slope.base[0]) < 0 < float(slope.base[2])


def test_the_weighting_has_a_gradient_towards_what_serves_the_target_and_its_base_is_pulled_to_the_stated() -> None:
    # Columns: a component along the target, one across it, the target itself.
    helps = expected(jnp.float32([[[1, 0], [0, 1], [1, 0]]] * 2))
    target, start, stated = jnp.float32([0, 0, 1]), start_weighting(2), jnp.float32([0.5, 0.5])
    slope = loss_slope(start, stated, helps, target)
    assert float(slope.base[0]) < 0 < float(slope.base[1])
    assert float(slope.bias[0]) < 0 and float(jnp.abs(slope.attention).sum()) > 0
    still = expected(jnp.ones((2, 3, 2)))  # all agree: only the pull is left
    moved = start._replace(base=jnp.float32([1, 0]))
    slope = loss_slope(moved, stated, still, target)
    np.testing.assert_allclose(slope.base, [1e-3, 0], atol=1e-6)
