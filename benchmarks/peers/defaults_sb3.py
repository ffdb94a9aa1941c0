"""PPO of Stable-Baselines3 and SAC of SBX with nothing stated, for `defaults.py`."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

POINT_STEPS = 1024
"""Environment steps of a point of SAC's training curve."""


class EnvPoolEnv(gymnasium.Env):  # type: ignore[type-arg]
    """One environment of EnvPool as a Gymnasium one; observations that are dictionaries are laid end to end."""

    def __init__(self, name: str, seed: int) -> None:
        import envpool

        self._pool = envpool.make_gymnasium(name, num_envs=1, num_threads=1, seed=seed)
        first = self._flat(self._pool.reset()[0])
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, first.shape, np.float32)
        space = self._pool.action_space
        self._discrete = isinstance(space, gymnasium.spaces.Discrete)
        self.action_space = (
            gymnasium.spaces.Discrete(int(space.n))
            if self._discrete
            else gymnasium.spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return self._flat(self._pool.reset()[0]), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, _ = self._pool.step(
            np.asarray(action, np.int32 if self._discrete else np.float64)[None]
        )
        return self._flat(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), {}

    def _flat(self, obs: Any) -> np.ndarray:
        if isinstance(obs, dict):
            return np.concatenate([np.ravel(obs[name][0]) for name in sorted(obs)]).astype(np.float32)
        return np.asarray(obs[0], np.float32)


class OneVector(gymnasium.ActionWrapper):  # type: ignore[type-arg]
    """A hybrid action as one vector, which is what these peers take: a choice is the largest of its entries."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._parts = list(env.action_space.spaces.items())
        self._low = np.concatenate([_bounds(part)[0] for _, part in self._parts])
        self._high = np.concatenate([_bounds(part)[1] for _, part in self._parts])
        size = len(self._low)
        self.action_space = gymnasium.spaces.Box(-np.ones(size, np.float32), np.ones(size, np.float32))

    def action(self, action: Any) -> dict[str, Any]:
        values = self._low + (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (self._high - self._low)
        found: dict[str, Any] = {}
        for name, part in self._parts:
            mine, values = np.split(values, [len(_bounds(part)[0])])
            if isinstance(part, gymnasium.spaces.Discrete):
                found[name] = int(mine.argmax())
            elif isinstance(part, gymnasium.spaces.MultiDiscrete):
                found[name] = np.array([one.argmax() for one in np.split(mine, np.cumsum(part.nvec)[:-1])])
            else:
                found[name] = mine.reshape(part.shape).astype(np.float32)
        return found


def _bounds(part: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each entry."""
    if isinstance(part, gymnasium.spaces.Box):
        return part.low.ravel(), part.high.ravel()
    size = int(part.n) if isinstance(part, gymnasium.spaces.Discrete) else int(part.nvec.sum())
    return np.zeros(size, np.float32), np.ones(size, np.float32)


def make(name: str, kind: str, seed: int) -> Any:
    if kind == "envpool":
        return EnvPoolEnv(name, seed)
    if kind == "own":
        import batchwright.envs.registration  # noqa: F401  (registers them)

        return OneVector(gymnasium.make(name))
    return gymnasium.make(name)


def train(algo: str, name: str, kind: str, steps: int, seed: int, episodes: int) -> dict[str, Any]:
    """One run: its evaluation with exploration off, and the mean return of the episodes between two updates of PPO.

    For SAC: of the episodes of each 1,024 steps.
    """
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    torch.set_num_threads(1)

    class Curve(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.points: list[list[float]] = []
            self.returns: list[float] = []
            self.began = time.monotonic()

        def _on_step(self) -> bool:
            self.returns += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
            if algo == "sac" and self.num_timesteps % POINT_STEPS == 0:
                self._keep()
            return True

        def _on_rollout_end(self) -> None:
            if algo == "ppo":
                self._keep()

        def _keep(self) -> None:
            if self.returns:
                seconds = round(time.monotonic() - self.began, 2)
                self.points.append([self.num_timesteps, seconds, float(np.mean(self.returns))])
                self.returns.clear()

    curve, began = Curve(), time.monotonic()
    env = Monitor(make(name, kind, seed))
    if algo == "sac":
        from sbx import SAC

        model: Any = SAC("MlpPolicy", env, seed=seed)
    else:
        from stable_baselines3 import PPO

        model = PPO("MlpPolicy", env, seed=seed, device="cpu")
    model.learn(steps, callback=curve)
    mean, _ = evaluate_policy(model, Monitor(make(name, kind, seed + 1000)), n_eval_episodes=episodes)
    points = curve.points[:: max(1, len(curve.points) // 50)]
    return {"mean": float(mean), "seconds": round(time.monotonic() - began, 1), "curve": points}


def random_mean(name: str, kind: str, episodes: int) -> float:
    env, returns = make(name, kind, 0), []
    env.action_space.seed(0)
    for episode in range(episodes):
        env.reset(seed=episode)
        total, over, count = 0.0, False, 0
        while not over and count < 5000:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            total, over, count = total + float(reward), terminated or truncated, count + 1
        returns.append(total)
    return float(np.mean(returns))
