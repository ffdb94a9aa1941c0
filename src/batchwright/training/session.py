"""What the sessions of all regimes share: an engine, a policy that acts in it, and ways to start and to evaluate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.collect.compiled import Collect, CollectState, make_collect, make_compiled_replay, start_compiled
from batchwright.collect.host import make_host_collect, make_replay, start_host
from batchwright.core.streams import Streams
from batchwright.envs.engines import CompiledEngine, Engine, HostEngine
from batchwright.nets.policy import Policy
from batchwright.planning.quantity import Plan
from batchwright.training.evaluate import Evaluator


@dataclass
class EngineSession(ABC):
    """The living parts that every run has."""

    plan: Plan
    env: str
    streams: Streams
    engine: Engine
    policy: Policy
    collect: Collect = field(init=False)

    @property
    def chunk_steps(self) -> int:
        """Steps of one call of `collect`."""
        return int(self.plan["rollout_steps"])

    @property
    def resumes_from_state(self) -> bool:
        """Whether the arrays of a checkpoint are all that a resume needs; else environments are replayed."""
        return self.engine.saves_state

    def actions_given(self, told: Any) -> np.ndarray:
        """All actions [T, N, D] of an iteration, in the order in which the environments were given them."""
        return np.asarray(told.rollout.action)

    def __post_init__(self) -> None:
        self.collect = self._make_collect()

    def _make_collect(self) -> Collect:
        if isinstance(self.engine, HostEngine):
            return make_host_collect(self.engine, self.policy, self.chunk_steps)
        assert isinstance(self.engine, CompiledEngine)
        return jax.jit(make_collect(self.engine, self.policy))

    def start_engine(self, iteration: int) -> CollectState:
        """Environments fresh from seeds that depend on the iteration alone."""
        engine = self.engine
        seed = self.streams.number("environments", iteration)
        if isinstance(engine, HostEngine):
            return start_host(engine, seed)
        assert isinstance(engine, CompiledEngine)
        position = start_compiled(engine, seed)
        if not engine.saves_state:  # its program holds the address of the old environments
            self.collect = self._make_collect()
        return position

    def replay(self, iteration: int, actions: list[np.ndarray], saved: CollectState) -> CollectState:
        """Environments started as at `iteration` and stepped through recorded actions: back to where they were."""
        started = self.start_engine(iteration)
        if isinstance(self.engine, HostEngine):
            step = make_replay(self.engine, self.policy)
            for action in actions:
                step(jnp.asarray(action))
            return saved
        assert isinstance(self.engine, CompiledEngine)
        run = jax.jit(make_compiled_replay(self.engine, self.policy))
        state = started.engine
        for action in actions:
            state = run(state, jnp.asarray(action))
        return saved._replace(engine=state)

    def evaluator(self, episodes: int, on_event: Callable[[dict[str, Any]], None] | None = None) -> Evaluator:
        """Evaluation beside training; an engine whose state is all in its arrays lends its compiled program."""
        if self.engine.saves_state:
            return Evaluator(self.env, self.engine, self.policy, episodes, self.collect, self.chunk_steps)
        return Evaluator.alone(self.env, self.engine.name, self.policy, episodes, on_event)

    def close(self) -> None:
        self.engine.close()

    @abstractmethod
    def fresh_state(self) -> Any:
        """The state before the first iteration."""

    def save_beside(self, folder: Path, state: Any) -> tuple[dict[str, list[np.ndarray]], dict[str, str]]:
        """What a checkpoint needs beside its state: arrays of its own, and hashes of files that checkpoints share."""
        return {}, {}

    def load_beside(  # noqa: B027 - most regimes leave nothing
        self, folder: Path, checkpoint: Path, shared: dict[str, str], state: Any
    ) -> None:
        """Takes up what `save_beside` left."""
