"""PPO training speed of rl_games.

rl_games' own vector environment for Gymnasium tasks starts one Ray process per environment; on two cores that is
slower than stepping in place, so `usual` here is Gymnasium's SyncVectorEnv behind rl_games' interface. `envpool` is
the library's own EnvPool class.
"""

import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from rl_games.common import env_configurations, vecenv
from rl_games.common.algo_observer import DefaultAlgoObserver
from rl_games.common.ivecenv import IVecEnv
from rl_games.envs.envpool import Envpool
from rl_games.torch_runner import Runner

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
    measure,
    parse_settings,
)


class SeenEnough(Exception):
    """Leaves rl_games' endless training loop."""


class SpeedObserver(DefaultAlgoObserver):
    """Laps once per iteration: the discrete agent calls this hook twice in each, the continuous one once."""

    def __init__(self, clock: IterationClock) -> None:
        super().__init__()
        self.clock = clock

    def after_print_stats(self, frame: int, epoch_num: int, total_time: float) -> None:
        super().after_print_stats(frame, epoch_num, total_time)
        if epoch_num > self.clock.iterations and self.clock.lap():
            raise SeenEnough


class SyncGymnasium(IVecEnv):
    """Gymnasium's SyncVectorEnv with the reset in the step that ends an episode, as rl_games expects."""

    def __init__(self, config_name: str, num_actors: int, **kwargs: Any) -> None:
        makers = [lambda: gymnasium.make(kwargs["env_name"])] * num_actors
        self.envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        self.seed = kwargs["seed"]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        observations, rewards, terminated, truncated, _ = self.envs.step(actions)
        return observations.astype(np.float32), rewards, terminated | truncated, {"time_outs": truncated}

    def reset(self) -> np.ndarray:
        return self.envs.reset(seed=self.seed)[0].astype(np.float32)

    def get_number_of_agents(self) -> int:
        return 1

    def get_env_info(self) -> dict[str, Any]:
        return {
            "action_space": self.envs.single_action_space,
            "observation_space": float32_box(self.envs.single_observation_space),
        }


class Float32Envpool(Envpool):
    """The library's EnvPool class; MuJoCo's float64 observations and actions are converted at the boundary."""

    def __init__(self, config_name: str, num_actors: int, **kwargs: Any) -> None:
        super().__init__(config_name, num_actors, env_type="gymnasium", **kwargs)
        self.observation_space = float32_box(self.observation_space)
        self.action_dtype = self.env.spec.action_array_spec["action"].dtype

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        observations, rewards, dones, infos = super().step(action.astype(self.action_dtype))
        return observations.astype(np.float32), rewards.astype(np.float32), dones, infos

    def reset(self) -> np.ndarray:
        return super().reset().astype(np.float32)


def float32_box(space: gymnasium.spaces.Box) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(-np.inf, np.inf, space.shape, np.float32)


def network(discrete: bool) -> dict[str, Any]:
    default = {"name": "default"}
    continuous = {
        "mu_activation": "None",
        "sigma_activation": "None",
        "mu_init": default,
        "sigma_init": {"name": "const_initializer", "val": 0},
        "fixed_sigma": True,
    }
    return {
        "name": "actor_critic",
        "separate": True,
        "space": {"discrete": None} if discrete else {"continuous": continuous},
        "mlp": {"units": list(HIDDEN_UNITS), "activation": "tanh", "initializer": default},
    }


def algorithm(settings: Settings, run_directory: str) -> dict[str, Any]:
    env_config: dict[str, Any] = {"env_name": settings.env, "seed": 1}
    if settings.feed == "envpool":
        env_config["num_threads"] = settings.env_threads
    return {
        "name": "speed",
        "env_name": "benchmark",
        "env_config": env_config,
        "device": "cpu",
        "train_dir": run_directory,
        "torch_compile": False,  # True, the default, is no faster for nets of this size, slower on HalfCheetah
        "print_stats": False,
        "save_best_after": 10**9,
        "num_actors": settings.num_envs,
        "horizon_length": settings.rollout_steps,
        "minibatch_size": settings.minibatch,
        "mini_epochs": settings.epochs,
        "learning_rate": LEARNING_RATE,
        "lr_schedule": None,
        "gamma": GAMMA,
        "tau": GAE_LAMBDA,
        "e_clip": CLIP_RANGE,
        "clip_value": False,
        "entropy_coef": ENTROPY_COEFFICIENT,
        "critic_coef": 2 * VALUE_COEFFICIENT,  # rl_games halves the critic's loss
        "bounds_loss_coef": 0.0,
        "truncate_grads": True,
        "grad_norm": MAX_GRADIENT_NORM,
        "normalize_advantage": True,
        "normalize_input": False,
        "normalize_value": False,
        "value_bootstrap": True,
        "reward_shaper": {"scale_value": 1.0},
    }


def train(settings: Settings, clock: IterationClock) -> None:
    vec_env = Float32Envpool if settings.feed == "envpool" else SyncGymnasium
    vecenv.register("BENCHMARK", vec_env)
    env_configurations.register("benchmark", {"vecenv_type": "BENCHMARK", "env_creator": None})
    discrete = isinstance(gymnasium.make(settings.env).action_space, gymnasium.spaces.Discrete)
    with tempfile.TemporaryDirectory() as run_directory:
        params = {
            "seed": 1,
            "torch_threads": settings.threads,
            "algo": {"name": "a2c_discrete" if discrete else "a2c_continuous"},
            "model": {"name": "discrete_a2c" if discrete else "continuous_a2c_logstd"},
            "network": network(discrete),
            "config": algorithm(settings, run_directory),
        }
        runner = Runner(SpeedObserver(clock))
        runner.load({"params": params})
        try:
            runner.run({"train": True})
        except SeenEnough:
            return


if __name__ == "__main__":
    measure("rl_games", ("rl-games", "torch"), parse_settings(), train)
