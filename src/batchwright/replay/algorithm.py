"""The interface of a replay algorithm, and the table of all of them."""

# U updates of an iteration, B rows of one, T steps, N environments.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import jax
import numpy as np

from batchwright.core.errors import unknown
from batchwright.core.streams import Streams
from batchwright.envs.engines import Engine
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy
from batchwright.replay.dqn import Dqn
from batchwright.replay.replay_settings import ReplaySettings
from batchwright.replay.replay_state import Metrics, ReplayHyper, StepSizes, TrainState
from batchwright.replay.sac import Sac
from batchwright.replay.td3 import Td3
from batchwright.store.replay_buffer import Batch

TrainT = TypeVar("TrainT", bound=TrainState)


class ReplayAlgorithm(Protocol[TrainT]):
    """Everything that differs between replay algorithms."""

    @property
    def policy(self) -> Policy:
        """The policy that acts."""

    def init(self, streams: Streams) -> TrainT:
        """The state before the first update; every network is one vector."""

    def to_trees(self, train: TrainT) -> TrainT:
        """The state with networks as trees, as `step` takes them."""

    def to_vectors(self, train: TrainT) -> TrainT:
        """The inverse of `to_trees`."""

    def hyper(self) -> dict[str, float]:
        """Numbers of its own that updates take as arrays, by name: `ReplayHyper.own`."""

    def update_noise(self, rng: np.random.Generator, updates: int, rows: int) -> np.ndarray:
        """The randomness [U, ...] of updates on `rows` transitions each; of size 0 where there is none."""

    def step(
        self, train: TrainT, batch: Batch, noise: jax.Array, stats: ObsStats, hyper: ReplayHyper, step_sizes: StepSizes
    ) -> tuple[TrainT, Metrics]:
        """One update on a batch [B, ...], traced; the metrics include `critic_loss` and `gradient_norm`."""

    def exploration_noise(self, stream: int, shape: tuple[int, int], env_steps: int) -> tuple[np.ndarray, ...]:
        """The randomness of actions [T, N] after `env_steps` steps; actions are random in the warm-up."""

    def metrics(self, env_steps: int) -> dict[str, float]:
        """Metrics of an iteration that began after `env_steps` steps, beside those of the updates."""


REPLAY_ALGORITHMS: dict[str, Callable[[ReplaySettings, Engine], ReplayAlgorithm[Any]]] = {
    "sac": Sac,
    "td3": Td3,
    "dqn": Dqn,
}


def make_algorithm(settings: ReplaySettings, engine: Engine) -> ReplayAlgorithm[Any]:
    """The algorithm that the settings name."""
    name = settings.run.algo
    if name not in REPLAY_ALGORITHMS:
        raise unknown("replay algorithm", name, REPLAY_ALGORITHMS, "--algo")
    return REPLAY_ALGORITHMS[name](settings, engine)
