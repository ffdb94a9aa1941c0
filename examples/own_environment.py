"""An environment of your own in a file: batchwright train examples/own_environment.py:make_env"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Thermostat(gymnasium.Env[np.ndarray, np.ndarray]):
    """Keep a room at 20 degrees with a heater between -1 and 1; the weather drifts."""

    observation_space = spaces.Box(-5.0, 5.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.error, self.weather, self.steps = self.np_random.uniform(-2, 2), 0.0, 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.weather = 0.95 * self.weather + 0.1 * self.np_random.normal()
        self.error += 0.5 * float(action[0]) + 0.2 * self.weather
        self.steps += 1
        info = {"heating": abs(float(action[0]))}  # logged with --log-info heating
        # A step that ends the episode must not be worth more than going on: every step pays up to 1.
        return self._observe(), 1 - abs(self.error), abs(self.error) > 4, self.steps >= 100, info

    def _observe(self) -> np.ndarray:
        return np.array([self.error, self.weather], np.float32)


def make_env() -> gymnasium.Env[np.ndarray, np.ndarray]:
    return Thermostat()
