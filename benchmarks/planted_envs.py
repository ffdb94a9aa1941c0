"""Environments in which it is known what a tuner should find; used by tune_measure.py."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

EPISODE_STEPS = 16


class Noise(gymnasium.Env):  # type: ignore[type-arg]
    """Rewards are noise: no number matters.

    An action decides how many numbers are drawn, so that other settings have other luck with the same seed.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    _steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if int(action):
            self.np_random.normal()
        return self._observation(), float(self.np_random.normal()), self._steps >= EPISODE_STEPS, False, {}

    def _observation(self) -> np.ndarray:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class Match(Noise):
    """The sign of the observation is to be named, at once: learning faster is all that helps."""

    _sign = 0

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == self._sign)
        self._steps += 1
        return self._observation(), reward, self._steps >= EPISODE_STEPS, False, {}

    def _observation(self) -> np.ndarray:
        found = super()._observation()
        self._sign = int(found[0] > 0)
        return found


class Corridor(gymnasium.Env):  # type: ignore[type-arg]
    """Leaving at once pays 1; going on costs 0.02 a step and pays 3 at the far end, 6 steps away.

    With a discount of 0.7 the far end is worth 0.7^6 x 3 = 0.35, so that leaving is right and exploring is of no use;
    with 0.99 it is worth 2.8, and a policy that soon stops exploring may not find it.
    """

    LENGTH = 6
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    _place = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if int(action) == 0:
            return self._observation(), 1.0, True, False, {}
        self._place += 1
        done = self._place >= self.LENGTH
        return self._observation(), 3.0 if done else -0.02, done, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self._place / self.LENGTH], np.float32)


def make_noise() -> gymnasium.Env:  # type: ignore[type-arg]
    return Noise()


def make_match() -> gymnasium.Env:  # type: ignore[type-arg]
    return Match()


def make_corridor() -> gymnasium.Env:  # type: ignore[type-arg]
    return Corridor()
