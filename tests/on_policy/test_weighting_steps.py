"""Steps of learned weights: a push away from weights that serve the target dies out."""

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.learn.weighting import tiers
from batchwright.on_policy.component_weighting import start_weighting_state, take_step


def test_weights_that_serve_the_target_do_not_swing_although_components_oppose_each_other() -> None:
    """The gradient of one component takes back most of the other's: the cosine changes fast with the weights."""
    draw, stated, magnitude = np.random.default_rng(0), jnp.float32([0.15, 0.85]), jnp.float32([0.5, 0.5])
    expected = np.zeros((2, 20))
    expected[0, 0], expected[1, :2] = 1.0, (-0.3, 0.25)
    state = start_weighting_state(2, 2)
    state = state._replace(params=state.params._replace(base=jnp.float32([1e-4, -1e-4])))  # as rounding leaves it
    step = jax.jit(take_step)
    for _ in range(20):
        halves = jnp.asarray(expected + 0.1 * draw.normal(size=(2, *expected.shape)), jnp.float32)
        state = step(state, magnitude, stated, halves, stated)
    np.testing.assert_allclose(tiers(state.params, magnitude, stated).product, stated, atol=1e-3)


def test_wrong_weights_move_to_those_of_the_target() -> None:
    target, stated, magnitude = jnp.float32([0.15, 0.85]), jnp.float32([0.5, 0.5]), jnp.float32([0.5, 0.5])
    halves = jnp.broadcast_to(jnp.float32([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]), (2, 2, 3))
    state, step = start_weighting_state(2, 2), jax.jit(take_step)
    for _ in range(100):
        state = step(state, magnitude, stated, halves, target)
    np.testing.assert_allclose(tiers(state.params, magnitude, stated).product, target, atol=0.1)
