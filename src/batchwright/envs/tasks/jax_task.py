"""The interface of a JAX-native environment, and the card that describes one of ours; imports no JAX.

The engine adds the rest: copies, time limit, autoreset.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from batchwright.envs.masks import Activity
from batchwright.envs.spaces import Spec


@dataclass(frozen=True)
class TaskCard:
    """One of our tasks: its spaces, its time limit, and the class that holds its dynamics."""

    name: str
    observation: Spec
    action: Spec
    max_episode_steps: int
    note: str
    module: str
    class_name: str
    reward_threshold: float | None = None
    reward_names: tuple[str, ...] = ()
    """Components of the reward, where the task gives them apart."""
    action_activity: Mapping[str, Activity] = field(default_factory=dict)
    """Boxes used only with some choices: path of the box -> (path of the choice, its values)."""

    def load(self) -> JaxTask:
        """The task itself; this imports JAX."""
        module = importlib.import_module(f"batchwright.envs.tasks.{self.module}")
        task: JaxTask = getattr(module, self.class_name)(self)
        return task


class JaxTask(ABC):
    """One environment as pure functions of its state; states are pytrees of arrays."""

    observation: Spec
    action: Spec
    max_episode_steps: int | None
    reward_names: tuple[str, ...] = ()
    """Names of the reward's components; where there are any, `step` gives them [K] and their sum is the reward."""
    action_activity: Mapping[str, Activity] = MappingProxyType({})
    """Boxes that are used only with some choices: path of the box -> (path of the choice, its values)."""

    @abstractmethod
    def init(self, key: Any) -> Any:
        """The state at the beginning of an episode."""

    @abstractmethod
    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        """The next state, the reward (float32, [K] with components) and whether the episode terminated (bool)."""

    @abstractmethod
    def observe(self, state: Any) -> Any:
        """The observation of a state."""

    def mask(self, state: Any) -> Any:
        """What may be done in a state, in the forms of Gymnasium's `Space.sample(mask=)`; None where all may.

        A tree like the action: Discrete bool [n]; MultiDiscrete a tuple of bool [nvec[k]]; MultiBinary int8 [n], 0 and
        1 forced, 2 free; Box None. It must not be None in one state and a mask in another.
        """
        del state

    def succeeded(self, state: Any) -> Any:
        """Whether an episode that ends in this state was a success (bool); None where the task has no such signal."""
        del state


class OwnTask(JaxTask):
    """A task of ours, with the spaces and the time limit of its card."""

    frames_per_second = 30
    """At which pictures of the steps of an episode are shown."""

    def __init__(self, card: TaskCard) -> None:
        self.observation = card.observation
        self.action = card.action
        self.max_episode_steps = card.max_episode_steps
        self.reward_names = card.reward_names
        self.action_activity = card.action_activity

    def draw(self, state: Any) -> Any:
        """A picture of a state, uint8 [height, width, 3]; None where the task has none."""
        del state
