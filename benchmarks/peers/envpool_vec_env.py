"""EnvPool behind Stable-Baselines3's VecEnv interface, for SB3 and SBX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import envpool
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvObs, VecEnvStepReturn


def _float32_box(space: spaces.Box) -> spaces.Box:
    return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)


class EnvPoolVecEnv(VecEnv):
    """SB3 wants the first observation of the next episode at once, EnvPool gives it at the next step: an ended
    environment is therefore reset on the spot, as EnvPool's own SB3 example does, and its last observation travels
    in `infos`. EnvPool's MuJoCo tasks speak float64; observations are handed on in float32."""

    def __init__(self, env_id: str, num_envs: int, num_threads: int, seed: int = 0) -> None:
        self.pool = envpool.make_gymnasium(env_id, num_envs=num_envs, num_threads=num_threads, seed=seed)
        action_space = self.pool.action_space
        self.action_dtype = self.pool.spec.action_array_spec["action"].dtype
        self.render_mode = None
        if isinstance(action_space, spaces.Box):
            action_space = _float32_box(action_space)
        super().__init__(num_envs, _float32_box(self.pool.observation_space), action_space)

    def reset(self) -> VecEnvObs:
        return self.pool.reset()[0].astype(np.float32)

    def step_async(self, actions: np.ndarray) -> None:
        self.pending_actions = np.asarray(actions, self.action_dtype)

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, _ = self.pool.step(self.pending_actions)
        observations = observations.astype(np.float32)
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if dones.any():
            ended = np.flatnonzero(dones).astype(np.int32)
            for index in ended:
                infos[index]["terminal_observation"] = observations[index].copy()
                infos[index]["TimeLimit.truncated"] = bool(truncated[index] and not terminated[index])
            observations[ended] = self.pool.reset(ended)[0]
        return observations, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        self.pool.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise NotImplementedError("EnvPool's environments have no attributes to set")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError("EnvPool's environments have no methods to call")

    def env_is_wrapped(self, wrapper_class: type, indices: VecEnvIndices = None) -> Sequence[bool]:
        return [False] * self.num_envs
