"""Replay training: collect transitions, store them, learn from samples of all that is stored."""

# U updates of an iteration, B rows of one, T steps, N environments.

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.data.rollout import CollectResult, Rollout
from batchwright.envs.engines import Engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.envs.reward_components import NO_COMPONENTS
from batchwright.nets.normalise import ObsStats, RunningMoments, batch_moments
from batchwright.nets.policy import Policy
from batchwright.planning.memory import show_bytes
from batchwright.planning.plan import Plan
from batchwright.replay.algorithm import make_algorithm
from batchwright.replay.replay_settings import ReplaySettings, refuse_untrainable_replay
from batchwright.replay.replay_state import ReplayHyper, ReplaySample, ReplayState
from batchwright.replay.replay_update import (
    Learned,
    ReplayUpdate,
    ReplayUpdater,
    RewardModel,
    make_replay_update,
    sample_guided,
    sample_subsequences,
)
from batchwright.runs.engine_learner import (
    RECENT_EPISODES,
    EngineLearner,
    count_iteration,
    digest,
    learning_rate_factor,
    run_progress,
)
from batchwright.runs.learner import CheckpointParts, Counters, IterationResult, Record, SavedCheckpoint
from batchwright.runs.non_finite import locate_in_params, locate_in_rollout
from batchwright.runs.shared_programs import ARRAYS_OF_EVERY_RUN, SharedPrograms, make_shared_engine, program_key
from batchwright.store.replay_buffer import ReplayBuffer, is_finite, stored_rewards
from batchwright.store.replay_files import ReplayFiles

UPDATE_ARRAYS = frozenset(
    {"gamma", "polyak", "updates_per_target", "max_grad_norm", "reward_learning_rate", "warmup_steps", "normalize_obs"}
    | {"exploration_noise", "epsilon_start", "epsilon_end", "epsilon_share", "num_envs", "rollout_steps"}
    | {"steps_per_iteration", "updates_per_step", "reuse", "temperature_start", "target_entropy"}
)
"""Numbers that an update takes as arrays, or that the host applies before it."""
COLLECT_ARRAYS = (
    (UPDATE_ARRAYS - {"num_envs", "rollout_steps", "exploration_noise"})
    | {"updates_per_iteration", "transitions_per_update", "learn_temperature", "replay_transitions", "adam_beta2"}
    | {"batch_bytes", "buffer_bytes", "traffic_bytes_per_iteration"}
)
"""The same of a rollout, and what only the update has."""
EPISODES_FILE = "episodes.npy"
SHOWING = 512
"""Transitions that show what the environment does; a shorter rollout is looked at with those before it."""


class ReplayLearner(EngineLearner[ReplayState]):
    """A replay algorithm with its engine, its buffer and, where rewards are learned, a reward model."""

    def __init__(
        self,
        replay_settings: ReplaySettings,
        env: str,
        engine: Engine,
        on_event: OnEvent | None,
        programs: SharedPrograms | None = None,
    ) -> None:
        self.replay_settings, self.normalize_obs = replay_settings, replay_settings.normalize_obs
        self.algorithm = make_algorithm(replay_settings, engine)
        super().__init__(replay_settings.run, env, engine, self.algorithm.policy, on_event, programs)
        self.reward_model = RewardModel(replay_settings, engine) if replay_settings.learns_rewards else None
        self.buffer = _allocate_buffer(replay_settings, engine, self.policy.heads.action_size)
        self.buffer_files = ReplayFiles(self.buffer)
        compiled = self.programs.get(self.program_key("update"), self._make_update)
        self.update = ReplayUpdater(compiled, replay_settings)
        self._obs_moments = self.programs.get(
            self.program_key("obs-moments"), lambda: jax.jit(_make_obs_moments(self.policy))
        )

    def program_key(self, name: str) -> Hashable:
        values = self.replay_settings.values
        arrays = ARRAYS_OF_EVERY_RUN | (UPDATE_ARRAYS if name == "update" else COLLECT_ARRAYS)
        clips = self.replay_settings.max_grad_norm is not None
        return program_key(name, self.env, values, arrays, clips, self.settings.algo)

    def _make_update(self) -> ReplayUpdate:
        updates_policy = not self.replay_settings.reward_only
        return jax.jit(make_replay_update(self.algorithm, self.reward_model, updates_policy=updates_policy))

    @property
    def collect_steps(self) -> int:
        return self.replay_settings.rollout_steps

    def start(self) -> ReplayState:
        collect_state = self.session.start(0)
        if collect_state.mask is not None:
            algo = self.settings.algo
            raise UserError(f"{self.env} masks actions; {algo} would learn values of forbidden ones.", ["--algo ppo"])
        return ReplayState(
            RunningMoments.empty(self.policy.inputs.vector_size),
            np.full(RECENT_EPISODES, np.nan),
            Counters.zero(),
            collect_state,
            self.algorithm.init(self.streams),
            None if self.reward_model is None else self.reward_model.init(self.streams),
        )

    def iterate(self, state: ReplayState) -> tuple[ReplayState, IterationResult]:
        """Collects with the policy as it is, stores the rollout, then makes all updates in one compiled call."""
        stats, hyper = state.obs_stats(self.normalize_obs), self.hyper(run_progress(self.settings, state.counters))
        start = time.perf_counter()
        collected = self._collect_rollout(state, stats)
        collect_end = time.perf_counter()
        stored = self._store(collected)
        sample = self.sample(int(state.counters.iteration)) if stored and self._can_update(state) else None
        sample_end = time.perf_counter()
        learned = self.update(state.train, state.reward_model, self.buffer, stats, hyper, sample)
        update_end = time.perf_counter()
        seconds = {"collect": collect_end - start, "draw": sample_end - collect_end, "update": update_end - sample_end}
        non_finite = self._non_finite_params(learned) if stored else locate_in_rollout(collected.rollout)
        after = self._absorb(state, collected, learned, stored, non_finite)
        metrics = self._metrics(state, after if non_finite is None else state, learned, hyper)
        messages = self._messages(state, learned.updates)
        params_before = None if non_finite is None else state.train.params
        return after, IterationResult(metrics, seconds, collected, non_finite, params_before, messages)

    def _collect_rollout(self, state: ReplayState, stats: ObsStats) -> CollectResult:
        iteration, env_steps = int(state.counters.iteration), int(state.counters.env_steps)
        settings = self.replay_settings
        shape = settings.rollout_steps, settings.num_envs
        steps = self.steps_of_exploration(env_steps)
        noise = self.algorithm.exploration_noise(self.streams.number("actions", iteration), shape, steps)
        collect_state, rollout, episodes = self.session.collect(state.train.params, stats, state.collect_state, noise)
        jax.block_until_ready(rollout)  # type: ignore[no-untyped-call]
        if self.session.actions_since_start is not None:
            self.session.actions_since_start.append(np.asarray(rollout.action))
        recent = partial(self.buffer.recent, SHOWING) if settings.steps_per_iteration < SHOWING else None
        return CollectResult(
            collect_state, rollout, episodes, rollout.action, settings.steps_per_iteration, recent=recent
        )

    def steps_of_exploration(self, env_steps: int) -> int:
        """The steps that schedules of exploration go by."""
        return env_steps

    def _store(self, collected: CollectResult) -> bool:
        """Puts a rollout into the buffer; False where a number is not finite: such rollouts never enter it."""
        if not is_finite(collected.rollout):
            self.buffer.cut()
            return False
        rewards = stored_rewards(collected.rollout, collected.episodes, self.replay_settings.episodic_reward)
        self.buffer.add(collected.rollout, rewards, collected.episodes, collected.collect_state.lengths)
        return True

    def _can_update(self, state: ReplayState) -> bool:
        """After the warm-up; where rewards are made of returns, not before an episode has ended."""
        if state.counters.env_steps < self.replay_settings.warmup_steps:
            return False
        if self.replay_settings.redistribute is None:
            return self.buffer.transitions > 0
        return len(self.buffer.table.whole().first) > 0

    def sample(self, iteration: int) -> ReplaySample:
        """The rows of all updates of an iteration, and their noise."""
        settings, buffer = self.replay_settings, self.buffer
        rng = np.random.Generator(np.random.PCG64(self.streams.number("replay-draws", iteration)))
        updates, rows = settings.updates_per_iteration, settings.transitions_per_update
        guidance = None
        if settings.redistribute == "ircr":
            transitions, guidance = sample_guided(buffer, rng, updates, rows)
        else:
            transitions = buffer.draw_transitions(rng, updates * rows)
        transitions = jax.tree.map(lambda x: x.reshape(updates, rows, *x.shape[1:]), transitions)
        noise = self.algorithm.update_noise(rng, updates, rows)
        rewards = sample_subsequences(buffer, rng, settings) if self.reward_model is not None else None
        return ReplaySample(transitions, guidance, rewards, noise)

    def hyper(self, progress: float) -> ReplayHyper:
        """All hyper-parameters when this share of the run is done."""
        settings = self.replay_settings
        factor = learning_rate_factor(settings.learning_rate_schedule, progress)
        return ReplayHyper(
            learning_rate=np.float32(settings.learning_rate * factor),
            reward_learning_rate=np.float32(settings.reward_learning_rate * factor),
            gamma=np.float32(settings.gamma),
            polyak=np.float32(settings.polyak),
            updates_per_target=np.int32(settings.updates_per_target),
            max_grad_norm=np.float32(settings.max_grad_norm or 0.0),
            warmup_updates=np.float32(settings.warmup_updates),
            own={name: np.float32(value) for name, value in self.algorithm.hyper().items()},
        )

    def _absorb(
        self, state: ReplayState, collected: CollectResult, learned: Learned, stored: bool, non_finite: str | None
    ) -> ReplayState:
        """The state after an iteration: new parameters, observation statistics and counters."""
        obs = state.obs
        if stored and self.normalize_obs and self.policy.inputs.vectors:
            obs = obs.merge(*self._obs_moments(collected.rollout))
        after = replace(state, obs=obs, train=learned.train, reward_model=learned.reward_model)
        return count_iteration(after, collected, bad=non_finite is not None)

    def _non_finite_params(self, learned: Learned) -> str | None:
        if learned.finite:
            return None
        loss = self.loss_of(learned)
        if np.isfinite(np.asarray(learned.train.params)).all():
            return f"a critic, target or reward parameter is not finite after the update (loss {loss})"
        return locate_in_params(learned.train.params, self.policy, learned.metrics | {"loss": loss})

    def loss_of(self, learned: Learned) -> float:
        """The loss that the record shows."""
        return learned.metrics["critic_loss"]

    def _metrics(self, before: ReplayState, kept: ReplayState, learned: Learned, hyper: ReplayHyper) -> Record:
        """Metrics of the record; `kept` has the parameters that the run goes on with."""
        steps = self.steps_of_exploration(int(before.counters.env_steps))
        metrics: Record = learned.metrics | self.algorithm.metrics(steps)
        if learned.updates:
            metrics["loss"] = self.loss_of(learned)
            metrics["updates_per_step"] = learned.updates / self.replay_settings.steps_per_iteration
        return metrics | {
            "updates": learned.updates,
            "updates_total": int(kept.train.updates),
            "replay_transitions": self.buffer.transitions,
            "learning_rate": float(hyper.learning_rate),
            "parameters_digest": digest(kept.train_arrays()),
        }

    def _messages(self, state: ReplayState, updates: int) -> tuple[str, ...]:
        """One warning at the end of the warm-up, where rewards made of returns still have no return to go by."""
        beyond = int(state.counters.env_steps) - self.replay_settings.warmup_steps
        if updates or not 0 <= beyond < self.replay_settings.steps_per_iteration:
            return ()
        return ("no episode has ended and stands whole in the buffer: no update is made until one does",)

    def undo(self, state: ReplayState, before: ReplayState) -> ReplayState:
        """Without the last updates; the buffer holds finite rows only and keeps them."""
        return replace(state, train=before.train, reward_model=before.reward_model)

    def cut_episodes(self, state: ReplayState) -> ReplayState:
        """Running episodes are cut in the buffer, as truncated."""
        self.buffer.cut()
        return state

    def policy_params(self, state: ReplayState) -> jax.Array:
        params: jax.Array = state.train.params
        return params

    def save(self, state: ReplayState, shared_folder: Path, scheduled: bool) -> CheckpointParts:
        parts = super().save(state, shared_folder, scheduled)
        files = {**parts.files, EPISODES_FILE: [self.buffer.table.to_array()]}
        return replace(parts, files=files, shared=self.buffer_files.save(shared_folder))

    def load(self, state: ReplayState, saved: SavedCheckpoint) -> ReplayState:
        self.buffer.table.take(np.load(saved.folder / EPISODES_FILE, allow_pickle=False)[0])
        self.buffer_files.load(saved.shared_folder, saved.manifest["shared"])
        return super().load(state, saved)


def _make_obs_moments(policy: Policy) -> Callable[[Rollout], tuple[jax.Array, jax.Array, jax.Array]]:
    def obs_moments(rollout: Rollout) -> tuple[jax.Array, jax.Array, jax.Array]:
        early = jax.tree.map(lambda x: x[:-1], rollout.obs)
        rows = policy.inputs.vector(early).reshape(-1, policy.inputs.vector_size)
        return batch_moments(rows, rollout.valid.reshape(-1).astype(jnp.float32))

    return obs_moments


def _allocate_buffer(settings: ReplaySettings, engine: Engine, action_size: int) -> ReplayBuffer:
    try:
        return ReplayBuffer(
            engine.observation,
            action_size,
            settings.replay_transitions,
            settings.num_envs,
            settings.store_next_obs,
            settings.on_device,
            settings.stacked_frames,
        )
    except (MemoryError, RuntimeError) as error:
        smaller = max(1, settings.replay_transitions // 2)
        raise UserError(
            f"the replay buffer of {show_bytes(settings.buffer_bytes)} cannot be allocated: {error}.",
            [f"--replay-transitions {smaller}"],
        ) from error


def make_replay_learner(
    plan: Plan,
    env: str,
    on_event: OnEvent | None = None,
    kind: type[ReplayLearner] = ReplayLearner,
    programs: SharedPrograms | None = None,
) -> ReplayLearner:
    """The learner of a replay plan: programs are compiled on first use, the buffer's memory is taken here."""
    refuse_untrainable_replay(plan)
    settings = ReplaySettings.from_plan(plan)
    engine = make_shared_engine(
        programs,
        env,
        settings.num_envs,
        settings.engine,
        num_threads=settings.num_threads,
        on_event=on_event,
        components=NO_COMPONENTS,
        step_timeout=settings.run.step_timeout,
        info_keys=settings.run.log_info,
    )
    return kind(settings, env, engine, on_event, programs)


def make_replay_policy(plan: Plan, engine: Engine) -> Policy:
    """The policy that a replay plan describes."""
    return make_algorithm(ReplaySettings.from_plan(plan), engine).policy
