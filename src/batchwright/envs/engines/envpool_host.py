"""EnvPool stepped from Python: for evaluation, and where its XLA interface does not serve."""

# N envs

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from batchwright.envs.engines.engine import HostEngine, OnEvent, Step
from batchwright.envs.engines.envpool_engine import EnvPoolEngine
from batchwright.envs.engines.host_arrays import native_action
from batchwright.envs.watchdog import Watch


class EnvPoolHost(HostEngine):
    """The same pools and the same trajectories as `EnvPoolEngine`; starting one compiles nothing."""

    name = "envpool-host"

    def __init__(self, inner: EnvPoolEngine, name: str, on_event: OnEvent) -> None:
        self._inner = inner
        self._watch = Watch(name, on_event)
        self.num_envs, self.observation, self.action = inner.num_envs, inner.observation, inner.action
        self.max_episode_steps, self.reward_names = inner.max_episode_steps, inner.reward_names
        self._ended_N = np.zeros(inner.num_envs, bool)

    def start(self, seed: int) -> Any:
        _, obs = self._inner.start(seed)
        self._ended_N = np.zeros(self.num_envs, bool)
        return jax.tree.map(np.asarray, obs)

    def step(self, action: Any) -> Step:
        native = self._inner.native(action, native_action)
        with self._watch:
            observation, reward_N, terminated_N, truncated_N, info = self._inner.pool.step(native)
        truncated_N = truncated_N & ~terminated_N
        reward_N = np.where(self._ended_N, np.float32(0), reward_N).astype(np.float32)
        extras, components, success_N = self._inner.read(info, reward_N, self._ended_N, terminated_N | truncated_N, np)
        self._ended_N = terminated_N | truncated_N
        obs = self._inner.canonical(observation, np)
        return Step(obs, reward_N, terminated_N, truncated_N, None, extras, components, None, success_N)

    def render(self) -> np.ndarray:
        """A picture [height, width, 3] of the first environment; needs `render_mode` among its options."""
        return np.array(self._inner.pool.render()[0])

    def close(self) -> None:
        self._inner.close()
