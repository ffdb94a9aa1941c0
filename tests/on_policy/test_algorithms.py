"""The objectives row by row, against figures worked out by hand."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.core.errors import UserError
from batchwright.on_policy.algorithms import ON_POLICY_ALGORITHMS, find_algorithm, kl_estimate, value_loss
from batchwright.on_policy.on_policy_state import Hyper

LN2 = math.log(2)
HYPER = Hyper(*[np.float32(0.0)] * 14)._replace(clip_range=np.float32(0.2))
PPO, A2C, REINFORCE = (find_algorithm(name) for name in ("ppo", "a2c", "reinforce"))


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        # clip 0.2; gradient is d loss / d log-prob = -ratio x advantage where the unclipped term is taken, else 0
        (1.0, 2.0, -2.0, -2.0),
        (1.5, 2.0, -2.4, 0.0),  # above, good action: clipped at 1.2
        (1.5, -2.0, 3.0, 3.0),  # above, bad action: still pushed back
        (0.5, 2.0, -1.0, -1.0),  # below, good action: still pulled up
        (0.5, -2.0, 1.6, 0.0),  # below, bad action: clipped at 0.8
    ],
)
def test_ppo_clips_on_the_side_where_it_would_go_too_far(
    ratio: float, advantage: float, loss: float, gradient: float
) -> None:
    def row(log_prob: jax.Array) -> jax.Array:
        return PPO.policy_loss(log_prob, jnp.float32(0.0), jnp.float32(advantage), HYPER)

    value, grad = jax.value_and_grad(row)(jnp.float32(math.log(ratio)))
    assert float(value) == pytest.approx(loss, rel=1e-6)
    assert float(grad) == pytest.approx(gradient, rel=1e-6, abs=1e-7)


def test_at_ratio_1_all_three_have_the_gradient_of_log_prob_times_advantage() -> None:
    for name, algorithm in ON_POLICY_ALGORITHMS.items():
        loss = lambda x, a=algorithm: a.policy_loss(x, jnp.float32(-1.3), jnp.float32(0.7), HYPER)  # noqa: E731
        grad = jax.grad(loss)(jnp.float32(-1.3))
        assert float(grad) == pytest.approx(-0.7), name


def test_a2c_and_reinforce_by_hand() -> None:
    # log-prob ln 2 against 0 at collection: ratio 2; advantage 3.
    one = np.float32(LN2), np.float32(0), np.float32(3)
    assert float(A2C.policy_loss(*one, HYPER)) == pytest.approx(-3 * LN2)
    assert float(REINFORCE.policy_loss(*one, HYPER)) == pytest.approx(-6)


def test_value_loss_takes_the_larger_error_of_the_two() -> None:
    # value 3, old 1, target 0, clip 0.5 -> clipped value 1.5: errors 9 and 2.25
    assert float(value_loss(np.float32(3), np.float32(0), np.float32(1), 0.5)) == 9.0
    # target 3: errors 0 and 2.25, so the change past the clip is not rewarded
    assert float(value_loss(np.float32(3), np.float32(3), np.float32(1), 0.5)) == 2.25
    assert float(value_loss(np.float32(3), np.float32(1))) == 4.0


def test_kl_estimate_by_hand() -> None:
    # ratio 2: (2 - 1) - ln 2
    assert float(kl_estimate(np.float32(LN2), np.float32(0))) == pytest.approx(1 - LN2, rel=1e-5)
    assert float(kl_estimate(np.float32(-3.2), np.float32(-3.2))) == 0.0


@given(st.floats(-20, 5, width=32), st.floats(-20, 5, width=32))
def test_kl_estimate_is_never_negative(now: float, then: float) -> None:
    assert float(kl_estimate(np.float32(now), np.float32(then))) >= 0.0


def test_an_unknown_algorithm_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="unknown on-policy algorithm 'pp0'"):
        find_algorithm("pp0")
