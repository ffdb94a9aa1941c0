"""The environments of a run: an engine and the programs that step it, from its start to its close."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.collect.agent_rollouts import make_python_collect
from batchwright.collect.compiled_rollouts import (
    Collect,
    CollectState,
    make_collect,
    make_compiled_replay,
    start_compiled,
)
from batchwright.collect.host_rollouts import Act, make_act, make_replay, start_host
from batchwright.collect.info_log import InfoLog
from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.envs.engines import CompiledEngine, Engine, HostEngine
from batchwright.envs.engines.engine import OnEvent, ShareSeed
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy
from batchwright.runs.checkpoints import load_actions, pack_actions
from batchwright.runs.env_attributes import EnvAttributes
from batchwright.runs.evaluation import Evaluator
from batchwright.runs.learner import Evaluation, SavedCheckpoint
from batchwright.runs.run_settings import RunSettings
from batchwright.runs.shared_programs import SharedPrograms

DETAILS = ("returns", "cut_episodes", "agents")
"""What of an evaluation its event keeps."""
ProgramKey = Callable[[str], Hashable]
"""From the name of a program to what it is made from; learners with equal keys may share it."""


class EngineSession:
    """Starts, replays, evaluates and closes environments; an iteration reads its attributes alone."""

    def __init__(
        self,
        settings: RunSettings,
        env: str,
        engine: Engine,
        policy: Policy,
        collect_steps: int,
        program_key: ProgramKey,
        programs: SharedPrograms,
        on_event: OnEvent | None = None,
    ) -> None:
        self.settings, self.env, self.engine, self.policy = settings, env, engine, policy
        self.num_rows = engine.num_rows
        self.streams = Streams(settings.seed)
        self._program_key, self._programs, self._on_event = program_key, programs, on_event
        self._evaluator: Evaluator | None = None
        self.actions_since_start: list[np.ndarray] | None = None if self.resumes_from_state else []
        """Actions [T, N, D] per iteration since the engine was started; None where a resume does not replay them."""
        self.info_log = _make_info_log(settings, engine)
        self.attributes = EnvAttributes()
        self.first_env = 0
        """Number of the first environment here among those of all processes: seeds count from it."""
        self.set_collect_steps(collect_steps)

    @property
    def resumes_from_state(self) -> bool:
        """Whether the arrays of a checkpoint are all that a resume needs; else environments replay their actions."""
        return self.engine.saves_state

    def set_collect_steps(self, collect_steps: int) -> None:
        """Goes on with calls of `collect` that take so many steps."""
        self.collect_steps = collect_steps
        self.collect = self._make_collect()

    def start(self, iteration: int) -> CollectState:
        """Fresh environments from seeds that depend on the iteration alone."""
        engine = self.engine
        seed = ShareSeed(self.streams.number("environments", iteration), self.first_env)
        memory = self.policy.initial_memory(self.num_rows)
        if isinstance(engine, HostEngine):
            return start_host(engine, seed)._replace(memory=memory)
        assert isinstance(engine, CompiledEngine)
        state = start_compiled(engine, seed)._replace(memory=memory)
        if not engine.saves_state:  # its program holds the address of the old environments
            self.collect = self._make_collect()
        return state

    def restart(self, iteration: int) -> CollectState:
        """Environments that start anew, with the attributes that hold now from their first episode."""
        self.attributes.restart()
        if self.actions_since_start is not None:
            self.actions_since_start.clear()
        return self.start(iteration)

    def replay(self, iteration: int, actions: list[np.ndarray], saved: CollectState) -> CollectState:
        """Environments started as at `iteration` and stepped through recorded actions: back to where they were."""
        started = self.start(iteration)
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

    def set_attribute(self, name: str, value: Any, iteration: int) -> None:
        """Sets an attribute of every environment, from an iteration on."""
        self.engine.set_attribute(name, value)
        self.attributes.set(name, value, iteration)

    def save(self, scheduled: bool) -> tuple[dict[str, Any], dict[str, list[np.ndarray]]]:
        """(entries of the manifest, files) that bring the environments back."""
        replays = not scheduled and self.actions_since_start is not None
        files = pack_actions(self.actions_since_start or []) if replays else {}
        manifest: dict[str, Any] = {"replay": replays, "env": self.env}
        if self.attributes:
            manifest["attributes"] = self.attributes.to_json()
        return manifest, files

    def load(self, saved: SavedCheckpoint, started: int, collect_state: CollectState) -> CollectState:
        """Where collection stood at a checkpoint; the engine was last started before iteration `started`."""
        self.attributes = EnvAttributes.from_json(saved.manifest.get("attributes"))
        replays = not self.resumes_from_state and saved.manifest["replay"]
        self.attributes.apply(self.engine, at_start=replays)
        if self.resumes_from_state:
            return collect_state
        if not replays:
            return self.start(started)
        self.actions_since_start = load_actions(saved.folder)
        return self.replay(started, self.actions_since_start, collect_state)

    def evaluate(self, params: jax.Array, stats: ObsStats) -> Evaluation:
        """Plays whole episodes with exploration off; the seeds are the same at every evaluation."""
        if self._evaluator is None:
            self._evaluator = self.make_evaluator(self.settings.eval_episodes)
        try:
            found = self._evaluator(params, stats, self.streams.number("evaluation", 0))
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
        metrics |= {f"agent/{name}/eval_mean": mean for name, mean in summary.get("agents", {}).items()}
        details: dict[str, Any] = {name: summary[name] for name in DETAILS if name in summary}
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
        more = (self._make_act, settings.agent_groups)
        return Evaluator.with_own_engine(self.env, self.engine.name, self.policy, episodes, *limits, *more)

    def close(self) -> None:
        self.engine.close()
        self._close_evaluator()

    def _close_evaluator(self) -> None:
        if self._evaluator is not None and not self.engine.saves_state:
            self._evaluator.close()
        self._evaluator = None

    def _make_collect(self) -> Collect:
        engine = self.engine
        if isinstance(engine, HostEngine):
            return make_python_collect(engine, self.policy, self.collect_steps, self._make_act(), self.info_log)
        assert isinstance(engine, CompiledEngine)
        if not engine.saves_state:  # its program holds the address of its environments
            return jax.jit(make_collect(engine, self.policy))
        return self._programs.get(self._program_key("collect"), lambda: jax.jit(make_collect(engine, self.policy)))

    def _make_act(self) -> Act:
        return self._programs.get(self._program_key("act"), lambda: make_act(self.policy))


def _make_info_log(settings: RunSettings, engine: Engine) -> InfoLog | None:
    if not settings.log_info:
        return None
    if engine.compiled:
        raise UserError(
            f"--log-info reads info in Python; the engine {engine.name} steps inside of the compiled program.",
            ["--engine gymnasium", "--engine envpool-host"],
        )
    return InfoLog(settings.log_info)
