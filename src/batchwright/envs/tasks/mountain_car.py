"""MountainCarContinuous with Gymnasium's dynamics: too weak for the hill, so swing first (Moore 1990)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batchwright.envs.tasks.jax_task import OwnTask

LEFT_WALL = -1.2
RIGHT_WALL = 0.6
GOAL = 0.45
MAX_SPEED = 0.07
POWER = 0.0015
SLOPE = 0.0025


class CarState(NamedTuple):
    """CollectState and velocity; scalars."""

    position: jax.Array
    velocity: jax.Array


class MountainCarContinuous(OwnTask):
    """Reward 100 at the goal, minus a tenth of the squared action at every step."""

    def init(self, key: Any) -> CarState:
        return CarState(jax.random.uniform(key, (), jnp.float32, -0.6, -0.4), jnp.float32(0.0))

    def step(self, state: CarState, action: Any, key: Any) -> tuple[CarState, Any, Any]:
        force = jnp.clip(action[0], -1.0, 1.0)
        velocity = state.velocity + force * POWER - SLOPE * jnp.cos(3 * state.position)
        velocity = jnp.clip(velocity, -MAX_SPEED, MAX_SPEED)
        position = jnp.clip(state.position + velocity, LEFT_WALL, RIGHT_WALL)
        velocity = jnp.where((position == LEFT_WALL) & (velocity < 0), 0.0, velocity)
        terminated = (position >= GOAL) & (velocity >= 0)
        reward = jnp.where(terminated, 100.0, 0.0) - 0.1 * action[0] ** 2
        return CarState(position, velocity), reward.astype(jnp.float32), terminated

    def observe(self, state: CarState) -> Any:
        return jnp.stack(state)
