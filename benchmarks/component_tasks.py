"""A small task for `components.py`: a sparse success, a dense shaping that helps, and an effort that outweighs both."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.spaces import Box
from batchwright.envs.tasks.jax_task import JaxTask

DISTANCE, RADIUS, STRIDE = 1.5, 0.2, 0.1
PROGRESS, EFFORT = 0.1, 0.5


class Trip(NamedTuple):
    place: jax.Array
    goal: jax.Array
    arrived: jax.Array


class Courier(JaxTask):
    """A point walks to a goal: `arrive` pays 1 there, `progress` 0.1 per metre, `effort` costs 0.5 per |action|^2.

    At first moving costs more than it brings: the sum of the components teaches to stand still.
    """

    observation = Box((4,), np.dtype(np.float32), np.full(4, -np.inf, np.float32), np.full(4, np.inf, np.float32))
    action = Box((2,), np.dtype(np.float32), np.full(2, -1.0, np.float32), np.ones(2, np.float32))
    max_episode_steps = 60
    reward_names = ("arrive", "progress", "effort")

    def init(self, key: Any) -> Trip:
        angle = jax.random.uniform(key, (), jnp.float32, 0.0, 2 * np.pi)
        goal = DISTANCE * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        return Trip(jnp.zeros(2, jnp.float32), goal, jnp.bool_(False))

    def step(self, state: Trip, action: Any, key: Any) -> tuple[Trip, Any, Any]:
        del key
        place = state.place + STRIDE * action
        before, after = (jnp.sqrt(jnp.square(at - state.goal).sum()) for at in (state.place, place))
        arrived = after < RADIUS
        effort = -EFFORT * jnp.square(action).sum()
        reward = jnp.stack([arrived.astype(jnp.float32), PROGRESS * (before - after), effort])
        return Trip(place, state.goal, arrived), reward, arrived

    def observe(self, state: Trip) -> Any:
        return jnp.concatenate([state.place, state.goal])

    def succeeded(self, state: Trip) -> Any:
        return state.arrived


def courier() -> Courier:
    return Courier()
