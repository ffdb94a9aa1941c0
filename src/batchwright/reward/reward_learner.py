"""The learner of reward models: draws subsequences of recorded episodes, updates the network, measures its fit."""

# E episodes.

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.streams import Streams
from batchwright.reward.reward_data import generator, split_episodes
from batchwright.reward.reward_model import RewardModel
from batchwright.reward.reward_settings import RewardSettings
from batchwright.reward.reward_state import RewardState, start_state
from batchwright.runs.engine_learner import digest
from batchwright.runs.learner import CheckpointParts, Doctor, Evaluation, IterationResult, Record, SavedCheckpoint
from batchwright.store.recorded.bank import Bank
from batchwright.watch.agreement import agreement, spearman

Fit = dict[str, dict[str, Any]]
"""Metrics of `agreement` by part of the recording: `held_out`, `training`. None where one cannot be measured."""


class RewardLearner:
    """Learns a reward network from the returns of recorded episodes; implements `Learner[RewardState]`."""

    def __init__(self, settings: RewardSettings, model: RewardModel, bank: Bank) -> None:
        self.settings, self.model, self.bank = settings, model, bank
        self.training_E, self.held_out_E = split_episodes(len(bank.entries), settings.held_out_episodes, settings.seed)

    def start(self) -> RewardState:
        seed = Streams(self.settings.seed).number("reward-network")
        return start_state(self.model, seed, self.model.measure_scales(self.bank, self.training_E))

    def iterate(self, state: RewardState) -> tuple[RewardState, IterationResult]:
        """Draws the subsequences of all updates, then makes all updates in one compiled call."""
        settings, start_seconds = self.settings, time.perf_counter()
        sample = self.bank.draw(
            generator(settings.seed, "rrd-draws", int(state.counters.iteration)),
            self.training_E,
            settings.updates_per_iteration,
            settings.subsequences_per_update,
            settings.subsequence_timesteps,
            settings.redistribute == "full",
        )
        drawn_seconds = time.perf_counter()
        params, opt_state, updated = self.model.update(
            state.params,
            state.opt_state,
            state.scales,
            sample,
            np.float32(settings.learning_rate),
            np.float32(settings.weight_decay),
            unbiased=settings.redistribute == "rrd-unbiased",
        )
        metrics = {name: float(value) for name, value in updated.items()}
        seconds = {"draw": drawn_seconds - start_seconds, "update": time.perf_counter() - drawn_seconds}
        state = replace(state, params=params, opt_state=opt_state)
        non_finite = _locate_non_finite(metrics, state)
        counters = state.counters._replace(
            iteration=state.counters.iteration + 1,
            bad_iterations=np.int64(0) if non_finite is None else state.counters.bad_iterations + 1,
        )
        return replace(state, counters=counters), IterationResult(metrics, seconds, non_finite=non_finite)

    def undo(self, state: RewardState, before: RewardState) -> RewardState:
        return replace(state, params=before.params, opt_state=before.opt_state)

    def rescue(self, state: RewardState, reason: str) -> tuple[RewardState, str] | None:
        return None

    def finished(self, state: RewardState) -> bool:
        return int(state.counters.iteration) >= self.settings.iterations

    def stopped_early(self, state: RewardState) -> bool:
        return False

    def record(self, state: RewardState, result: IterationResult, iteration_seconds: float) -> Record:
        return {
            "iteration": int(state.counters.iteration) - 1,
            "env_steps": 0,
            "updates_total": state.updates,
            **result.metrics,
            "parameters_digest": digest(state.flat_params),
            **{f"{phase}_seconds": seconds for phase, seconds in result.seconds.items()},
            "updates_per_second": self.settings.updates_per_iteration / sum(result.seconds.values()),
        }

    def evaluate(self, state: RewardState) -> Evaluation:
        fit = self.fit(state)
        metrics = {
            f"{part}_{name}": value
            for part, measured in fit.items()
            for name, value in measured.items()
            if name != "episodes"
        }
        return Evaluation(fit, metrics, "fit", _fit_message(fit), fit)

    def fit(self, state: RewardState) -> Fit:
        """How predicted returns agree with true ones, on held-out episodes and on training episodes."""
        bank, constant = self.bank, float(self.bank.return_E[self.training_E].mean())
        fit: Fit = {}
        for part, episodes in (("held_out", self.held_out_E), ("training", self.training_E)):
            if len(episodes) == 0:
                continue
            predicted = [self.predict_episode(state, int(episode)) for episode in episodes]
            sums_E = np.array([rewards.sum(dtype=np.float64) for rewards in predicted])
            fit[part] = agreement(sums_E, bank.return_E[episodes], constant)
            recorded = [rewards for episode in episodes if (rewards := bank.rewards(int(episode))) is not None]
            if recorded:
                fit[part]["step_spearman"] = spearman(np.concatenate(predicted), np.concatenate(recorded))
        return fit

    def predict_episode(self, state: RewardState, episode: int) -> np.ndarray:
        """[T] predicted rewards of one episode."""
        return self.model.predict_episode(state.params, state.scales, self.bank, episode)

    def before_checkpoint(self, state: RewardState) -> RewardState:
        return state

    def adjust(self, state: RewardState, at_checkpoint: bool, doctor: Doctor) -> tuple[RewardState, str | None]:
        return state, None

    def save(self, state: RewardState, shared_folder: Path, scheduled: bool) -> CheckpointParts:
        return CheckpointParts(state, {})

    def load(self, state: RewardState, saved: SavedCheckpoint) -> RewardState:
        return state

    def checkpoint_template(self, state: RewardState) -> RewardState:
        return state

    def close(self) -> None:
        """Nothing to release: the arrays of the recording belong to the caller."""


def _locate_non_finite(metrics: Mapping[str, float], state: RewardState) -> str | None:
    """Which metrics of the updates, or else parameters, are not finite; None where all are."""
    names = [name for name, value in metrics.items() if not np.isfinite(value)]
    if not names and not np.isfinite(state.flat_params).all():
        names = ["parameters"]
    return f"{', '.join(names)} of the reward model not finite" if names else None


def _fit_message(fit: Fit) -> str:
    part = "held_out" if "held_out" in fit else "training"
    return f"error {fit[part]['error']:.4g} on {part.replace('_', '-')} episodes"
