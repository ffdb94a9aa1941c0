"""Pendulum with Gymnasium's dynamics: swing up and hold, torque limited."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batchwright.envs.tasks.jax_task import OwnTask

GRAVITY = 10.0
STEP_SECONDS = 0.05
MAX_SPEED = 8.0
MAX_TORQUE = 2.0


class PendulumState(NamedTuple):
    """Angle (0 is upright) and angular velocity; scalars."""

    angle: jax.Array
    speed: jax.Array


class Pendulum(OwnTask):
    """Reward is minus the cost of angle, speed and torque; never terminates."""

    def init(self, key: Any) -> PendulumState:
        high = jnp.asarray((math.pi, 1.0), jnp.float32)
        return PendulumState(*jax.random.uniform(key, (2,), jnp.float32, -high, high))

    def step(self, state: PendulumState, action: Any, key: Any) -> tuple[PendulumState, Any, Any]:
        torque = jnp.clip(action[0], -MAX_TORQUE, MAX_TORQUE)
        from_upright = (state.angle + math.pi) % (2 * math.pi) - math.pi
        cost = from_upright**2 + 0.1 * state.speed**2 + 0.001 * torque**2
        rate = 1.5 * GRAVITY * jnp.sin(state.angle) + 3.0 * torque
        speed = jnp.clip(state.speed + rate * STEP_SECONDS, -MAX_SPEED, MAX_SPEED)
        after = PendulumState(state.angle + speed * STEP_SECONDS, speed)
        return after, -cost, jnp.bool_(False)

    def observe(self, state: PendulumState) -> Any:
        return jnp.stack((jnp.cos(state.angle), jnp.sin(state.angle), state.speed))
