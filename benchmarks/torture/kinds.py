"""Tiny runs of every engine and every way of training: what the campaign kills and damages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from recordings import point_mass, write_libero

import batchwright
from batchwright.api import resume_reward

ROLLOUT = {"num_envs": 4, "rollout_steps": 16, "hidden": "8", "eval_every": 0, "eval_episodes": 2, "preset": "none"}
PPO = ROLLOUT | {"env": "CartPole-v1", "algo": "ppo", "minibatches": 2, "epochs": 2}
EPISODES = {name: PPO[name] for name in PPO if name not in ("rollout_steps", "minibatches")} | {
    "rollout_episodes": 4,
    "minibatch_transitions": 24,
}
REPLAY = ROLLOUT | {
    "num_envs": 2,
    "rollout_steps": 8,
    "warmup_steps": 48,
    "updates_per_iteration": 2,
    "transitions_per_update": 16,
    "replay_transitions": 256,
}
RRD = {"redistribute": "rrd", "rrd_timesteps_per_update": 16, "subsequence_timesteps": 8}
CONTINUOUS = REPLAY | {"env": "IdentityContinuous-v0"}
SPLIT, ASYNC = {"engine": "gymnasium-split", "num_threads": 2}, {"engine": "gymnasium-async", "num_threads": 1}
RECORDED = {"hidden": "8,8", "updates_per_iteration": 4, "subsequence_timesteps": 8}


@dataclass(frozen=True)
class Kind:
    """One way of training; its settings, and how many iterations pass in about the time of one start."""

    name: str
    settings: dict[str, Any]
    pace: int = 12

    @property
    def is_reward_model(self) -> bool:
        return self.settings is RECORDED

    def train(self, folder: Path, iterations: int, checkpoint_every: int, data: Path) -> None:
        """Trains such a run to its end."""
        wishes = self.settings | {"checkpoint_every": checkpoint_every, "run_dir": folder, "quiet": True, "seed": 5}
        if self.is_reward_model:
            updates = iterations * self.settings["updates_per_iteration"]
            batchwright.learn_reward(recording(data), total_updates=updates, **wishes)
            return
        if "rollout_episodes" in wishes:
            wishes["total_episodes"] = iterations * wishes["rollout_episodes"]
        else:
            wishes["total_steps"] = iterations * wishes["num_envs"] * wishes["rollout_steps"]
        batchwright.train(**wishes)

    def resume(self, folder: Path) -> None:
        """Goes on with such a run, in the way that the command does."""
        (resume_reward if self.is_reward_model else batchwright.resume)(folder, quiet=True)


def recording(folder: Path) -> Path:
    """The recorded episodes of a folder; written where they are missing."""
    path = folder / "point.hdf5"
    return path if path.exists() else write_libero(path, point_mass(12, 12), with_next=True)


_kind = partial(Kind, pace=12)
KINDS: tuple[Kind, ...] = (
    Kind("ppo, jax", PPO | {"engine": "jax"}, 40),
    _kind("ppo, gymnasium-sync", PPO | {"engine": "gymnasium-sync"}),
    Kind("sac, jax", CONTINUOUS | {"engine": "jax", "algo": "sac"}, 30),
    Kind("ppo, envpool", PPO | {"engine": "envpool"}, 18),
    _kind("ppo, gymnasium-split", PPO | SPLIT),
    _kind("ppo, gymnasium-async", PPO | ASYNC),
    Kind("sac + rrd, jax", CONTINUOUS | RRD | {"engine": "jax", "algo": "sac"}, 30),
    Kind("reward model", RECORDED, 30),
    Kind("episodes, jax", EPISODES | {"engine": "jax"}, 30),
    Kind("components, jax", PPO | {"engine": "jax", "env": "TwoObjectives-v0", "component_weighting": "learned"}, 40),
    Kind("dqn, jax", REPLAY | {"engine": "jax", "env": "CartPole-v1", "algo": "dqn"}, 30),
    Kind("td3, jax", CONTINUOUS | {"engine": "jax", "algo": "td3"}, 30),
    Kind("a2c, jax", PPO | {"engine": "jax", "algo": "a2c", "minibatches": None, "epochs": None}, 40),
    Kind("reinforce, jax", PPO | {"engine": "jax", "algo": "reinforce", "minibatches": None, "epochs": None}, 40),
    _kind("dqn, gymnasium-sync", REPLAY | {"engine": "gymnasium-sync", "env": "CartPole-v1", "algo": "dqn"}),
    _kind("sac, gymnasium-async", CONTINUOUS | ASYNC | {"env": "Pendulum-v1", "algo": "sac"}),
    Kind("episodes, envpool-host", EPISODES | {"engine": "envpool-host"}, 12),
    _kind("ppo, gymnasium-vector", PPO | {"engine": "gymnasium-vector"}),
    Kind("a2c, envpool", PPO | {"engine": "envpool", "algo": "a2c", "minibatches": None, "epochs": None}, 18),
    _kind("masks, gymnasium-split", PPO | SPLIT | {"env": "Colony-v0"}),
)
