"""Learns the reward network of return decomposition online: collects, fits the network, updates no policy."""

# R rows of several episodes, E episodes.

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.engines import Engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.nets.normalise import RunningMoments
from batchwright.replay.replay_learner import ReplayLearner
from batchwright.replay.replay_settings import ReplaySettings
from batchwright.replay.replay_state import ReplayHyper, ReplaySample, ReplayState
from batchwright.replay.replay_update import Learned, sample_subsequences
from batchwright.runs import checkpoints
from batchwright.runs.launch import open_run
from batchwright.runs.learner import Evaluation, Record
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.store.replay_buffer import gather
from batchwright.watch.agreement import agreement, spearman

FIT_EPISODES = 50
"""Newest whole episodes of the buffer that the fit is measured on."""
ROWS_AT_ONCE = 1024
"""Rows of one prediction, so that one program serves episodes of any length."""


class RewardOnlyLearner(ReplayLearner):
    """Collects with random actions or with the policy of another run, and learns the rewards of single steps."""

    def __init__(
        self,
        settings: ReplaySettings,
        env: str,
        engine: Engine,
        on_event: OnEvent | None,
        programs: SharedPrograms | None = None,
    ) -> None:
        super().__init__(settings, env, engine, on_event, programs)
        assert self.reward_model is not None
        self._predict = jax.jit(self.reward_model.predict)

    def start(self) -> ReplayState:
        state = super().start()
        if self.replay_settings.collecting_run is None:
            return state
        given = read_policy(self.replay_settings)
        if given.params.shape != state.train.params.shape:
            raise UserError(
                f"the policy of {self.replay_settings.collecting_run} has {given.params.size} parameters, that of "
                f"{self.env} with these settings {state.train.params.size}.",
                ["--collecting-run a run of the same environment"],
            )
        return replace(state, obs=given.obs, train=state.train._replace(params=jnp.asarray(given.params)))

    def steps_of_exploration(self, env_steps: int) -> int:
        """Before all steps where actions are random, behind them where a trained policy acts."""
        return -1 if self.replay_settings.collecting_run is None else self.settings.total_steps

    def sample(self, iteration: int) -> ReplaySample:
        rng = np.random.Generator(np.random.PCG64(self.streams.number("replay-draws", iteration)))
        return ReplaySample(None, None, sample_subsequences(self.buffer, rng, self.replay_settings), None)

    def loss_of(self, learned: Learned) -> float:
        return learned.metrics["reward_model_loss"]

    def _metrics(self, before: ReplayState, kept: ReplayState, learned: Learned, hyper: ReplayHyper) -> Record:
        rate = float(hyper.reward_learning_rate)
        return super()._metrics(before, kept, learned, hyper) | {"learning_rate": rate}

    def evaluate(self, state: ReplayState) -> Evaluation:
        """How predicted returns agree with true ones; the policy is not evaluated, as it does not learn."""
        fit = self.fit(state)
        metrics = {f"fit_{name}": value for name, value in fit.items() if name != "episodes"}
        text = "no episode has ended" if not fit else f"error {fit['error']:.4g} on {fit['episodes']} newest episodes"
        return Evaluation({"episodes": fit.get("episodes", 0), "mean": None, "fit": fit}, metrics, "fit", text, fit)

    def fit(self, state: ReplayState) -> dict[str, float | int | None]:
        """`agreement` over the newest episodes of the buffer, which are learned from; empty where none stands whole."""
        spans = self.buffer.table.whole()
        newest = np.argsort(spans.first + spans.length, kind="stable")[-FIT_EPISODES:]
        if len(newest) == 0 or state.reward_model is None:
            return {}
        length_E, return_E = spans.length[newest], spans.episode_return[newest]
        episode_R = np.repeat(np.arange(len(newest)), length_E)
        step_R = np.arange(len(episode_R)) - (np.cumsum(length_E) - length_E)[episode_R]
        step_R = spans.first[newest][episode_R] + step_R
        predicted_R, reward_R = self._rewards(state.reward_model.params, step_R, spans.column[newest][episode_R])
        sum_E = np.bincount(episode_R, predicted_R.astype(np.float64), len(newest))
        fit = agreement(sum_E, return_E, float(return_E.mean()))
        if not self.replay_settings.episodic_reward:
            fit["step_spearman"] = spearman(predicted_R, reward_R)
        return fit

    def _rewards(self, params: jax.Array, step_R: np.ndarray, column_R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(predicted, stored) rewards of steps of the buffer; rows are padded to one shape."""
        predicted, stored = [], []
        for start in range(0, len(step_R), ROWS_AT_ONCE):
            at = np.minimum(np.arange(start, start + ROWS_AT_ONCE), len(step_R) - 1)
            batch = gather(self.buffer.frames, self.buffer.rows_of(step_R[at], column_R[at]))
            predicted.append(np.asarray(self._predict(params, batch)))
            stored.append(np.asarray(batch.reward))
        return np.concatenate(predicted)[: len(step_R)], np.concatenate(stored)[: len(step_R)]


class GivenPolicy(NamedTuple):
    """The policy of another run: its parameters as one vector, and its statistics of observations."""

    params: np.ndarray
    obs: RunningMoments


def read_policy(settings: ReplaySettings) -> GivenPolicy:
    """The policy of `collecting_run`; refused where its algorithm, networks or normalisation are others."""
    run, _, plan = open_run(str(settings.collecting_run))
    ours = {"algo": settings.run.algo, "hidden": settings.values["hidden"], "normalize_obs": settings.normalize_obs}
    for name, wanted in ours.items():
        found = plan.algo if name == "algo" else plan.get(name)
        if found != wanted:
            flag = f"--{name.replace('_', '-')}"
            said = f"{flag} {found}" if not isinstance(found, bool) else flag if found else f"--no-{flag[2:]}"
            raise UserError(f"the policy of {run} has {name} {found}, these settings have {wanted}.", [said])
    stored = checkpoints.load_named(run.checkpoints, partial(warnings.warn, stacklevel=3))
    if stored is None:
        raise UserError(f"{run} has no checkpoint yet.", [f"batchwright resume {run}"])
    arrays, _ = stored
    moments = RunningMoments(np.float64(arrays[".obs.count"]), arrays[".obs.mean"], arrays[".obs.squares"])
    return GivenPolicy(arrays[".train.params"], moments)
