"""Return decomposition against exhaustive enumeration: every draw that can happen, with its chance."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.learn.return_decomposition import decomposition_loss, ircr_reward, mean_and_variance, rrd_loss

PREDICTED = np.array([0.5, -1.0, 2.0, 0.25])
EPISODE_RETURN = 3.0
LOSS = jax.jit(decomposition_loss, static_argnames="unbiased")
"""One program for each shape, instead of one for each operation."""


def all_draws(length: int, timesteps: int) -> np.ndarray:
    """Every ordered draw of K timesteps, each equally likely: with replacement only where K > T."""
    if timesteps > length:
        return np.array(list(itertools.product(range(length), repeat=timesteps)))
    return np.array(list(itertools.permutations(range(length), timesteps)))


def expected_loss(predicted: np.ndarray, timesteps: int, unbiased: bool) -> float:
    draws = all_draws(len(predicted), timesteps)
    count = len(draws)
    found = LOSS(
        jnp.asarray(predicted[draws], jnp.float32),
        jnp.full(count, EPISODE_RETURN),
        jnp.full(count, len(predicted)),
        unbiased=unbiased,
    )
    return float(found.loss)


def full_loss(predicted: np.ndarray) -> float:
    return float((predicted.mean() - EPISODE_RETURN / len(predicted)) ** 2)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("timesteps", [2, 3, 4, 5])
def test_the_unbiased_form_has_exactly_the_expectation_of_the_full_one(length: int, timesteps: int) -> None:
    predicted = PREDICTED[:length]
    assert expected_loss(predicted, timesteps, unbiased=True) == pytest.approx(full_loss(predicted), abs=1e-6)


@pytest.mark.parametrize(("length", "timesteps"), [(4, 1), (4, 2), (4, 3), (3, 5), (2, 3)])
def test_the_plain_form_is_the_full_one_plus_the_variance_of_the_mean(length: int, timesteps: int) -> None:
    predicted = PREDICTED[:length]
    means = predicted[all_draws(length, timesteps)].mean(1)
    assert means.var() > 0.01
    assert expected_loss(predicted, timesteps, unbiased=False) == pytest.approx(
        full_loss(predicted) + means.var(), abs=1e-6
    )


def test_all_timesteps_at_once_leave_no_variance_to_subtract() -> None:
    for unbiased in (False, True):
        assert expected_loss(PREDICTED, 4, unbiased) == pytest.approx(full_loss(PREDICTED), abs=1e-6)


def test_the_correction_of_the_wrong_way_of_sampling_is_biased() -> None:
    """Taking c = 1 - K/T for draws with replacement would miss the full loss: the coefficient follows the draw."""
    predicted = PREDICTED[:2]
    draws = all_draws(2, 3)
    mean, variance = mean_and_variance(jnp.asarray(predicted[draws], jnp.float32))
    wrong = jnp.square(mean - EPISODE_RETURN / 2) - (1 - 3 / 2) * variance / 3
    assert abs(float(wrong.mean()) - full_loss(predicted)) > 0.1


def test_one_timestep_has_no_unbiased_form() -> None:
    with pytest.raises(ValueError, match="K >= 2"):
        expected_loss(PREDICTED, 1, unbiased=True)


def test_the_full_decomposition_counts_the_timesteps_of_its_mask_only() -> None:
    padded = jnp.asarray([[1.0, 3.0, 99.0], [2.0, 4.0, 6.0]])
    mask = jnp.asarray([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    # Means 2 and 4 against 6/2 = 3 and 6/3 = 2: squares 1 and 4. Variances 2 and 4.
    found = decomposition_loss(
        padded, jnp.asarray([6.0, 6.0]), jnp.asarray([2, 3]), unbiased=False, timestep_mask_SK=mask
    )
    assert float(found.loss) == pytest.approx(2.5)
    assert float(found.variance) == pytest.approx(3.0)
    assert float(found.predicted) == pytest.approx(3.0)


def test_predictions_are_on_the_scale_of_one_step() -> None:
    """A constant prediction fits best at return / length: 12 over 4 steps is 3."""

    def loss(constant: jax.Array) -> jax.Array:
        return decomposition_loss(jnp.full((1, 2), constant), jnp.asarray([12.0]), jnp.asarray([4]), unbiased=True).loss

    assert float(loss(jnp.float32(3.0))) == 0.0
    assert float(jax.grad(loss)(jnp.float32(2.0))) == pytest.approx(-2.0)


def test_rows_reach_the_network_flat_and_come_back_by_subsequence() -> None:
    obs = jnp.arange(6.0).reshape(2, 3, 1)
    action, after = jnp.zeros((2, 3, 1)), obs

    def predict(params: float, o: jax.Array, a: jax.Array, n: jax.Array) -> jax.Array:
        assert o.shape == (6, 1)
        return params * o[:, 0]

    # Means 1 and 4 (rows 0..2 and 3..5), targets 3/3 = 1 and 6/3 = 2: squares 0 and 4.
    found = rrd_loss(predict, 1.0, obs, action, after, jnp.asarray([3.0, 6.0]), jnp.asarray([3, 3]))
    assert float(found.loss) == pytest.approx(2.0)


def test_guidance_is_the_place_of_a_return_among_those_in_the_buffer() -> None:
    assert ircr_reward(np.array([1.0, 3.0, 5.0]), 1.0, 5.0).tolist() == [0.0, 0.5, 1.0]
    assert ircr_reward(np.array([2.0]), 2.0, 2.0).tolist() == [0.0]
