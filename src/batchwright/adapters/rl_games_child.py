"""The process that `batchwright rl-games` starts in the interpreter of rl_games; writes one record per line.

`python -m batchwright.adapters.rl_games_child JOB.json DESCRIPTOR`. Needs rl_games, NumPy and Gymnasium or EnvPool.
A line `{"saved": EPOCH}` says that the checkpoint of that epoch is in its place.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.adapters.rl_games_observer import RecordObserver

VECENV = "BATCHWRIGHT"
SAVES_PER_RUN = 20


def main(job_file: str, descriptor: int) -> int:
    """Trains the config of the job and saves a checkpoint; 130 where it was asked to stop before the end."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    with os.fdopen(descriptor, "w", encoding="utf-8") as lines:

        def write(record: dict[str, Any]) -> None:
            lines.write(json.dumps(record) + "\n")
            lines.flush()

        return _train(job, SavingObserver(write, Path(job["folder"])))


class SavingObserver(RecordObserver):
    """Saves a checkpoint about 20 times, and ends the training after the epoch in which SIGTERM or SIGINT came."""

    def __init__(self, write: Callable[[dict[str, Any]], None], folder: Path) -> None:
        super().__init__(write)
        self._write, self._folder = write, folder
        self._agent: Any = None
        self._every = 1
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: Any) -> None:
        self._asked = True

    def after_init(self, algo: Any) -> None:
        super().after_init(algo)
        self._agent = algo
        self._every = max(1, int(algo.max_epochs) // SAVES_PER_RUN)

    def after_print_stats(self, frame: int, epoch_num: int, total_time: float) -> None:
        super().after_print_stats(frame, epoch_num, total_time)
        if self._asked:
            raise KeyboardInterrupt
        if epoch_num % self._every == 0:
            self.save()

    def save(self) -> None:
        """Replaces the checkpoint in one step: a process killed meanwhile leaves the old one."""
        self._agent.save(str(self._folder / "saving"))
        (self._folder / "saving.pth").replace(self._folder / "last.pth")
        self._write({"saved": int(self._agent.epoch_num)})


def _train(job: dict[str, Any], observer: SavingObserver) -> int:
    from rl_games.common import env_configurations, vecenv
    from rl_games.torch_runner import Runner

    maker = EnvPoolEnvs if job["engine"] == "envpool" else GymnasiumEnvs
    vecenv.register(VECENV, lambda name, actors, **kwargs: maker(job["env"], actors, job["seed"]))
    env_configurations.register(VECENV, {"vecenv_type": VECENV, "env_creator": lambda **kwargs: None})
    runner = Runner(observer)
    runner.load(job["config"])
    arguments = {"train": True, "play": False} | ({"checkpoint": job["checkpoint"]} if job["checkpoint"] else {})
    stopped = False
    try:
        runner.run(arguments)
    except KeyboardInterrupt:
        stopped = True
    observer.flush()
    observer.save()
    return 130 if stopped else 0


class GymnasiumEnvs:
    """Gymnasium's vector environment with the reset in the step that ends an episode, as rl_games expects."""

    def __init__(self, env: str, num_envs: int, seed: int) -> None:
        import gymnasium
        from gymnasium.vector import AutoresetMode, SyncVectorEnv

        from batchwright.envs.piano_registration import register_piano

        register_piano()
        makers = [lambda: gymnasium.make(env)] * num_envs
        self._envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
        self._seed = seed
        self._spaces = self._envs.single_observation_space, self._envs.single_action_space

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, _ = self._envs.step(actions)
        ended = terminated | truncated
        return observations.astype(np.float32), rewards.astype(np.float32), ended, {"time_outs": truncated}

    def reset(self) -> Any:
        return self._envs.reset(seed=self._seed)[0].astype(np.float32)

    def has_action_masks(self) -> bool:
        return False

    def get_number_of_agents(self) -> int:
        return 1

    def get_env_info(self) -> dict[str, Any]:
        return env_info(*self._spaces)

    def seed(self, seeds: Any) -> None:
        """rl_games offers seeds of its own; the run's seed was given already."""

    def set_train_info(self, frames: int, *args: Any, **kwargs: Any) -> None:
        """Nothing here depends on the progress of training."""

    def get_env_state(self) -> None:
        return None

    def set_env_state(self, state: Any) -> None:
        """The environments begin anew after a resume: Gymnasium cannot save them."""


class EnvPoolEnvs(GymnasiumEnvs):
    """EnvPool; the step after an end is its reset, which rl_games takes for a real one (its own way with EnvPool)."""

    def __init__(self, env: str, num_envs: int, seed: int) -> None:
        import envpool

        self._pool = envpool.make(env, env_type="gymnasium", num_envs=num_envs, seed=seed)
        self._ids = np.arange(num_envs)
        self._dtype = self._pool.spec.action_array_spec["action"].dtype
        self._spaces = self._pool.observation_space, self._pool.action_space

    def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, _ = self._pool.step(actions.astype(self._dtype), self._ids)
        ended = terminated | truncated
        return observations.astype(np.float32), rewards.astype(np.float32), ended, {"time_outs": truncated}

    def reset(self) -> Any:
        return self._pool.reset(self._ids)[0].astype(np.float32)


def env_info(observation: Any, action: Any) -> dict[str, Any]:
    import gymnasium

    box = gymnasium.spaces.Box(-np.inf, np.inf, observation.shape, np.float32)
    return {"observation_space": box, "action_space": action, "agents": 1, "value_size": 1}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
