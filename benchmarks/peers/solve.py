"""Train SB3 or SBX with the RL Zoo's hyperparameters until solved; `wallclock.py` times the whole process.

Solved: the mean return of the last 100 training episodes has reached the threshold, the library's own `ep_rew_mean`.
Prints one line of JSON: solved, steps, mean_return.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

WINDOW_EPISODES = 100


def linear(start: float) -> Callable[[float], float]:
    """The Zoo's `lin_<start>`: from `start` to zero over the budget."""
    return lambda remaining: start * remaining


# rl-baselines3-zoo, hyperparams/ppo.yml.
ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "num_envs": 8,
        "total_steps": 100_000,
        "ppo": {
            "n_steps": 32,
            "batch_size": 256,
            "n_epochs": 20,
            "gamma": 0.98,
            "gae_lambda": 0.8,
            "ent_coef": 0.0,
            "learning_rate": linear(1e-3),
            "clip_range": linear(0.2),
        },
    },
    "LunarLander-v3": {
        "num_envs": 16,
        "total_steps": 1_000_000,
        "ppo": {
            "n_steps": 1024,
            "batch_size": 64,
            "n_epochs": 4,
            "gamma": 0.999,
            "gae_lambda": 0.98,
            "ent_coef": 0.01,
        },
    },
}


class StopWhenSolved(BaseCallback):
    """Ends training at the first step at which the last 100 episodes average the threshold."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        self.solved = False

    @property
    def mean_return(self) -> float:
        returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        return float(np.mean(returns)) if len(returns) >= WINDOW_EPISODES else float("-inf")

    def _on_step(self) -> bool:
        if self.locals["dones"].any():
            self.solved = self.mean_return >= self.threshold
        return not self.solved


def build(library: str, env_id: str, seed: int, threads: int) -> Any:
    torch.set_num_threads(threads)
    if library == "sb3":
        from stable_baselines3 import PPO
    else:
        from sbx import PPO
    envs = make_vec_env(env_id, n_envs=ZOO[env_id]["num_envs"], seed=seed)
    return PPO("MlpPolicy", envs, seed=seed, device="cpu", **ZOO[env_id]["ppo"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Train until solved.")
    parser.add_argument("--library", choices=("sb3", "sbx"), required=True)
    parser.add_argument("--env", choices=tuple(ZOO), required=True)
    parser.add_argument("--threshold", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--total-steps", type=int, help="the Zoo's budget when not given; schedules end there")
    arguments = parser.parse_args()
    model = build(arguments.library, arguments.env, arguments.seed, arguments.threads)
    callback = StopWhenSolved(arguments.threshold)
    model.learn(arguments.total_steps or ZOO[arguments.env]["total_steps"], callback=callback)
    mean_return = callback.mean_return if np.isfinite(callback.mean_return) else None
    print(json.dumps({"solved": callback.solved, "steps": model.num_timesteps, "mean_return": mean_return}))


if __name__ == "__main__":
    main()
