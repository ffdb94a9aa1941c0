"""An environment with every kind of space in its observation and in its action."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple


class Everything(gymnasium.Env):
    """Random observations, no reward, episodes of 8 steps."""

    observation_space: Any = Dict(
        {
            "camera": Box(0, 255, (3, 40, 36), np.uint8),
            "gear": Discrete(3, start=1),
            "joints": Tuple((Box(-5, 5, (2, 2), np.float32), MultiBinary(3))),
            "switches": MultiDiscrete([2, 4]),
        }
    )
    action_space: Any = Dict(
        {
            "arm": Box(np.array([-2.0, 0.0, -np.inf]), np.array([2.0, 0.5, np.inf]), dtype=np.float32),
            "lights": MultiBinary(2),
            "modes": MultiDiscrete([3, 2]),
            "way": Tuple((Discrete(4, start=2), Box(-1, 1, (1, 2), np.float32))),
        }
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self.observation_space.sample(), float(action["lights"][0]), False, self._steps >= 8, {}
