"""Losses of SAC and DQN against figures worked out by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from batchwright.replay.dqn import double_q_target, huber, taken_value
from batchwright.replay.replay_state import polyak
from batchwright.replay.sac import actor_loss, critic_loss, soft_target, temperature_loss


def test_a_termination_ends_the_target_and_a_time_limit_does_not() -> None:
    value = jnp.asarray([[10.0, 10.0], [8.0, 12.0]])
    found = soft_target(
        jnp.asarray([1.0, 1.0]), jnp.asarray([False, True]), value, jnp.asarray([-2.0, -2.0]), jnp.float32(0.5), 0.9
    )
    # 1 + 0.9 (min(10, 8) + 0.5 x 2) = 9.1; the second row terminated.
    assert found.tolist() == pytest.approx([9.1, 1.0])


def test_no_gradient_flows_through_the_target() -> None:
    def loss(value: jax.Array) -> jax.Array:
        return soft_target(jnp.ones(1), jnp.zeros(1, bool), value, jnp.zeros(1), jnp.float32(1.0), 0.9).sum()

    assert jax.grad(loss)(jnp.ones((2, 1))).tolist() == [[0.0], [0.0]]


def test_the_critic_loss_is_half_the_squares_of_both() -> None:
    # Errors (1, -1) and (3, 1): 0.5 x mean(1 + 9, 1 + 1) = 3.
    assert float(critic_loss(jnp.asarray([[2.0, 0.0], [4.0, 2.0]]), jnp.asarray([1.0, 1.0]))) == pytest.approx(3.0)


def test_the_actor_follows_the_smaller_critic() -> None:
    found = actor_loss(jnp.asarray([-1.0, 1.0]), jnp.asarray([[5.0, 2.0], [3.0, 4.0]]), jnp.float32(0.5))
    assert float(found) == pytest.approx(((-0.5 - 3.0) + (0.5 - 2.0)) / 2)


@pytest.mark.parametrize(("entropy", "grows"), [(-2.0, True), (0.5, False)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target(entropy: float, grows: bool) -> None:
    gradient = jax.grad(temperature_loss)(jnp.float32(0.0), jnp.asarray([-entropy]), -1.0)
    assert (float(gradient) < 0) is grows


def test_the_online_network_chooses_and_the_target_network_values() -> None:
    online, target = jnp.asarray([[1.0, 2.0], [5.0, 2.0]]), jnp.asarray([[30.0, 10.0], [20.0, 40.0]])
    found = double_q_target(jnp.asarray([1.0, 1.0]), jnp.asarray([False, True]), online, target, 0.5)
    assert found.tolist() == [1.0 + 0.5 * 10.0, 1.0]


def test_the_value_of_the_taken_choice_is_learned() -> None:
    assert taken_value(jnp.asarray([[1.0, 2.0], [3.0, 4.0]]), jnp.asarray([[1.0], [0.0]])).tolist() == [2.0, 3.0]


def test_huber_is_squared_near_and_linear_far() -> None:
    assert float(huber(jnp.asarray([0.5]), 1.0)) == pytest.approx(0.125)
    assert float(huber(jnp.asarray([-3.0]), 1.0)) == pytest.approx(2.5)
    assert float(huber(jnp.asarray([-3.0]), 2.0)) == pytest.approx(4.0)  # 2 x (3 - 1)
    assert float(huber(jnp.asarray([-3.0]), 5.0)) == pytest.approx(4.5)


def test_polyak_moves_by_its_rate_and_copies_at_one() -> None:
    assert float(polyak(jnp.float32(1.0), jnp.float32(3.0), 0.25)) == pytest.approx(1.5)
    assert float(polyak(jnp.float32(1.0), jnp.float32(3.0), 1.0)) == 3.0
