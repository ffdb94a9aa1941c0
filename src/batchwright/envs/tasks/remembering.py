"""Tasks that only a memory solves: recall a cue that was shown once, balance or swing up poles of hidden speed."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batchwright.envs.spaces import Box
from batchwright.envs.tasks.cartpole import CartPole, CartPoleState
from batchwright.envs.tasks.jax_task import OwnTask
from batchwright.envs.tasks.pendulum import Pendulum, PendulumState

CUES = 4
DELAY_STEPS = 8
"""Steps from the cue to the question."""


class Cue(NamedTuple):
    """The cue of an episode, and the steps since it was shown; scalars."""

    cue: jax.Array
    steps: jax.Array


class RecallCue(OwnTask):
    """One of 4 cues is shown in the first step; 8 steps later the choice of it pays 1, which ends the episode.

    Every step but the first shows nothing of it, so the best policy without memory is right one time in 4.
    """

    def init(self, key: Any) -> Cue:
        return Cue(jax.random.randint(key, (), 0, CUES, jnp.int32), jnp.int32(0))

    def step(self, state: Cue, action: Any, key: Any) -> tuple[Cue, Any, Any]:
        del key
        asked = state.steps == DELAY_STEPS
        reward = (asked & (action == state.cue)).astype(jnp.float32)
        return Cue(state.cue, state.steps + 1), reward, asked

    def observe(self, state: Cue) -> Any:
        shown = jax.nn.one_hot(state.cue, CUES, dtype=jnp.float32) * (state.steps == 0)
        asked = (state.steps == DELAY_STEPS).astype(jnp.float32)
        return jnp.concatenate([shown, asked[None]])


class RecallImage(RecallCue):
    """The same with images: the cue is a bright quarter, the question is a bright image, between them all is dark."""

    def observe(self, state: Cue) -> Any:
        assert isinstance(self.observation, Box)
        height, width, _ = self.observation.shape
        lower, right = jnp.arange(height) >= height // 2, jnp.arange(width) >= width // 2
        quarter = (lower[:, None] == (state.cue >= 2)) & (right[None, :] == (state.cue % 2 == 1))
        bright = (quarter & (state.steps == 0)) | (state.steps == DELAY_STEPS)
        return jnp.where(bright, 255, 0).astype(jnp.uint8)[..., None]


class CartPolePositions(CartPole):
    """CartPole that shows positions and hides velocities: they are differences of what was seen before."""

    def observe(self, state: CartPoleState) -> Any:
        return jnp.stack([state.position, state.angle])


class PendulumAngle(Pendulum):
    """Pendulum that shows where it is and hides how fast it turns."""

    def observe(self, state: PendulumState) -> Any:
        return jnp.stack((jnp.cos(state.angle), jnp.sin(state.angle)))
