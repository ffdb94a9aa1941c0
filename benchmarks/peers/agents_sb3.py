"""PPO of Stable-Baselines3 on environments of several agents, as rows of one vector environment.

Called by `benchmarks/agents.py` with the settings as JSON; prints one line of JSON.
"""

import importlib
import json
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from agents_evaluation import evaluate


class AgentRows(VecEnv):
    """Every agent of every environment is a row; an environment is reset in the step in which its agents end.

    For environments whose agents all end together, as those of mpe2 do.
    """

    def __init__(self, make: Any, num_envs: int, seed: int) -> None:
        self.made = [make() for _ in range(num_envs)]
        self.agents = list(self.made[0].possible_agents)
        first = self.agents[0]
        rows = num_envs * len(self.agents)
        super().__init__(rows, self.made[0].observation_space(first), self.made[0].action_space(first))
        self.first_seed = seed * 1000

    def reset(self) -> np.ndarray:
        found = [env.reset(seed=self.first_seed + number)[0] for number, env in enumerate(self.made)]
        return self._rows(found)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions.reshape(len(self.made), len(self.agents))

    def step_wait(self) -> Any:
        shown, rewards, dones, infos = [], [], [], []
        for env, actions in zip(self.made, self.actions, strict=True):
            obs, reward, terminated, truncated, _ = env.step(dict(zip(self.agents, actions.tolist(), strict=True)))
            over = not env.agents
            assert over == all(terminated[agent] or truncated[agent] for agent in self.agents)
            for agent in self.agents:
                rewards.append(reward[agent])
                dones.append(over)
                infos.append(
                    {"terminal_observation": obs[agent], "TimeLimit.truncated": not terminated[agent]} if over else {}
                )
            shown.append(env.reset()[0] if over else obs)
        return self._rows(shown), np.array(rewards, np.float32), np.array(dones), infos

    def _rows(self, shown: list[Any]) -> np.ndarray:
        return np.stack([obs[agent] for obs in shown for agent in self.agents])

    def close(self) -> None:
        for env in self.made:
            env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def main() -> None:
    wishes = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    package, name = wishes["env"].split(":")
    make = importlib.import_module(f"{package}.{name}").parallel_env
    rows = AgentRows(make, wishes["num_envs"], wishes["seed"])
    model = PPO(
        "MlpPolicy",
        rows,
        n_steps=wishes["rollout_steps"],
        batch_size=wishes["minibatch_transitions"],
        n_epochs=wishes["epochs"],
        learning_rate=wishes["learning_rate"],
        gamma=wishes["gamma"],
        gae_lambda=wishes["gae_lambda"],
        clip_range=wishes["clip_range"],
        ent_coef=wishes["entropy_start"],
        vf_coef=wishes["value_weight"],
        max_grad_norm=wishes["max_grad_norm"],
        seed=wishes["seed"],
        device="cpu",
    )
    start = time.perf_counter()
    model.learn(wishes["total_steps"] * len(rows.agents))
    seconds = time.perf_counter() - start

    def act(obs: dict[str, Any]) -> dict[str, Any]:
        actions, _ = model.predict(np.stack(list(obs.values())), deterministic=True)
        return dict(zip(obs, actions.tolist(), strict=True))

    agent_steps = int(model.num_timesteps)
    found = {"mean": evaluate(make(), act), "agent_steps": agent_steps, "seconds": round(seconds, 1)}
    print(json.dumps(found | {"versions": {p: metadata.version(p) for p in ("stable-baselines3", "torch", "mpe2")}}))


if __name__ == "__main__":
    main()
