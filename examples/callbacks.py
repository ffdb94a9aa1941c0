"""Callbacks: a curriculum, an early stop and a metric of your own, in one run."""

import sys
from collections.abc import Mapping
from typing import Any

import gymnasium

import batchwright


class Corridor(gymnasium.Env[int, int]):
    """Walk right to the end of a corridor whose `length` a callback sets; every step costs 0.1, the end pays 1."""

    observation_space = gymnasium.spaces.Discrete(17)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.length, self.place, self.steps = 16, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self.place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.place, self.steps = max(0, self.place + (1 if action else -1)), self.steps + 1
        reached = self.place >= self.length
        return self.place, float(reached) - 0.1, reached, self.steps >= 64, {"is_success": reached}


class Longer(batchwright.Callback):
    """Begins with a short corridor; doubles it whenever nine of ten episodes reach its end."""

    def __init__(self) -> None:
        self.length = 2

    def on_start(self, view: batchwright.RunView) -> None:
        view.set_env("length", self.length)

    def on_iteration(self, metrics: Mapping[str, Any], view: batchwright.RunView) -> None:
        view.log("corridor_length", self.length)
        if metrics.get("success_rate", 0.0) >= 0.9 and self.length < 16:
            self.length *= 2
            view.set_env("length", self.length)
        elif metrics.get("success_rate", 0.0) >= 0.99:
            view.stop("the longest corridor is walked")

    def save(self) -> int:  # a resumed run goes on exactly
        return self.length

    def load(self, state: int) -> None:
        self.length = state


if __name__ == "__main__":
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    settings = {"total_steps": steps, "num_envs": 8, "rollout_steps": 64}
    result = batchwright.train(f"{__file__}:Corridor", callback=Longer(), quiet=True, **settings)
    print(f"{result.stopped or 'not stopped'} after {result.env_steps} steps: {result.evaluation['mean']:.2f}")
