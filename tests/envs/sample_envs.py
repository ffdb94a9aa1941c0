"""Environments a user might bring, good and bad, addressed in the tests as `sample_envs.py:factory`."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class Counter(gymnasium.Env):
    """Observation [a number drawn at reset, steps so far]; reward: steps so far; ends at `length`."""

    observation_space: Any = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(3, start=5)

    def __init__(self, length: int = 4, terminated: bool = True, truncated: bool = False) -> None:
        self._length = length
        self._flags = (terminated, truncated)
        self._steps = 0
        self._drawn = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._drawn = self.np_random.random()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self._steps += 1
        ended = self._steps >= self._length
        info = {"twice": 2 * self._steps}
        return (
            self._observation(),
            float(self._steps),
            ended and self._flags[0],
            ended and self._flags[1],
            info,
        )

    def _observation(self) -> Any:
        return np.array([self._drawn, self._steps], np.float32)


class Raises(Counter):
    """Raises in step `at` of an episode; where `once` names a file, only until the file is there."""

    def __init__(self, at: int = 3, once: str | None = None, how: str = "raise") -> None:
        super().__init__(length=5)
        self._at = at
        self._once = Path(once) if once is not None else None
        self._how = how

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._steps + 1 == self._at and self._is_first():
            if self._how == "exit":
                os._exit(7)
            raise RuntimeError("the simulator lost its licence")
        return super().step(action)

    def _is_first(self) -> bool:
        """Whether this is the first to make the file; true without one."""
        if self._once is None:
            return True
        try:
            self._once.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class DiesInWorker(Raises):
    """Ends its process in step `at`, if that is a worker."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if multiprocessing.parent_process() is None:
            return Counter.step(self, action)
        return super().step(action)


class DiesInReset(Raises):
    """Ends its worker process in a reset, until the file is there."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if multiprocessing.parent_process() is not None and self._is_first():
            os._exit(7)
        return super().reset(seed=seed, options=options)


class RaisesInReset(Counter):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        raise RuntimeError("no display found")


class WrongShape(Counter):
    """Gives one number too many, from step `at` on (0: already in reset)."""

    def __init__(self, at: int = 0) -> None:
        super().__init__()
        self._at = at

    def _observation(self) -> Any:
        wrong = np.zeros(3, np.float32)
        return wrong if self._steps >= self._at else super()._observation()


class FloatsForBytes(Counter):
    observation_space = gymnasium.spaces.Box(0, 255, (2,), np.uint8)


class Hangs(Counter):
    """Never comes back from its second step."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._steps == 1:
            while True:
                pass
        return super().step(action)


class Echo(gymnasium.Env):
    """Shows in its observation the action it was given, part by part: nested spaces on both sides."""

    observation_space: Any = gymnasium.spaces.Dict(
        {
            "choice": gymnasium.spaces.Discrete(4, start=-1),
            "parts": gymnasium.spaces.Tuple(
                (gymnasium.spaces.Box(-9, 9, (2,), np.float64), gymnasium.spaces.MultiBinary(3))
            ),
            "picture": gymnasium.spaces.Box(0, 255, (2, 2, 1), np.uint8),
        }
    )
    action_space: Any = gymnasium.spaces.Dict(
        {
            "choice": gymnasium.spaces.Discrete(4, start=-1),
            "parts": gymnasium.spaces.Tuple(
                (gymnasium.spaces.Box(-1, 1, (2,), np.float64), gymnasium.spaces.MultiBinary(3))
            ),
            "levels": gymnasium.spaces.MultiDiscrete([256, 2]),
        }
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._show(-1, np.zeros(2), np.zeros(3, np.int8), 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in the space"
        numbers, bits = action["parts"]
        return self._show(action["choice"], numbers, bits, action["levels"][0]), 0.0, False, False, {}

    def _show(self, choice: Any, numbers: Any, bits: Any, level: Any) -> dict[str, Any]:
        picture = np.full((2, 2, 1), level, np.uint8)
        return {"choice": choice, "parts": (numbers, bits), "picture": picture}


def vector_next_step(num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> Any:
    return _vector(num_envs, gymnasium.vector.AutoresetMode.NEXT_STEP, kwargs)


def vector_same_step(num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> Any:
    return _vector(num_envs, gymnasium.vector.AutoresetMode.SAME_STEP, kwargs)


def vector_disabled(num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> Any:
    return _vector(num_envs, gymnasium.vector.AutoresetMode.DISABLED, kwargs)


def vector_undeclared(num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> Any:
    env = _vector(num_envs, gymnasium.vector.AutoresetMode.NEXT_STEP, kwargs)
    env.metadata = {}
    return env


def _vector(num_envs: int, mode: Any, kwargs: dict[str, Any]) -> Any:
    # Environment i ends after 3 + i steps, so that the rows do not end together.
    makers = [lambda i=i: Counter(length=3 + i, **kwargs) for i in range(num_envs)]
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=mode)


for _mode in ("next_step", "same_step", "disabled", "undeclared"):
    gymnasium.register(
        f"Counter-{_mode}-v0",
        entry_point=Counter,
        vector_entry_point=globals()[f"vector_{_mode}"],
    )
