"""On-policy learning: one iteration collects a rollout, computes advantages for all of it, and makes the updates."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from batchwright.data.rollout import CollectResult, Rollout
from batchwright.envs.engines import Engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.envs.masks import refuse_empty
from batchwright.nets.normalise import ObsStats, RunningMoments
from batchwright.nets.param_roles import value_only_params
from batchwright.nets.policy import Policy
from batchwright.on_policy.agent_rows import GROUP_METRICS, empty_moments
from batchwright.on_policy.component_stats import ComponentTracker
from batchwright.on_policy.initial_train_state import start_train_state
from batchwright.on_policy.normalisation import RolloutMoments, make_measure, merge_obs, merge_rewards, merge_targets
from batchwright.on_policy.on_policy_programs import compile_ahead, on_policy_program_key
from batchwright.on_policy.on_policy_settings import OnPolicySettings, Schedule
from batchwright.on_policy.on_policy_state import Hyper, OnPolicyState, TrainState
from batchwright.on_policy.on_policy_update import Update, make_update
from batchwright.on_policy.remedies import apply_remedy, decision_is_due, rescue, resized_plan, start_remedies
from batchwright.on_policy.rollout_noise import NOISE_EVERY, noise_measure
from batchwright.planning.plan import Plan
from batchwright.runs.engine_learner import (
    RECENT_EPISODES,
    EngineLearner,
    count_iteration,
    digest,
    learning_rate_factor,
)
from batchwright.runs.learner import Counters, Doctor, IterationResult, Record, SavedCheckpoint
from batchwright.runs.non_finite import locate_in_params, locate_in_rollout
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.store.minibatches import shuffled_orders

NOT_RECORDED = {"finite_rollout", "finite_parameters", "empty_masks", "transitions", "target_mean", "target_squares"}
NOT_RECORDED |= {*GROUP_METRICS}
"""Metrics that only the learner itself needs."""


class ScaledRollout(NamedTuple):
    """What a rollout's rewards change before its update."""

    state: OnPolicyState
    """With the statistics of the rewards merged."""
    hyper: Hyper
    moments: RolloutMoments | None
    """Where observations or rewards are normalised."""
    messages: tuple[str, ...] = ()


class OnPolicyLearner(EngineLearner[OnPolicyState]):
    """PPO, A2C and REINFORCE on rollouts of a fixed number of steps."""

    column = "environment"
    """What lies side by side in a rollout."""

    def __init__(
        self,
        plan: Plan,
        settings: OnPolicySettings,
        env: str,
        engine: Engine,
        policy: Policy,
        on_event: OnEvent | None,
        programs: SharedPrograms | None = None,
    ) -> None:
        self.plan, self.on_policy_settings, self.gamma = plan, settings, np.float32(settings.constants.gamma)
        self.normalize_obs = settings.normalize_obs
        super().__init__(settings.run, env, engine, policy, on_event, programs)
        normalises = settings.normalize_obs or settings.normalize_rewards
        measure_key = self.program_key("measure") if normalises else "nothing to measure"
        self._measure = self.programs.get(measure_key, lambda: make_measure(settings, policy))
        self._noise = noise_measure(settings, policy, self.programs, self.program_key("noise"))
        self._components = ComponentTracker.make(settings, self.programs) if settings.components else None
        factor_matters = settings.constants.value_rate_factor != 1.0
        self._value_only = value_only_params(policy, jax.random.key(0)) if factor_matters else np.zeros(1, bool)
        self._update_is_new = self.program_key("update") not in self.programs
        self.update = self._shared_update()
        self._compiling: threading.Thread | None = None

    def program_key(self, name: str) -> Hashable:
        return on_policy_program_key(name, self.env, self.plan)

    @property
    def collect_steps(self) -> int:
        return self.on_policy_settings.rollout_steps

    def start(self) -> OnPolicyState:
        settings = self.on_policy_settings
        params = self.policy.init(jax.random.key(self.streams.number("parameters", 0)))
        state = OnPolicyState(
            obs=empty_moments(self.policy),
            recent_returns=np.full(RECENT_EPISODES, np.nan),
            counters=Counters.zero(),
            collect_state=self.session.start(0),
            train=start_train_state(params, settings.update),
            rewards=RunningMoments.empty(1),
            reward_carry=np.zeros(settings.columns, np.float32),
            targets=RunningMoments.empty(1),
            components=None if self._components is None else self._components.start(settings.columns),
        )
        self._compiling = self._compile_update_ahead(state)
        if settings.run.doctor != "act":
            return state
        return replace(state, remedies=start_remedies(state, settings.rollout_steps))

    def iterate(self, state: OnPolicyState) -> tuple[OnPolicyState, IterationResult]:
        """Collects a rollout, then computes its advantages and makes all updates in one compiled call."""
        stats, start = state.obs_stats(self.normalize_obs), time.perf_counter()
        collected = self.collect_rollout(state, stats)
        collect_end = time.perf_counter()
        if self._components is not None:
            rollout = self._components.with_success(collected.rollout, collected.episodes)
            collected = collected._replace(rollout=rollout)
        scaled = self._absorb_rewards(state, collected)
        order = self.minibatch_order(int(state.counters.iteration), collected.rollout)
        if self._compiling is not None:
            self._compiling.join()
            self._compiling = None
        noise = {}
        if self._noise is not None and int(state.counters.iteration) % NOISE_EVERY == NOISE_EVERY - 1:
            noise = self._noise(state.train, collected.rollout, stats, scaled.hyper).to_floats()
        train, packed = self.update(state.train, collected.rollout, stats, scaled.hyper, order)
        metrics = packed.to_floats() | noise
        non_finite = self._find_non_finite(collected.rollout, metrics, train.params)
        after = self._absorb_update(scaled, train, collected, metrics, non_finite is not None)
        result = IterationResult(
            metrics=self._recorded_metrics(metrics, scaled.hyper, collected),
            seconds={"collect": collect_end - start, "update": time.perf_counter() - collect_end},
            collected=collected,
            non_finite=non_finite,
            params_before=None if non_finite is None else state.train.params,
            messages=scaled.messages,
            reward_names=self.engine.reward_names,
            agents=self.engine.agents,
        )
        return after, result

    def collect_rollout(self, state: OnPolicyState, stats: ObsStats) -> CollectResult:
        """The rollout of the next iteration."""
        noise = self.noise(int(state.counters.iteration))
        collect_state, rollout, episodes = self.session.collect(state.train.params, stats, state.collect_state, noise)
        jax.block_until_ready(rollout)  # type: ignore[no-untyped-call]
        return CollectResult(collect_state, rollout, episodes, rollout.action, int(np.size(episodes.ended)))

    def noise(self, *counters: int) -> tuple[np.ndarray, ...]:
        """The randomness of all actions of one call of `collect`."""
        shape = (self.collect_steps, self.session.num_rows)
        return self.policy.heads.noise(self.streams.number("actions", *counters), shape)

    def minibatch_order(self, iteration: int, rollout: Rollout) -> Any:
        """The order of rows in every epoch of an iteration [E, B]."""
        settings = self.on_policy_settings
        rows = settings.columns * settings.rollout_steps
        return shuffled_orders(self.streams.number("minibatch-order", iteration), rows, settings.update.epochs)

    def hyper(self, state: OnPolicyState) -> Hyper:
        """Hyper-parameters of the next update: schedules by progress, scales by the running statistics."""
        settings, rewards, targets = self.on_policy_settings, state.rewards, state.targets
        scale = float(rewards.std[0]) if settings.normalize_rewards and rewards.count > 1 else 1.0
        pace = 1.0 if state.remedies is None else float(state.remedies.entropy_pace)
        target = float(targets.mean[0]), float(targets.std[0])
        return scheduled_hyper(settings, self.progress(state), int(state.counters.episodes), scale, target, pace)

    def progress(self, state: OnPolicyState) -> float:
        """How much of the run is done; by steps where the doctor may change the length of rollouts."""
        if state.remedies is not None:
            return float(int(state.counters.env_steps) / self.settings.actual_steps)
        return super().progress(state)

    def undo(self, state: OnPolicyState, before: OnPolicyState) -> OnPolicyState:
        """PopArt's statistics and the parameters on their scale go back together."""
        return replace(state, train=before.train, targets=before.targets)

    def rescue(self, state: OnPolicyState, reason: str) -> tuple[OnPolicyState, str] | None:
        return None if state.remedies is None else rescue(state, state.remedies, reason)

    def record(self, state: OnPolicyState, result: IterationResult, iteration_seconds: float) -> Record:
        record = super().record(state, result, iteration_seconds)
        record["updates_total"] = int(state.train.updates)
        record["parameters_digest"] = digest(state.train.params)
        return record

    def adjust(self, state: OnPolicyState, at_checkpoint: bool, doctor: Doctor) -> tuple[OnPolicyState, str | None]:
        """Applies a remedy where one is due: what the doctor may change is in `remedies`."""
        if state.remedies is None or not decision_is_due(
            self.settings.iterations, int(state.counters.iteration), at_checkpoint, self.session.resumes_from_state
        ):
            return state, None
        state, message = apply_remedy(state, self.plan, doctor)
        self._follow_rollout_steps(state)
        return state, message

    def load(self, state: OnPolicyState, saved: SavedCheckpoint) -> OnPolicyState:
        self._follow_rollout_steps(state)
        return super().load(state, saved)

    def _follow_rollout_steps(self, state: OnPolicyState) -> None:
        """Goes on with rollouts as long as the doctor has set them: programs of their shape are compiled again."""
        if state.remedies is None or int(state.remedies.rollout_steps) == self.collect_steps:
            return
        self.plan = resized_plan(self.plan, int(state.remedies.rollout_steps))
        self.on_policy_settings = OnPolicySettings.from_plan(self.plan)
        self.session.set_collect_steps(self.collect_steps)
        self.update = self._shared_update()

    def cut_episodes(self, state: OnPolicyState) -> OnPolicyState:
        return state.without_running_episodes()

    def policy_params(self, state: OnPolicyState) -> jax.Array:
        return state.train.params

    def _absorb_rewards(self, state: OnPolicyState, collected: CollectResult) -> ScaledRollout:
        """Merges the statistics of a rollout's rewards and sets the hyper-parameters of its update."""
        moments = None if self._measure is None else self._measure(collected.rollout, state.reward_carry, self.gamma)
        if moments is not None:
            state = merge_rewards(state, moments)
        hyper = self.hyper(state)
        if self._components is None or state.components is None:
            return ScaledRollout(state, hyper, moments)
        iteration = int(state.counters.iteration)
        components, scales, messages = self._components.absorb(state.components, collected, iteration)
        state = replace(state, components=components)
        return ScaledRollout(state, hyper._replace(components=scales), moments, messages)

    def _absorb_update(
        self, scaled: ScaledRollout, train: TrainState, collected: CollectResult, metrics: dict[str, float], bad: bool
    ) -> OnPolicyState:
        """The state after an iteration: new parameters, counters, statistics of observations and value targets."""
        settings = self.on_policy_settings
        state = count_iteration(replace(scaled.state, train=train), collected, bad)
        if scaled.moments is not None:
            state = merge_obs(state, scaled.moments)
        if settings.keeps_targets:
            state = merge_targets(state, metrics, settings.popart, self.policy)
        if self.session.actions_since_start is not None:
            self.session.actions_since_start.append(np.asarray(collected.actions))
        return state

    def _find_non_finite(self, rollout: Rollout, metrics: dict[str, float], params: jax.Array) -> str | None:
        if metrics.get("empty_masks"):
            refuse_empty(self.policy.heads.spec, np.asarray(rollout.mask)[np.asarray(rollout.valid)], self.env)
        if not metrics["finite_rollout"]:
            return locate_in_rollout(rollout, self.column, self.engine.agents)
        return None if metrics["finite_parameters"] else locate_in_params(params, self.policy, metrics)

    def _recorded_metrics(self, metrics: dict[str, float], hyper: Hyper, collected: CollectResult) -> dict[str, float]:
        recorded = {name: value for name, value in metrics.items() if name not in NOT_RECORDED}
        return recorded | {
            "updates": int(metrics["updates"]),
            "entropy_coef": float(hyper.entropy_coef),
            "clip_range": float(hyper.clip_range),
        }

    def _make_update(self) -> Update:
        settings = self.on_policy_settings
        rows = settings.columns * settings.rollout_steps
        return make_update(self.policy, settings.update, rows, self._value_only)

    def _shared_update(self) -> Any:
        return self.programs.get(self.program_key("update"), lambda: jax.jit(self._make_update()))

    def _compile_update_ahead(self, state: OnPolicyState) -> threading.Thread | None:
        """Compiles the update while the first rollout is compiled, where the shape of a rollout is known."""
        known = self.engine.compiled and self.on_policy_settings.rollout_episodes is None and state.components is None
        if not self._update_is_new or not known:
            return None
        stats, collect = state.obs_stats(self.normalize_obs), self.session.collect
        _, rollout, _ = jax.eval_shape(collect, state.train.params, stats, state.collect_state, self.noise(0))
        order = self.minibatch_order(0, rollout)
        return compile_ahead(self.update, state.train, rollout, stats, self.hyper(state), order)


def scheduled_hyper(
    settings: OnPolicySettings,
    progress: float,
    episodes: int = 0,
    reward_scale: float = 1.0,
    target: tuple[float, float] = (0.0, 1.0),
    entropy_pace: float = 1.0,
) -> Hyper:
    """Hyper-parameters after a share `progress` of the run and so many episodes; `target` is (mean, std) of returns."""
    schedule, (target_mean, target_std) = settings.schedule, target
    value_mean, value_std = (target_mean, target_std) if settings.popart else (0.0, 1.0)
    numbers = settings.constants._replace(
        learning_rate=schedule.learning_rate * learning_rate_factor(schedule.learning_rate_schedule, progress),
        clip_range=schedule.clip_range * (1.0 - progress if schedule.clip_schedule == "linear" else 1.0),
        entropy_coef=entropy_coef_at(schedule, progress * entropy_pace, episodes),
        value_clip=settings.value_clip * target_std / value_std,
        reward_scale=reward_scale,
        value_mean=value_mean,
        value_std=value_std,
    )
    # NumPy scalars: the compiled call takes them as they are, JAX ones cost a dispatch each.
    floats: list[Any] = [np.float32(number) for number in numbers[:-1]]
    return Hyper(*floats)


def entropy_coef_at(schedule: Schedule, progress: float, episodes: int) -> float:
    """The coefficient at its start value, then in a line to its end over the last `entropy_anneal` of the run.

    With `entropy_episodes` the line begins at once and goes by finished episodes.
    """
    start, end, share = schedule.entropy_start, schedule.entropy_end, schedule.entropy_anneal
    if schedule.entropy_episodes is not None:
        along = min(1.0, episodes / schedule.entropy_episodes)
    elif share <= 0:
        along = 0.0
    else:
        along = min(1.0, max(0.0, (progress - (1.0 - share)) / share))
    return float(start + (end - start) * along)
