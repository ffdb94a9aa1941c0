"""PPO training speed of Stable-Baselines3."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from stable_baselines3 import PPO

from peers.common import IterationClock, Settings, measure, parse_settings
from peers.sb3_common import SpeedCallback, make_vec_env_for, ppo_arguments


def train(settings: Settings, clock: IterationClock) -> None:
    torch.set_num_threads(settings.threads)
    model = PPO("MlpPolicy", make_vec_env_for(settings), device="cpu", **ppo_arguments(settings))
    model.learn(total_timesteps=10**9, callback=SpeedCallback(clock))


if __name__ == "__main__":
    measure("sb3", ("stable-baselines3", "torch"), parse_settings(), train)
