"""Learners that step an engine: their state, the count of their progress, and their line of the metric record."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from batchwright.collect.compiled_rollouts import CollectState
from batchwright.core.streams import Streams
from batchwright.data.rollout import CollectResult, Episodes
from batchwright.envs.engines import Engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.nets.normalise import ObsStats, RunningMoments
from batchwright.nets.policy import Policy
from batchwright.runs.engine_session import EngineSession
from batchwright.runs.evaluation import agent_means
from batchwright.runs.learner import (
    CheckpointParts,
    Counters,
    Doctor,
    Evaluation,
    IterationResult,
    Record,
    SavedCheckpoint,
)
from batchwright.runs.run_settings import RunSettings
from batchwright.runs.shared_programs import SharedPrograms

RECENT_EPISODES = 100
DIGEST_SUMS = 4096
ODD_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: its multiples spread over all bits (Knuth, The Art of Computer Programming, 6.4)."""


@dataclass(frozen=True)
class EngineState:
    """The state of a learner with environments, between two iterations. Subclasses add `train` and more."""

    obs: RunningMoments
    """Of observations, for their normalisation."""
    recent_returns: np.ndarray
    """[RECENT_EPISODES] of the last training episodes, oldest first, NaN where there were fewer."""
    counters: Counters
    collect_state: CollectState

    def obs_stats(self, enabled: bool) -> ObsStats:
        """The statistics that observations are normalised with."""
        return self.obs.obs_stats(enabled)

    def mean_return_reaches(self, stop_return: float | None) -> bool:
        """Whether the mean return of the last `RECENT_EPISODES` episodes is at least `stop_return`."""
        return stop_return is not None and bool(np.mean(self.recent_returns) >= stop_return)


EngineStateT = TypeVar("EngineStateT", bound=EngineState)


class EngineLearner(ABC, Generic[EngineStateT]):
    """Implements what of `Learner` does not depend on the regime; the environments are those of its session."""

    normalize_obs: bool
    session_type: type[EngineSession] = EngineSession

    def __init__(
        self,
        settings: RunSettings,
        env: str,
        engine: Engine,
        policy: Policy,
        on_event: OnEvent | None = None,
        programs: SharedPrograms | None = None,
    ) -> None:
        self.settings, self.env, self.engine, self.policy = settings, env, engine, policy
        self.streams = Streams(settings.seed)
        self.programs = SharedPrograms() if programs is None else programs
        self.session = self.session_type(
            settings, env, engine, policy, self.collect_steps, self.program_key, self.programs, on_event
        )

    @abstractmethod
    def program_key(self, name: str) -> Hashable:
        """What a compiled program of this learner is made from; learners with equal keys may share it."""

    @property
    @abstractmethod
    def collect_steps(self) -> int:
        """Steps of one call of the session's `collect`."""

    @abstractmethod
    def start(self) -> EngineStateT: ...

    @abstractmethod
    def iterate(self, state: EngineStateT) -> tuple[EngineStateT, IterationResult]: ...

    @abstractmethod
    def undo(self, state: EngineStateT, before: EngineStateT) -> EngineStateT: ...

    @abstractmethod
    def policy_params(self, state: EngineStateT) -> jax.Array:
        """The flat parameter vector of the policy that acts."""

    @abstractmethod
    def cut_episodes(self, state: EngineStateT) -> EngineStateT:
        """Forgets what is known of running episodes, because the environments restart."""

    def progress(self, state: EngineStateT) -> float:
        """How much of the run is done, from 0 to 1."""
        return run_progress(self.settings, state.counters)

    def finished(self, state: EngineStateT) -> bool:
        return self.progress(state) >= 1.0 or state.mean_return_reaches(self.settings.stop_return)

    def stopped_early(self, state: EngineStateT) -> bool:
        return self.finished(state) and self.progress(state) < 1.0

    def record(self, state: EngineStateT, result: IterationResult, iteration_seconds: float) -> Record:
        record = iteration_record(state.counters, result, iteration_seconds)
        return record | (self.session.info_log.take() if self.session.info_log is not None else {})

    def rescue(self, state: EngineStateT, reason: str) -> tuple[EngineStateT, str] | None:
        return None

    def adjust(self, state: EngineStateT, at_checkpoint: bool, doctor: Doctor) -> tuple[EngineStateT, str | None]:
        return state, None

    def evaluate(self, state: EngineStateT) -> Evaluation:
        return self.session.evaluate(self.policy_params(state), state.obs_stats(self.normalize_obs))

    def before_checkpoint(self, state: EngineStateT) -> EngineStateT:
        """Restarts engines that cannot be saved from derived seeds, in resumed and uninterrupted runs alike."""
        if self.session.resumes_from_state:
            return state
        counters = state.counters._replace(engine_started=np.int64(state.counters.iteration))
        return self.restart_environments(replace(self.cut_episodes(state), counters=counters))

    def restart_environments(self, state: EngineStateT) -> EngineStateT:
        """The state with environments that start anew, so that what was set in them holds from their first episode."""
        return replace(state, collect_state=self.session.restart(int(state.counters.iteration)))

    def set_env_attribute(self, name: str, value: Any, iteration: int) -> None:
        self.session.set_attribute(name, value, iteration)

    def checkpoint_template(self, state: EngineStateT) -> EngineStateT:
        if self.session.resumes_from_state:
            return state
        return replace(state, collect_state=state.collect_state._replace(engine=()))

    def save(self, state: EngineStateT, shared_folder: Path, scheduled: bool) -> CheckpointParts:
        return CheckpointParts(self.checkpoint_template(state), *self.session.save(scheduled))

    def load(self, state: EngineStateT, saved: SavedCheckpoint) -> EngineStateT:
        started = int(state.counters.engine_started)
        return replace(state, collect_state=self.session.load(saved, started, state.collect_state))

    def close(self) -> None:
        self.session.close()


def count_iteration(state: EngineStateT, collected: CollectResult, bad: bool) -> EngineStateT:
    """The state with the steps and episodes of one more iteration; `bad` where its update must be undone."""
    counters, ended = state.counters, np.asarray(collected.episodes.ended)
    returns, valid = np.asarray(collected.episodes.returns)[ended], (collected.all_rewards or collected.rollout).valid
    return replace(
        state,
        recent_returns=np.concatenate([state.recent_returns, returns])[-len(state.recent_returns) :],
        collect_state=collected.collect_state,
        counters=counters._replace(
            iteration=counters.iteration + 1,
            env_steps=counters.env_steps + collected.env_steps,
            transitions=counters.transitions + int(np.asarray(valid).sum()),
            episodes=counters.episodes + int(ended.sum()),
            bad_iterations=counters.bad_iterations + 1 if bad else np.int64(0),
        ),
    )


def run_progress(settings: RunSettings, counters: Counters) -> float:
    """How much of a run is done, from 0 to 1: of its iterations, or of its steps where iterations are not planned."""
    if settings.iterations is None:
        return float(int(counters.env_steps) / settings.total_steps)
    return float(int(counters.iteration) / settings.iterations)


def learning_rate_factor(schedule: str, progress: float) -> float:
    """What the learning rate is multiplied with; 1 for constant and KL-adaptive rates."""
    if schedule == "linear":
        return 1.0 - progress
    return 0.5 * (1.0 + math.cos(math.pi * progress)) if schedule == "cosine" else 1.0


def iteration_record(counters: Counters, result: IterationResult, iteration_seconds: float) -> Record:
    """Counters, episodes, metrics of the updates and times of one iteration."""
    assert result.collected is not None
    record = _progress_metrics(counters)
    record |= _episode_metrics(result.collected.episodes, result.reward_names, result.agents) | result.metrics
    record |= {f"{phase}_seconds": seconds for phase, seconds in result.seconds.items()}
    record["wait_seconds"] = max(0.0, iteration_seconds - sum(result.seconds.values()))
    record["steps_per_second"] = result.collected.env_steps / iteration_seconds
    return record


def _progress_metrics(counters: Counters) -> Record:
    return {
        "iteration": int(counters.iteration) - 1,
        "env_steps": int(counters.env_steps),
        "transitions": int(counters.transitions),
        "episodes_total": int(counters.episodes),
    }


def _episode_metrics(episodes: Episodes, reward_names: tuple[str, ...], agents: tuple[str, ...]) -> Record:
    """Returns and lengths of the episodes that ended, and what only some environments give."""
    ended = np.asarray(episodes.ended)
    returns, lengths = np.asarray(episodes.returns)[ended], np.asarray(episodes.lengths)[ended]
    record: Record = {"episodes": len(returns)}
    if len(returns):
        with np.errstate(invalid="ignore"):  # infinite returns, which the record names
            spread = float(returns.std(dtype=np.float64))
        record |= {
            "episode_return": float(returns.mean(dtype=np.float64)),
            "episode_return_std": spread,
            "episode_return_min": float(returns.min()),
            "episode_return_max": float(returns.max()),
            "episode_length": float(lengths.mean()),
        }
    if episodes.components is not None and len(returns):
        means = np.asarray(episodes.components)[ended].mean(0, dtype=np.float64)
        record |= {f"component/{name}/return": float(mean) for name, mean in zip(reward_names, means, strict=True)}
    if episodes.agents is not None and len(returns):
        means = agent_means(np.asarray(episodes.agents)[ended], agents)
        record |= {f"agent/{name}/return": mean for name, mean in means.items()}
    if episodes.success is not None:
        success = np.asarray(episodes.success)[ended]
        if np.isfinite(success).any():
            record["success_rate"] = float(np.nanmean(success, dtype=np.float64))
    return record


def digest(array: jax.Array | np.ndarray) -> str:
    """A short fingerprint of an array's bytes: equal digests, equal bits.

    Of a large array, sums of its words are hashed: BLAKE2b alone takes 3.5 ms for the 3 MB of a SAC learner, as long as
    an update, the sums 0.8 ms.
    """
    data = np.ascontiguousarray(array).tobytes()
    if len(data) > 8 * DIGEST_SUMS:
        data = _word_sums(data).tobytes()
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _word_sums(data: bytes) -> np.ndarray:
    """`DIGEST_SUMS` sums modulo 2^64 of the words of 8 bytes, each with an odd factor by its place.

    The shift before it lets a change of the highest bit alone, a sign, reach bits that factors spread.
    """
    rows = -(-len(data) // (8 * DIGEST_SUMS))
    words = np.zeros(rows * DIGEST_SUMS, np.uint64)
    words.view(np.uint8)[: len(data)] = np.frombuffer(data, np.uint8)
    words ^= words >> np.uint64(32)
    factor = (2 * np.arange(rows, dtype=np.uint64) + np.uint64(1)) * ODD_FACTOR
    sums: np.ndarray = (words.reshape(rows, DIGEST_SUMS) * factor[:, None]).sum(0)
    return sums
