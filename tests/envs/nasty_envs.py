"""Environments that break the rules, addressed in the tests as `nasty_envs.py:factory`."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np


class Plain(gymnasium.Env):
    """Zeros for 10 steps, a reward of 1 each."""

    observation_space: Any = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.see(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.see(), 1.0, False, self.steps >= 10, {}

    def see(self) -> Any:
        return np.zeros(self.observation_space.shape, self.observation_space.dtype)


class NeverEnds(Plain):
    def step(self, action: Any) -> Any:
        return (*super().step(action)[:3], False, {})


class NanAlways(Plain):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, float("nan"), *rest


class NanInEvaluation(Plain):
    """Copies made for an evaluation give rewards that are no number."""

    def __init__(self) -> None:
        super().__init__()
        type(self).made += 1
        self.number = self.made

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, float("nan") if self.number > TRAINED_COPIES else reward, *rest


TRAINED_COPIES = 4 + 2
"""Four that train, and those of which only the spaces are read."""


class FailsInEvaluation(NanInEvaluation):
    made = 0

    def step(self, action: Any) -> Any:
        if self.number > TRAINED_COPIES:
            raise RuntimeError("no licence left for an evaluation")
        return Plain.step(self, action)


class InfoIsNone(Plain):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], None

    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], None)


class NoNumbers(Plain):
    observation_space: Any = gymnasium.spaces.Box(-1, 1, (0,), np.float32)


class RewardOfShape(Plain):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, np.full(self.shape, reward), *rest


class RewardIsNone(Plain):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, None, *rest


class OutOfRange(Plain):
    """Counts to 9 where the space has 5 values."""

    observation_space: Any = gymnasium.spaces.Discrete(5)

    def see(self) -> Any:
        return self.steps


class OldGym(Plain):
    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class OldReset(Plain):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


class NeedsOptions(Plain):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.level = options["level"]
        return super().reset(seed=seed)


class OtherActions(Plain):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.action_space = gymnasium.spaces.Discrete(3)
        return super().reset(seed=seed)


class Leaves(Plain):
    """Calls sys.exit in its third step."""

    def step(self, action: Any) -> Any:
        if self.steps == 2:
            sys.exit(0)
        return super().step(action)


class EndsItsProcess(Plain):
    def step(self, action: Any) -> Any:
        if self.steps == 2:
            os._exit(0)
        return super().step(action)


class Sleeps(Plain):
    """Environment `which` (as it is made in a process) never comes back from its third step."""

    def __init__(self, which: int = 1) -> None:
        super().__init__()
        type(self).made += 1
        self.hangs = self.made == which

    def step(self, action: Any) -> Any:
        if self.hangs and self.steps == 2:
            time.sleep(1000)
        return super().step(action)


class Waits(Plain):
    """Never comes back from its third step, in which Python hears signals."""

    def step(self, action: Any) -> Any:
        if self.steps == 2:
            print("stuck", flush=True)
            time.sleep(1000)
        return super().step(action)


class StuckInC(Plain):
    """Never comes back from compiled code, in which Python hears no signal."""

    def step(self, action: Any) -> Any:
        if self.steps == 2:
            print("stuck", flush=True)
            hashlib.pbkdf2_hmac("sha512", b"a", b"b", 2**31 - 1)
        return super().step(action)


class Grid(Plain):
    """Small pictures, as MiniGrid's."""

    def __init__(self, side: int = 7) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.Box(0, 255, (side, side, 3), np.uint8)


class TinyGrid(Grid):
    def __init__(self) -> None:
        super().__init__(4)


class Camera(Grid):
    def __init__(self) -> None:
        super().__init__(40)


class SeveralAgents:
    """What a PettingZoo environment whose agents take turns looks like."""

    possible_agents = ("red", "blue")
    agent_selection = "red"

    def observation_space(self, agent: str) -> Any: ...

    def action_space(self, agent: str) -> Any: ...


def several() -> Any:
    return gymnasium.vector.SyncVectorEnv([Plain] * 3)


class RaisesStrangely(Plain):
    """Raises an error of a kind that is seldom caught, that has a long text, or whose text raises too."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def step(self, action: Any) -> Any:
        raise {
            "generator": GeneratorExit(),
            "long": ValueError("long " * 5000),
            "lines": ValueError("one\ntwo\nerror: \x1b[31mthree"),
            "textless": Textless(),
        }[self.kind]


class NotClosed(Plain):
    def close(self) -> None:
        raise RuntimeError("not closed")


class NotDeleted(Plain):
    def __del__(self) -> None:
        raise RuntimeError("not deleted")


class Textless(Exception):  # noqa: N818 - named by a user
    def __str__(self) -> str:
        raise RuntimeError("not even a text")


def gives_a_class() -> Any:
    return Plain


def no_parts() -> Any:
    env = Plain()
    env.observation_space = gymnasium.spaces.Dict({})
    return env


def many_actions() -> Any:
    env = Plain()
    env.action_space = gymnasium.spaces.Discrete(10**9)
    return env
