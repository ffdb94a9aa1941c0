"""Mixed actions with masks: batchwright train examples/hybrid_actions.py:make_env --total-steps 60000"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Harbour(gymnasium.Env[np.ndarray, dict[str, Any]]):
    """Load, sail a distance or wait; loading is possible only while there is room."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Dict({"do": spaces.Discrete(3), "distance": spaces.Box(-1.0, 1.0, (1,), np.float32)})
    # The distance belongs to sailing: with the other choices it is not learned from.
    action_activity = {"distance": ("do", (1,))}  # noqa: RUF012

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.load, self.port, self.steps = 0, float(self.np_random.uniform(-0.8, 0.8)), 0
        return self._observe(), self._info()

    def step(self, action: dict[str, Any]) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward, self.steps = -0.05, self.steps + 1
        if action["do"] == 0:
            self.load += 1
        arrived = False
        if action["do"] == 1:
            missed = abs(float(action["distance"][0]) - self.port)
            reward += self.load * max(0.0, 1.0 - 2.0 * missed)
            arrived, self.load = missed < 0.2 and self.load == 3, 0
        info = self._info() | {"is_success": arrived}
        return self._observe(), reward, arrived, self.steps >= 20, info

    def _observe(self) -> np.ndarray:
        return np.array([self.load / 3, self.port], np.float32)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": {"do": np.array([self.load < 3, True, True], np.int8)}}


def make_env() -> gymnasium.Env[np.ndarray, dict[str, Any]]:
    return Harbour()
