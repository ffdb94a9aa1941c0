"""What a JAX-native environment has to offer; the engine adds the rest (copies, time limit, autoreset)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from batchwright.envs.spaces import Spec

if TYPE_CHECKING:
    from batchwright.envs.tasks import TaskCard


class JaxTask(ABC):
    """One environment as pure functions of its state; states are pytrees of arrays."""

    observation: Spec
    action: Spec
    max_episode_steps: int | None

    @abstractmethod
    def init(self, key: Any) -> Any:
        """The state at the beginning of an episode."""

    @abstractmethod
    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        """The next state, the reward (float32) and whether the episode terminated (bool)."""

    @abstractmethod
    def observe(self, state: Any) -> Any:
        """What the policy sees of a state."""


class OwnTask(JaxTask):
    """A task of ours, with the spaces and the time limit of its card."""

    def __init__(self, card: TaskCard) -> None:
        self.observation = card.observation
        self.action = card.action
        self.max_episode_steps = card.max_episode_steps
