"""Moving and Sliding: steer to a disc and stop inside it. Rules and rewards as in gym-hybrid (T. Hirtz, MIT)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.tasks import canvas
from batchwright.envs.tasks.jax_task import OwnTask

ACCELERATE, TURN, BRAKE = 0, 1, 2
HALF_SIDE = 1.0
TARGET_RADIUS = 0.1
STEP_SECONDS = 0.005
MAX_ACCELERATION = 0.5
MAX_TURN_RADIANS = math.pi / 2
BRAKE_SPEED = 0.1
STEP_PENALTY = 0.001
MAX_STEPS = 200
"""The step after these fails the episode; time is observed, so that is an end like any other."""

PICTURE_PIXELS = 300


class MovingState(NamedTuple):
    """CollectState [2], velocity [2], heading in radians, target [2], steps taken, and whether it stopped inside."""

    position: jax.Array
    velocity: jax.Array
    heading: jax.Array
    target: jax.Array
    steps: jax.Array
    stopped_inside: jax.Array


class Moving(OwnTask):
    """Reward: the distance gained, minus 0.001, plus 1 for stopping inside; -1 for leaving or for lateness."""

    steers_velocity = True
    """Whether a turn takes the velocity with it."""

    def init(self, key: Any) -> MovingState:
        place, heading, target = jax.random.split(key, 3)
        limit = HALF_SIDE - TARGET_RADIUS
        return MovingState(
            jax.random.uniform(place, (2,), jnp.float32, -HALF_SIDE, HALF_SIDE),
            jnp.zeros(2, jnp.float32),
            jax.random.uniform(heading, (), jnp.float32, 0.0, 2 * math.pi),
            jax.random.uniform(target, (2,), jnp.float32, -limit, limit),
            jnp.int32(0),
            jnp.bool_(False),
        )

    def step(self, state: MovingState, action: Any, key: Any) -> tuple[MovingState, Any, Any]:
        choice = action["choice"]
        turn = jnp.where(choice == TURN, MAX_TURN_RADIANS * jnp.clip(action["turn"][0], -1.0, 1.0), 0.0)
        heading = (state.heading + turn) % (2 * math.pi)
        direction = jnp.stack((jnp.cos(heading), jnp.sin(heading)))
        speed = _length(state.velocity)
        velocity = speed * direction if self.steers_velocity else state.velocity
        push = jnp.where(choice == ACCELERATE, MAX_ACCELERATION * jnp.clip(action["accelerate"][0], 0.0, 1.0), 0.0)
        # What is left of the speed after braking; below one brake's worth it is a full stop.
        kept = jnp.where(speed < BRAKE_SPEED, 0.0, 1.0 - BRAKE_SPEED / jnp.maximum(speed, BRAKE_SPEED))
        velocity = jnp.where(choice == BRAKE, velocity * kept, velocity + push * direction)
        position = state.position + STEP_SECONDS * velocity
        return self._judge(state, state._replace(position=position, velocity=velocity, heading=heading))

    def _judge(self, before: MovingState, after: MovingState) -> tuple[MovingState, Any, Any]:
        steps = before.steps + 1
        distance = _distance(after)
        success = (distance < TARGET_RADIUS) & (_length(after.velocity) == 0.0)
        failure = ~success & ((jnp.abs(after.position).max() > HALF_SIDE) | (steps > MAX_STEPS))
        gained = _distance(before) - distance - STEP_PENALTY
        reward = jnp.where(failure, -1.0, gained + success)
        return after._replace(steps=steps, stopped_inside=success), reward.astype(jnp.float32), success | failure

    def observe(self, state: MovingState) -> Any:
        distance = _distance(state)
        return jnp.concatenate(
            (
                state.position,
                jnp.stack((_length(state.velocity), jnp.cos(state.heading), jnp.sin(state.heading))),
                state.target,
                jnp.stack((distance, (distance <= TARGET_RADIUS) * 1.0, state.steps / MAX_STEPS)),
            )
        ).astype(jnp.float32)

    def succeeded(self, state: MovingState) -> Any:
        return state.stopped_inside

    def draw(self, state: Any) -> np.ndarray:
        (x, y), heading = np.asarray(state.position, float), float(state.heading)
        picture = canvas.Canvas(PICTURE_PIXELS, PICTURE_PIXELS, (-1.05, -1.05), PICTURE_PIXELS / 2.1, canvas.GREY)
        picture.rectangle((-HALF_SIDE, -HALF_SIDE), (2 * HALF_SIDE, 2 * HALF_SIDE), canvas.WHITE)
        picture.disc(tuple(np.asarray(state.target, float)), TARGET_RADIUS, canvas.PALE_GREEN)
        vx, vy = np.asarray(state.velocity, float)
        picture.line((x, y), (x + 0.06 * vx, y + 0.06 * vy), 0.015, canvas.RED)
        picture.polygon([_ahead(x, y, heading + turn, size) for turn, size in _ARROW], canvas.BLUE)
        return picture.image()


class Sliding(Moving):
    """As Moving, but the velocity keeps its direction when the heading turns; the velocity is observed too."""

    steers_velocity = False

    def observe(self, state: MovingState) -> Any:
        return jnp.concatenate((super().observe(state), state.velocity))


_ARROW = ((0.0, 0.09), (2.5, 0.07), (-2.5, 0.07))
"""Corners of the agent's arrow: angle from its heading, distance from its middle."""


def _ahead(x: float, y: float, angle: float, distance: float) -> tuple[float, float]:
    return x + distance * math.cos(angle), y + distance * math.sin(angle)


def _length(vector: jax.Array) -> jax.Array:
    return jnp.sqrt((vector**2).sum())


def _distance(state: MovingState) -> jax.Array:
    return _length(state.position - state.target)
