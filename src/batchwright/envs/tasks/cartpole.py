"""CartPole with Gymnasium's dynamics: a pole on a cart (Barto, Sutton, Anderson 1983)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batchwright.envs.tasks.jax_task import OwnTask

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_POLE_LENGTH = 0.5
FORCE = 10.0
STEP_SECONDS = 0.02
FAIL_POSITION = 2.4
FAIL_RADIANS = math.radians(12)


class CartPoleState(NamedTuple):
    """CollectState and velocity of the cart, angle and angular velocity of the pole; scalars."""

    position: jax.Array
    velocity: jax.Array
    angle: jax.Array
    spin: jax.Array


class CartPole(OwnTask):
    """Reward 1 per step until the pole falls or the cart leaves the track."""

    def init(self, key: Any) -> CartPoleState:
        return CartPoleState(*jax.random.uniform(key, (4,), jnp.float32, -0.05, 0.05))

    def step(self, state: CartPoleState, action: Any, key: Any) -> tuple[CartPoleState, Any, Any]:
        position, velocity, angle, spin = state
        push = jnp.where(action == 1, FORCE, -FORCE)
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        common = (push + POLE_MASS * HALF_POLE_LENGTH * spin**2 * sine) / TOTAL_MASS
        inertia = HALF_POLE_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / TOTAL_MASS)
        spin_rate = (GRAVITY * sine - cosine * common) / inertia
        acceleration = common - POLE_MASS * HALF_POLE_LENGTH * spin_rate * cosine / TOTAL_MASS
        after = CartPoleState(
            position + STEP_SECONDS * velocity,
            velocity + STEP_SECONDS * acceleration,
            angle + STEP_SECONDS * spin,
            spin + STEP_SECONDS * spin_rate,
        )
        terminated = (jnp.abs(after.position) > FAIL_POSITION) | (jnp.abs(after.angle) > FAIL_RADIANS)
        return after, jnp.float32(1.0), terminated

    def observe(self, state: CartPoleState) -> Any:
        return jnp.stack(state)
