"""Environments that go wrong in training, addressed in the tests as `faulty_envs.py:factory`."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np


class Walk(gymnasium.Env):
    """A harmless environment: observation and reward are a random walk; episodes of 10 steps."""

    observation_space: Any = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(2)
    seeded = 0
    """Copies that were given a seed so far: the first ones are those that train."""

    def __init__(self) -> None:
        self.number = -1
        self.total = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self.number < 0 and seed is not None:
            self.number = type(self).seeded
            type(self).seeded += 1
        self.steps = 0
        return self.see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.total += 1
        return self.see(), self.reward(), False, self.steps >= 10, {}

    def see(self) -> Any:
        return self.np_random.normal(size=2).astype(np.float32)

    def reward(self) -> float:
        return float(self.np_random.normal())


class NanRewardOnce(Walk):
    """Environment 2 gives one reward that is no number, in its 20th step."""

    seeded = 0

    def reward(self) -> float:
        return float("nan") if self.number == 2 and self.total == 20 else super().reward()


class NanReward(Walk):
    """Every reward from the 20th step of each copy on is no number."""

    seeded = 0

    def reward(self) -> float:
        return float("nan") if self.total >= 20 else super().reward()


class HugeRewards(Walk):
    """For 50 steps rewards are finite and their sum is not: returns overflow, and parameters with them."""

    def reward(self) -> float:
        return 3e38 if 20 < self.total < 70 else super().reward()


class InfiniteObservation(Walk):
    """The second number of one observation is infinite."""

    seeded = 0

    def see(self) -> Any:
        seen = super().see()
        if self.number == 1 and self.total == 3:
            seen[1] = np.inf
        return seen


class RaisesOnce(Walk):
    """Environment 1 raises in its 7th step; its successor does not."""

    seeded = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.number == 1 and self.total == 6:
            raise RuntimeError("the simulator lost its licence")
        return super().step(action)


class RaisesInReset(Walk):
    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        raise RuntimeError("no display found")


class HiddenRandom(Walk):
    """Rewards come from Python's own generator, which no seed of ours reaches."""

    def reward(self) -> float:
        return random.random()


class SquareActions(Walk):
    """Actions in a box with bounds that float32 cannot write, checked by the environment itself."""

    action_space: Any = gymnasium.spaces.Box(np.array([-0.1, 0.2]), np.array([0.4, 0.7]), dtype=np.float64)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is outside"
        return super().step(action)
