"""Environments of several agents by hand: PettingZoo's parallel interface without PettingZoo."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Leaving:
    """Three agents that come and go; all is known in advance.

    | agent | its steps | reward of each | its end |
    |---|---|---|---|
    | a | 1, 2 | 1 | terminated |
    | b | 1 to 4 | 10 | truncated |
    | c | 2 to 4 | 100 | terminated |

    An observation is (number of the agent, steps so far).
    """

    possible_agents = ("a", "b", "c")
    stays: ClassVar = {"a": (0, 2), "b": (0, 4), "c": (1, 4)}
    rewards: ClassVar = {"a": 1.0, "b": 10.0, "c": 100.0}

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.steps = 0
        self.acted: list[list[str]] = []

    def observation_space(self, agent: str) -> Box:
        return Box(-np.inf, np.inf, (2,))

    def action_space(self, agent: str) -> Discrete:
        return Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        self.agents = self._there()
        return {agent: self._obs(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.acted.append(sorted(actions))
        self.steps += 1
        over = [agent for agent in actions if self._ends(agent)]
        self.agents = self._there()
        seen = {*actions, *self.agents}
        return (
            {agent: self._obs(agent) for agent in seen},
            {agent: self.rewards[agent] for agent in actions},
            {agent: agent in over and agent != "b" for agent in actions},
            {agent: agent in over and agent == "b" for agent in actions},
            {agent: {"steps": self.steps, "is_success": agent != "b"} for agent in seen},
        )

    def close(self) -> None: ...

    def _ends(self, agent: str) -> bool:
        return self.steps == self.stays[agent][1]

    def _there(self) -> list[str]:
        return [agent for agent, (first, last) in self.stays.items() if first <= self.steps < last]

    def _obs(self, agent: str) -> np.ndarray:
        return np.array([self.possible_agents.index(agent), self.steps], np.float32)


class StillListed(Leaving):
    """`a` stays in `agents` after its end; it is asked for actions, and they count for nothing."""

    def _there(self) -> list[str]:
        there = super()._there()
        return ["a", *there] if there and "a" not in there else there


class ComesBack(Leaving):
    """`a` leaves after step 2 and is there again from step 3 to the end."""

    def _there(self) -> list[str]:
        there = super()._there()
        return ["a", *there] if self.steps == 3 else there

    def _ends(self, agent: str) -> bool:
        return super()._ends(agent) or self.steps == 4


class Echo:
    """Agents repeat what they are shown, one of three signs; all get the share of those that were right.

    `masked` forbids one wrong answer, in the observation as PettingZoo's board games do, or in info.
    """

    possible_agents = ("red", "green", "blue")

    def __init__(self, length: int = 8, masked: str = "") -> None:
        self.agents: list[str] = []
        self.length, self.masked = length, masked
        self.broken = 0

    def observation_space(self, agent: str) -> Any:
        sign = Box(0.0, 1.0, (3,))
        return Dict(observation=sign, action_mask=Box(0, 1, (3,), np.int8)) if self.masked == "obs" else sign

    def action_space(self, agent: str) -> Discrete:
        return Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.steps = list(self.possible_agents), 0
        return self._show()

    def step(self, actions: dict[str, Any]) -> Any:
        if self.broken:
            raise ValueError("broken")
        assert all(self.mask(agent)[action] for agent, action in actions.items()) or not self.masked
        reward = float(np.mean([self.sign[agent] == action for agent, action in actions.items()]))
        self.steps += 1
        over = self.steps == self.length
        acted = self.agents
        obs, info = self._show()
        self.agents = [] if over else acted
        return obs, dict.fromkeys(acted, reward), dict.fromkeys(acted, False), dict.fromkeys(acted, over), info

    def mask(self, agent: str) -> np.ndarray:
        allowed = np.ones(3, np.int8)
        allowed[(self.sign[agent] + 1) % 3] = 0
        return allowed

    def _show(self) -> Any:
        self.sign = {agent: int(self.rng.integers(3)) for agent in self.possible_agents}
        obs: Any = {agent: np.eye(3, dtype=np.float32)[self.sign[agent]] for agent in self.agents}
        if self.masked == "obs":
            obs = {agent: {"observation": seen, "action_mask": self.mask(agent)} for agent, seen in obs.items()}
        masked = self.masked == "info"
        return obs, {agent: {"action_mask": self.mask(agent)} if masked else {} for agent in self.agents}

    def close(self) -> None: ...


class FailsOnce(Echo):
    """Raises in its third step, in the first environment of a process alone."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1
        self.fails = type(self).made == 2  # the first is the one that spaces are read from

    def step(self, actions: dict[str, Any]) -> Any:
        if self.fails and self.steps == 2:
            raise ValueError("broken in step 3")
        return super().step(actions)


class DiesOnce(Echo):
    """Ends its process in the third step after its file is there, once."""

    def step(self, actions: dict[str, Any]) -> Any:
        path = os.environ.get("DIES_ONCE", "")
        if self.steps == 2 and os.path.exists(path):  # noqa: PTH110 - as short as it can be
            os.unlink(path)  # noqa: PTH108
            os._exit(7)
        return super().step(actions)


class LeavesUnsaid(Leaving):
    """`a` is gone after its second step, and no flag says so."""

    def step(self, actions: dict[str, Any]) -> Any:
        obs, reward, terminated, truncated, info = super().step(actions)
        return obs, reward, dict.fromkeys(terminated, False), truncated, info


class Silent(Leaving):
    """An agent that acted is not observed in its last step."""

    def step(self, actions: dict[str, Any]) -> Any:
        obs, *rest = super().step(actions)
        return ({agent: seen for agent, seen in obs.items() if agent in self.agents}, *rest)


class Unpaid(Leaving):
    """An agent that acted has no reward."""

    def step(self, actions: dict[str, Any]) -> Any:
        obs, rewards, *rest = super().step(actions)
        return (obs, {agent: reward for agent, reward in rewards.items() if agent != "b"}, *rest)


class Stranger(Leaving):
    """An agent comes that was never announced."""

    def _there(self) -> list[str]:
        there = super()._there()
        return [*there, "d"] if self.steps == 1 else there

    def _obs(self, agent: str) -> np.ndarray:
        return np.zeros(2, np.float32)


class Growing(Leaving):
    """Reset announces another agent."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.possible_agents = ("a", "b", "c", "d")  # type: ignore[assignment]
        return super().reset(seed=seed)


class NotFinite(Leaving):
    """`b` is paid an infinite reward in step 2."""

    def step(self, actions: dict[str, Any]) -> Any:
        obs, rewards, *rest = super().step(actions)
        return (obs, rewards | ({"b": np.inf} if self.steps == 2 else {}), *rest)


class Nobody(Leaving):
    """After reset no agent is there."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.agents = []
        return {}, {}


class TakesTurns(Leaving):
    """What PettingZoo's AECEnv looks like."""

    agent_selection = "a"


class Unnamed(Leaving):
    possible_agents = ()


class Unlike:
    """Two kinds of agents: `sign_*` choose what they are shown, `level_0` sets a number to what it is shown.

    A sign is worth 100 times what a level is. Signs may be masked; episodes have 5 steps, `sign_1` leaves after 3.
    """

    possible_agents = ("sign_0", "level_0", "sign_1")

    def __init__(self, masked: bool = False) -> None:
        self.agents: list[str] = []
        self.masked = masked

    def observation_space(self, agent: str) -> Box:
        return Box(-1.0, 1.0, (3,) if agent.startswith("sign") else (2,))

    def action_space(self, agent: str) -> Any:
        return Discrete(3) if agent.startswith("sign") else Box(-1.0, 1.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents, self.steps = list(self.possible_agents), 0
        return self._show(self.agents)

    def step(self, actions: dict[str, Any]) -> Any:
        rewards = {agent: self._reward(agent, action) for agent, action in actions.items()}
        self.steps += 1
        acted = list(actions)
        over = {agent: self.steps == (3 if agent == "sign_1" else 5) for agent in acted}
        self.agents = [agent for agent in acted if not over[agent]]
        obs, info = self._show(acted)
        return obs, rewards, over, dict.fromkeys(acted, False), info

    def _reward(self, agent: str, action: Any) -> float:
        if agent.startswith("sign"):
            return 100.0 * float(self.shown[agent].argmax() == action)
        assert np.shape(action) == (1,)
        return -abs(float(action[0] - self.shown[agent][0]))

    def _show(self, agents: list[str]) -> Any:
        signs = {agent: np.eye(3, dtype=np.float32)[self.rng.integers(3)] for agent in agents if agent[0] == "s"}
        levels = {agent: np.float32([self.rng.uniform(-0.8, 0.8), 1.0]) for agent in agents if agent[0] == "l"}
        self.shown: dict[str, np.ndarray] = signs | levels
        masks = {agent: (sign + np.roll(sign, 1)).astype(np.int8) for agent, sign in signs.items()}
        info = {agent: {"action_mask": masks[agent]} if self.masked and agent in masks else {} for agent in agents}
        return self.shown, info

    def close(self) -> None: ...


def make_echo(length: int = 8) -> Echo:
    return Echo(length)
