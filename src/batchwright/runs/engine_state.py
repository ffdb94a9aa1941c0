"""The state of a learner with environments, the count of its progress, and its line of the metric record."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TypeVar

import jax
import numpy as np

from batchwright.collect.compiled_rollouts import CollectState
from batchwright.data.rollout import CollectResult, Episodes
from batchwright.nets.normalise import ObsStats, RunningMoments
from batchwright.runs.learner import Counters, IterationResult, Record
from batchwright.runs.run_settings import RunSettings

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


def count_iteration(state: EngineStateT, collected: CollectResult, bad: bool) -> EngineStateT:
    """The state with the steps and episodes of one more iteration; `bad` where its update must be undone."""
    counters, ended = state.counters, np.asarray(collected.episodes.ended)
    returns = np.asarray(collected.episodes.returns)[ended]
    return replace(
        state,
        recent_returns=np.concatenate([state.recent_returns, returns])[-len(state.recent_returns) :],
        collect_state=collected.collect_state,
        counters=counters._replace(
            iteration=counters.iteration + 1,
            env_steps=counters.env_steps + collected.env_steps,
            transitions=counters.transitions + int(np.asarray(collected.rollout.valid).sum()),
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


def iteration_record(
    counters: Counters, result: IterationResult, reward_names: tuple[str, ...], iteration_seconds: float
) -> Record:
    """Counters, episodes, metrics of the updates and times of one iteration."""
    assert result.collected is not None
    record = _progress_metrics(counters) | _episode_metrics(result.collected.episodes, reward_names) | result.metrics
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


def _episode_metrics(episodes: Episodes, reward_names: tuple[str, ...]) -> Record:
    """Returns and lengths of the episodes that ended, and what only some environments give: components, success."""
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
