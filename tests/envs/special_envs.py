"""Environments with masks, vector rewards, components in info and a success signal."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

LENGTH = 3


class Masked(gymnasium.Env):
    """Only action `steps + 1` of 5 is allowed after so many steps; ends after 3; reward [1, steps] as a vector."""

    observation_space: Any = gymnasium.spaces.Box(-9, 9, (1,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(5, start=2)
    reward_names = ("alive", "steps")

    def __init__(self, fault: str = "", vector: bool = True) -> None:
        self._fault, self._vector, self._steps = fault, vector, 0
        if vector:
            self.reward_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observation(), {"action_mask": self._mask()}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        assert action == self._steps + 1 + 2, f"{action} is forbidden"
        self._steps += 1
        ended = self._steps == LENGTH
        parts = np.array([1.0, self._steps])
        info: dict[str, Any] = {"alive": 1.0, "twice": 2.0 * self._steps, "action_mask": self._mask()}
        if ended:
            info |= {"is_success": True, "action_mask": np.zeros(5, np.int8)}
        if self._fault == "no mask" and self._steps == 2:
            del info["action_mask"]
        if self._fault == "no key" and self._steps == 2:
            del info["twice"]
        return self._observation(), parts if self._vector else float(parts.sum()), ended, False, info

    def _mask(self) -> Any:
        mask = np.zeros(4 if self._fault == "shape" else 5, np.int8)
        if self._fault != "empty":
            mask[self._steps + 1] = 1
        return mask

    def _observation(self) -> Any:
        return np.array([self._steps], np.float32)


def numbered() -> Masked:
    """The same with a reward of one number, 1 + steps."""
    return Masked(vector=False)


def vectored(num_envs: int, max_episode_steps: int | None = None, mode: str = "NEXT_STEP", **kwargs: Any) -> Any:
    makers = [lambda: Masked(vector=False, **kwargs) for _ in range(num_envs)]
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode[mode])


for _mode in ("NEXT_STEP", "SAME_STEP", "DISABLED"):
    gymnasium.register(
        f"Masked-{_mode}-v0",
        entry_point=Masked,
        vector_entry_point=lambda num_envs, _mode=_mode, **kwargs: vectored(num_envs, mode=_mode, **kwargs),
    )
