"""What learners with environments share: start, resume and evaluate them, count progress, write checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.collect.compiled_rollouts import (
    Collect,
    CollectState,
    make_collect,
    make_compiled_replay,
    start_compiled,
)
from batchwright.collect.host_rollouts import Act, make_act, make_host_collect, make_replay, start_host
from batchwright.collect.info_log import InfoLog
from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.envs.engines import CompiledEngine, Engine, HostEngine
from batchwright.envs.engines.engine import OnEvent
from batchwright.nets.policy import Policy
from batchwright.runs.checkpoints import load_actions, pack_actions
from batchwright.runs.engine_state import EngineStateT, run_progress
from batchwright.runs.env_attributes import EnvAttributes
from batchwright.runs.evaluation import Evaluator
from batchwright.runs.learner import CheckpointParts, Doctor, Evaluation, IterationResult, Record, SavedCheckpoint
from batchwright.runs.run_settings import RunSettings
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.watch.episode_log import episode_lines


class EngineLearner(ABC, Generic[EngineStateT]):
    """A learner that steps an engine; implements what of `Learner` does not depend on the regime."""

    normalize_obs: bool

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
        self._on_event = on_event
        self.programs = SharedPrograms() if programs is None else programs
        self._evaluator: Evaluator | None = None
        self.actions_since_start: list[np.ndarray] | None = None if self.resumes_from_state else []
        """Actions [T, N, D] per iteration since the engine was started; None where a resume does not replay them."""
        self.info_log = InfoLog(settings.log_info) if settings.log_info else None
        if self.info_log is not None and engine.compiled:
            raise UserError(
                f"--log-info reads info in Python; the engine {engine.name} steps inside of the compiled program.",
                ["--engine gymnasium", "--engine envpool-host"],
            )
        self.attributes = EnvAttributes()
        self.collect = self._make_collect()

    @abstractmethod
    def program_key(self, name: str) -> Hashable:
        """What a compiled program of this learner is made from; learners with equal keys may share it."""

    @property
    @abstractmethod
    def collect_steps(self) -> int:
        """Steps of one call of `collect`."""

    @property
    def resumes_from_state(self) -> bool:
        """Whether the arrays of a checkpoint are all that a resume needs; else environments replay their actions."""
        return self.engine.saves_state

    @abstractmethod
    def start(self) -> EngineStateT: ...

    @abstractmethod
    def iterate(self, state: EngineStateT) -> tuple[EngineStateT, IterationResult]: ...

    @abstractmethod
    def undo(self, state: EngineStateT, before: EngineStateT) -> EngineStateT: ...

    def progress(self, state: EngineStateT) -> float:
        """How much of the run is done, from 0 to 1."""
        return run_progress(self.settings, state.counters)

    def finished(self, state: EngineStateT) -> bool:
        return self.progress(state) >= 1.0 or state.mean_return_reaches(self.settings.stop_return)

    def stopped_early(self, state: EngineStateT) -> bool:
        return self.finished(state) and self.progress(state) < 1.0

    @abstractmethod
    def record(self, state: EngineStateT, result: IterationResult, iteration_seconds: float) -> Record: ...

    def episode_lines(self, state: EngineStateT, result: IterationResult) -> bytes:
        counters, collected = state.counters, result.collected
        assert collected is not None
        before = int(counters.episodes) - int(np.count_nonzero(collected.episodes.ended))
        steps_before = int(counters.env_steps) - collected.env_steps
        return episode_lines(
            int(counters.iteration) - 1,
            steps_before,
            collected.env_steps,
            before,
            collected.episodes,
            self.engine.reward_names,
        )

    def rescue(self, state: EngineStateT, reason: str) -> tuple[EngineStateT, str] | None:
        return None

    def adjust(self, state: EngineStateT, at_checkpoint: bool, doctor: Doctor) -> tuple[EngineStateT, str | None]:
        return state, None

    def evaluate(self, state: EngineStateT) -> Evaluation:
        """Plays whole episodes with exploration off; the seeds are the same at every evaluation."""
        if self._evaluator is None:
            self._evaluator = self.make_evaluator(self.settings.eval_episodes)
        seed = self.streams.number("evaluation", 0)
        try:
            found = self._evaluator(self.policy_params(state), state.obs_stats(self.normalize_obs), seed)
        except Exception:
            self._close_evaluator()  # the next one begins with fresh environments
            raise
        summary = found.summary()
        metrics = {"eval_length_mean": float(found.lengths.mean())}
        if summary["mean"] is not None:
            metrics |= {f"eval_{name}": summary[name] for name in ("mean", "median", "iqm")}
            metrics |= dict(zip(("eval_low", "eval_high"), summary["iqr"], strict=True))
        if "success_rate" in summary:
            metrics["eval_success_rate"] = summary["success_rate"]
        details: dict[str, Any] = {name: summary[name] for name in ("returns", "cut_episodes") if name in summary}
        message = "no finite return" if summary["mean"] is None else f"mean {summary['mean']:g}"
        warnings = found.warnings(self.env, self.settings.eval_max_steps)
        return Evaluation(summary, metrics, "evaluation", message, details, warnings)

    def make_evaluator(self, episodes: int) -> Evaluator:
        """An evaluator; an engine whose state is all in its arrays shares its compiled program with it."""
        settings = self.settings
        if self.engine.saves_state:
            return Evaluator(
                self.engine, self.policy, episodes, settings.eval_max_steps, self.collect, self.collect_steps
            )
        limits = (settings.eval_max_steps, self._on_event, settings.step_timeout)
        return Evaluator.with_own_engine(self.env, self.engine.name, self.policy, episodes, *limits, self._make_act)

    def _close_evaluator(self) -> None:
        if self._evaluator is not None and not self.engine.saves_state:
            self._evaluator.close()
        self._evaluator = None

    @abstractmethod
    def policy_params(self, state: EngineStateT) -> jax.Array:
        """The flat parameter vector of the policy that acts."""

    def before_checkpoint(self, state: EngineStateT) -> EngineStateT:
        """Restarts engines that cannot be saved from derived seeds, in resumed and uninterrupted runs alike."""
        if self.actions_since_start is None:
            return state
        self.actions_since_start.clear()
        self.attributes.restart()
        iteration = int(state.counters.iteration)
        counters = state.counters._replace(engine_started=np.int64(iteration))
        return replace(self.cut_episodes(state), counters=counters, collect_state=self.start_engine(iteration))

    @abstractmethod
    def cut_episodes(self, state: EngineStateT) -> EngineStateT:
        """Forgets what is known of running episodes, because the environments restart."""

    def checkpoint_template(self, state: EngineStateT) -> EngineStateT:
        return state if self.resumes_from_state else replace(state, collect_state=_without_engine(state.collect_state))

    def save(self, state: EngineStateT, shared_folder: Path, scheduled: bool) -> CheckpointParts:
        replays = not scheduled and self.actions_since_start is not None
        files = pack_actions(self.actions_since_start or []) if replays else {}
        about: dict[str, Any] = {"replay": replays, "env": self.env}
        if self.attributes:
            about["attributes"] = self.attributes.to_json()
        return CheckpointParts(self.checkpoint_template(state), about, files)

    def set_env_attribute(self, name: str, value: Any, iteration: int) -> None:
        self.engine.set_attribute(name, value)
        self.attributes.set(name, value, iteration)

    def restart_environments(self, state: EngineStateT) -> EngineStateT:
        """The state with environments that start anew, so that what was set in them holds from their first episode."""
        self.attributes.restart()
        return replace(state, collect_state=self.start_engine(int(state.counters.iteration)))

    def load(self, state: EngineStateT, saved: SavedCheckpoint) -> EngineStateT:
        self.attributes = EnvAttributes.from_json(saved.manifest.get("attributes"))
        replays = not self.resumes_from_state and saved.manifest["replay"]
        self.attributes.apply(self.engine, at_start=replays)
        if self.resumes_from_state:
            return state
        started = int(state.counters.engine_started)
        if not saved.manifest["replay"]:
            return replace(state, collect_state=self.start_engine(started))
        self.actions_since_start = load_actions(saved.folder)
        return replace(state, collect_state=self.replay(started, self.actions_since_start, state.collect_state))

    def start_engine(self, iteration: int) -> CollectState:
        """Fresh environments from seeds that depend on the iteration alone."""
        engine = self.engine
        seed = self.streams.number("environments", iteration)
        if isinstance(engine, HostEngine):
            return start_host(engine, seed)
        assert isinstance(engine, CompiledEngine)
        state = start_compiled(engine, seed)
        if not engine.saves_state:  # its program holds the address of the old environments
            self.collect = self._make_collect()
        return state

    def replay(self, iteration: int, actions: list[np.ndarray], saved: CollectState) -> CollectState:
        """Environments started as at `iteration` and stepped through recorded actions: back to where they were."""
        started = self.start_engine(iteration)
        if isinstance(self.engine, HostEngine):
            step = make_replay(self.engine, self.policy)
            for number, action in enumerate(actions):
                self.attributes.apply_changes(self.engine, iteration + number)
                step(jnp.asarray(action))
            self.attributes.apply_changes(self.engine, iteration + len(actions))
            return saved
        assert isinstance(self.engine, CompiledEngine)
        run = jax.jit(make_compiled_replay(self.engine, self.policy))
        state = started.engine
        for action in actions:
            state = run(state, jnp.asarray(action))
        return saved._replace(engine=state)

    def _make_collect(self) -> Collect:
        if isinstance(self.engine, HostEngine):
            return make_host_collect(self.engine, self.policy, self.collect_steps, self._make_act(), self.info_log)
        assert isinstance(self.engine, CompiledEngine)
        engine = self.engine
        if not engine.saves_state:  # its program holds the address of its environments
            return jax.jit(make_collect(engine, self.policy))
        return self.programs.get(self.program_key("collect"), lambda: jax.jit(make_collect(engine, self.policy)))

    def _make_act(self) -> Act:
        return self.programs.get(self.program_key("act"), lambda: make_act(self.policy))

    def close(self) -> None:
        self.engine.close()
        self._close_evaluator()


def _without_engine(state: CollectState) -> CollectState:
    return state._replace(engine=())
