"""Identity tasks: the right action is shown. A learner that cannot solve these has a bug."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from batchwright.envs.spaces import Box, Discrete
from batchwright.envs.tasks.jax_task import OwnTask


class IdentityDiscrete(OwnTask):
    """Observation: the target, one-hot. Reward 1 when the action is the target; a new target every step."""

    @property
    def choices(self) -> int:
        """How many targets there are."""
        assert isinstance(self.action, Discrete)
        return self.action.n

    def init(self, key: Any) -> jax.Array:
        return jax.random.randint(key, (), 0, self.choices, jnp.int32)

    def step(self, state: jax.Array, action: Any, key: Any) -> tuple[jax.Array, Any, Any]:
        return self.init(key), (action == state).astype(jnp.float32), jnp.bool_(False)

    def observe(self, state: jax.Array) -> Any:
        return jax.nn.one_hot(state, self.choices, dtype=jnp.float32)


class IdentityContinuous(OwnTask):
    """Observation: the target in [-1, 1]. Reward minus the squared distance; a new target every step."""

    def init(self, key: Any) -> jax.Array:
        return jax.random.uniform(key, (1,), jnp.float32, -1.0, 1.0)

    def step(self, state: jax.Array, action: Any, key: Any) -> tuple[jax.Array, Any, Any]:
        return self.init(key), -jnp.sum((action - state) ** 2), jnp.bool_(False)

    def observe(self, state: jax.Array) -> Any:
        return state


class IdentityImage(IdentityDiscrete):
    """Observation: an image whose bright quarter is the target. Otherwise as `IdentityDiscrete`."""

    def observe(self, state: jax.Array) -> Any:
        assert isinstance(self.observation, Box)
        height, width, _ = self.observation.shape
        lower, right = jnp.arange(height) >= height // 2, jnp.arange(width) >= width // 2
        bright = (lower[:, None] == (state >= 2)) & (right[None, :] == (state % 2 == 1))
        return jnp.where(bright, 255, 0).astype(jnp.uint8)[..., None]
