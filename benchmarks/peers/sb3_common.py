"""What SB3 and SBX share: the vector environment, the arguments of PPO and the callback at iteration boundaries."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from peers.common import (
    CLIP_RANGE,
    ENTROPY_COEFFICIENT,
    GAE_LAMBDA,
    GAMMA,
    HIDDEN_UNITS,
    LEARNING_RATE,
    MAX_GRADIENT_NORM,
    VALUE_COEFFICIENT,
    IterationClock,
    Settings,
)


class SpeedCallback(BaseCallback):
    """Laps the clock between iterations; a rollout's start is the only hook that lies after the update."""

    def __init__(self, clock: IterationClock) -> None:
        super().__init__()
        self.clock = clock
        self.seen_enough = False

    def _on_rollout_start(self) -> None:
        if self.num_timesteps > 0:
            self.seen_enough = self.clock.lap()

    def _on_step(self) -> bool:
        return not self.seen_enough


def make_vec_env_for(settings: Settings) -> VecEnv:
    if settings.feed == "envpool":
        from peers.envpool_vec_env import EnvPoolVecEnv

        return EnvPoolVecEnv(settings.env, settings.num_envs, settings.env_threads)
    return make_vec_env(settings.env, n_envs=settings.num_envs, seed=0, vec_env_cls=DummyVecEnv)


def ppo_arguments(settings: Settings) -> dict[str, Any]:
    """Both libraries' networks are tanh by default."""
    return {
        "n_steps": settings.rollout_steps,
        "batch_size": settings.minibatch,
        "n_epochs": settings.epochs,
        "learning_rate": LEARNING_RATE,
        "gamma": GAMMA,
        "gae_lambda": GAE_LAMBDA,
        "clip_range": CLIP_RANGE,
        "ent_coef": ENTROPY_COEFFICIENT,
        "vf_coef": VALUE_COEFFICIENT,
        "max_grad_norm": MAX_GRADIENT_NORM,
        "policy_kwargs": {"net_arch": {"pi": list(HIDDEN_UNITS), "vf": list(HIDDEN_UNITS)}},
        "seed": 0,
    }
