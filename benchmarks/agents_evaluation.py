"""One evaluation for every contender on environments of several agents: the same episodes, played the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EPISODES, FIRST_SEED = 200, 10_000


def evaluate(env: Any, act: Callable[[dict[str, Any]], dict[str, Any]]) -> float:
    """The mean return of an agent over `EPISODES` episodes of a parallel environment."""
    total = 0.0
    for episode in range(EPISODES):
        obs, _ = env.reset(seed=FIRST_SEED + episode)
        agents = len(env.agents)
        while env.agents:
            obs, rewards, _, _, _ = env.step(act({agent: obs[agent] for agent in env.agents}))
            total += sum(rewards.values()) / agents
    return total / EPISODES
