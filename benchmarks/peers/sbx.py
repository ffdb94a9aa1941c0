"""PPO training speed of SBX, Stable-Baselines3 in JAX."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from sbx import PPO

from peers.common import IterationClock, Settings, measure, parse_settings
from peers.sb3_common import SpeedCallback, make_vec_env_for, ppo_arguments


def compile_time_limit_path(model: PPO) -> None:
    """SBX values the last observation of a cut episode with a batch of one, compiled when the first time limit is
    met (HalfCheetah: the fourth iteration). Compilation is no part of this measurement, so it is done here."""
    observation = model.policy.prepare_obs(model.observation_space.sample())[0]
    model.vf.apply(model.policy.vf_state.params, observation).flatten().block_until_ready()


def train(settings: Settings, clock: IterationClock) -> None:
    torch.set_num_threads(settings.threads)  # SBX keeps its rollout buffer in torch tensors
    model = PPO("MlpPolicy", make_vec_env_for(settings), **ppo_arguments(settings))
    compile_time_limit_path(model)
    model.learn(total_timesteps=10**9, callback=SpeedCallback(clock))


if __name__ == "__main__":
    measure("sbx", ("sbx-rl", "stable-baselines3", "jax", "flax", "torch"), parse_settings(), train)
