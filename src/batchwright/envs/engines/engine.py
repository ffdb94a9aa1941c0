"""The one vector interface over every engine, and the seeds of its sub-environments."""

# N envs

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.agent_groups import AgentLayout
from batchwright.envs.masks import Activity
from batchwright.envs.spaces import Spec

Array: TypeAlias = Any
"""A numpy array from a host engine, a JAX array from a compiled one."""

OnEvent: TypeAlias = Callable[[dict[str, Any]], None]


class Step(NamedTuple):
    """What one step of N environments gave.

    With autoreset "next", `obs` after an end is the true last observation; the step after it ignores
    that environment's action and gives its reset observation, reward 0 and no flags.
    With several agents a row is one agent of one environment: agents of one environment lie side by side.
    With autoreset "same", `obs` after an end is already the next episode's first.
    """

    obs: Any
    """Tree of arrays [N, ...]: float32 for floats, uint8 as it is, int32 for other integers."""
    reward: Array
    """[N] float32; where the environment gives components, their sum."""
    terminated: Array
    """[N] bool; terminated wins over truncated where an environment sets both."""
    truncated: Array
    """[N] bool."""
    final_obs: Any | None
    """Tree like `obs`, only with autoreset "same": the true last observation in the rows that ended."""
    extras: dict[str, Array]
    """The chosen info keys [N, ...], float32; NaN where the environment gave none."""
    components: Array | None = None
    """[N, K] float32 in the order of `reward_names`; None where rewards are one number."""
    mask: Array | None = None
    """[N, M] bool (`envs.masks`), what may be done after `obs`; None where the environment has no masks."""
    success: Array | None = None
    """[N] float32 where an episode ended: 1 a success, 0 none, NaN unknown; None where none is ever reported."""
    idle: Array | None = None
    """[N] bool, only with several agents: the row's next step is no transition. The agent is not there, or its
    environment is reset."""


class Engine(ABC):
    """N copies of one environment, stepped together.

    Actions are canonical: Discrete int32 [N] from zero, MultiDiscrete and MultiBinary int32 [N, k], Box
    float32 [N, *shape] inside its bounds, Dict and Tuple trees of those. The engine casts them.
    """

    name: ClassVar[str]
    compiled: ClassVar[bool]
    saves_state: ClassVar[bool] = False
    """Whether the state given to `step` is all there is, so that a checkpoint can hold it."""
    starts_at_once: ClassVar[bool] = True
    """Whether `start` is cheap and leaves compiled programs valid, so that every iteration may begin with it."""

    num_envs: int
    layout: AgentLayout | None = None
    """Of environments with several agents; None where a row is an environment."""
    agents: tuple[str, ...] = ()
    """Their names, in the order of their rows."""
    observation: Spec
    action: Spec
    max_episode_steps: int | None
    autoreset: Literal["next", "same"] = "next"
    reward_names: tuple[str, ...] = ()
    """Names of the components in `Step.components`; empty where rewards are one number."""
    action_activity: Mapping[str, Activity] = MappingProxyType({})
    """Boxes that are used only with some choices (`envs.masks`)."""

    @property
    def num_rows(self) -> int:
        """N: what lies side by side in a step, environments or their agents."""
        return self.num_envs * max(1, len(self.agents))

    def set_attribute(self, name: str, value: Any) -> None:
        """Sets an attribute of every environment, those that replace failed ones included."""
        raise UserError(
            f"the engine {self.name} has no environments in Python whose {name} could be set.",
            ["--engine gymnasium-sync", "--engine gymnasium-async"],
        )

    @abstractmethod
    def close(self) -> None:
        """Releases everything; may be called twice."""


class HostEngine(Engine):
    """An engine that Python drives step by step. Returned arrays are reused by the next call."""

    compiled = False
    mask: Any = None
    """[N, M] bool of the observations last given; None where the environment has no masks."""
    masked: Any = None
    """[N] bool, only with several agents: whether a row was ever given a mask of its own."""
    idle: Any = None
    """[N] bool after `start`, only with several agents: as in `Step`."""

    @abstractmethod
    def start(self, seed: int) -> Any:
        """Observations [N, ...] after seeding and resetting every environment, running or not."""

    def start_share(self, seed: int, share_N: Sequence[int]) -> tuple[Any, bool]:
        """(observations, True) where every environment then stands still after its share of episodes.

        Engines that cannot stand still play on and return False.
        """
        return self.start(seed), False

    @abstractmethod
    def step(self, action: Any) -> Step:
        """One step of every environment."""


class CompiledEngine(Engine):
    """An engine whose step is traced into a compiled program (jit, scan)."""

    compiled = True

    @abstractmethod
    def start(self, seed: int) -> tuple[Any, Any]:
        """The state of the engine and the first observations [N, ...]; call it outside of jit."""

    @abstractmethod
    def step(self, state: Any, action: Any) -> tuple[Any, Step]:
        """One step of every environment; traceable."""

    def mask_of(self, state: Any) -> Any:
        """[N, M] bool, what may be done in a state; None where the environment has no masks."""
        del state

    def reset_all(self, state: Any) -> tuple[Any, Any]:
        """Like `start`, with environments that go on drawing from their own random generators; outside of jit."""
        raise NotImplementedError(f"{self.name} is started instead")


class ShareSeed(int):
    """The seed of an engine with a share of the environments: they count from `first_env`, others run elsewhere."""

    first_env: int

    def __new__(cls, seed: int, first_env: int = 0) -> ShareSeed:
        made = super().__new__(cls, seed)
        made.first_env = first_env
        return made


def env_seed(seed: int, index: int, restart: int = 0) -> int:
    """The seed of one sub-environment, 31 bits: it depends on nothing but (seed, index, restarts so far)."""
    index += seed.first_env if isinstance(seed, ShareSeed) else 0
    path = (index,) if restart == 0 else (index, restart)
    sequence = np.random.SeedSequence(int(seed), spawn_key=path)
    return int(sequence.generate_state(1, np.uint32)[0] >> 1)


def env_seeds(seed: int, num_envs: int) -> list[int]:
    """One seed per sub-environment; adding environments changes none of the others."""
    return [env_seed(seed, index) for index in range(num_envs)]
