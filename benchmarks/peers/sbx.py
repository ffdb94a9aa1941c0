"""PPO training speed of SBX, Stable-Baselines3 in JAX."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from peers.common import IterationClock, Settings, measure, parse_settings
from peers.sb3_common import SpeedCallback, make_vec_env_for, ppo_arguments

from sbx import PPO


def train(settings: Settings, clock: IterationClock) -> None:
    torch.set_num_threads(settings.threads)  # SBX keeps its rollout buffer in torch tensors
    model = PPO("MlpPolicy", make_vec_env_for(settings), **ppo_arguments(settings))
    model.learn(total_timesteps=10**9, callback=SpeedCallback(clock))


if __name__ == "__main__":
    measure("sbx", ("sbx-rl", "stable-baselines3", "jax", "flax", "torch"), parse_settings(), train)
