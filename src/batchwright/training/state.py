"""Everything that a run carries from one iteration to the next, and all that a checkpoint must hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batchwright.nets.normalise import Running
from batchwright.nets.policy import ObsStats
from batchwright.training.update import Learner

RECENT_EPISODES = 100


class Moments(NamedTuple):
    """A `Running` as plain arrays."""

    count: Any
    mean: Any
    squares: Any

    @classmethod
    def of(cls, running: Running) -> Moments:
        return cls(np.float64(running.count), running.mean, running.squares)

    @property
    def running(self) -> Running:
        return Running(float(self.count), np.asarray(self.mean), np.asarray(self.squares))

    def obs_stats(self, enabled: bool) -> ObsStats:
        """Mean and spread as float32; observations as they are where nothing is normalised."""
        running = self.running
        plain = np.zeros(running.mean.shape, np.float32), np.ones(running.mean.shape, np.float32)
        if not enabled:
            return ObsStats(*plain, limit=np.float32(np.inf))
        if running.count < 2:
            return ObsStats(*plain)
        return ObsStats(np.asarray(running.mean, np.float32), np.asarray(running.std, np.float32))


class Counters(NamedTuple):
    """Whole numbers of the run so far."""

    iteration: Any
    env_steps: Any
    """Steps asked of environments, resets included: what budgets count."""
    transitions: Any
    episodes: Any
    engine_started: Any
    """The iteration before which the engine was last started; with the seed it gives the engine's seed."""
    bad_iterations: Any
    """Iterations in a row whose update was rolled back."""

    @classmethod
    def zero(cls) -> Counters:
        return cls(*(np.int64(0) for _ in cls._fields))


class ComponentState(NamedTuple):
    """What is known of reward components [K], all in float64."""

    rewards: Moments
    """Of the rewards of single steps."""
    returns: Moments
    """Of the running discounted return of each."""
    outputs: Moments
    """The same of what tier one made of them."""
    low: Any
    high: Any
    terminates: Any
    """Whether an episode has ever ended by itself."""
    carry: Any  # [N, K]: discounted sums of running episodes
    output_carry: Any  # [N, K]
    said_nested: Any
    said_constant: Any  # [K]
    said_sum: Any


class TrainState(NamedTuple):
    """One run between two iterations."""

    learner: Learner
    obs: Moments
    rewards: Moments
    """Of the running discounted return."""
    reward_carry: Any  # [N]
    targets: Moments
    """Of value targets."""
    recent_returns: Any  # [RECENT_EPISODES] of the last training episodes, oldest first, NaN where there were fewer
    counters: Counters
    position: Any
    components: Any = None
    """`ComponentState` where the reward has components."""
    remedies: Any = None
    """`Remedies` where the doctor may act."""

    def solved(self, stop_return: float | None) -> bool:
        """Whether the mean return of the last episodes has reached what the user called enough."""
        return stop_return is not None and bool(np.mean(self.recent_returns) >= stop_return)

    def obs_stats(self, enabled: bool) -> ObsStats:
        """The statistics that observations are normalised with."""
        return self.obs.obs_stats(enabled)
