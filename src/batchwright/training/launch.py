"""A run from wish to result: its directory, its record, its checkpoints, its interrupts."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.config.load import Resolved, resolve
from batchwright.config.save import to_yaml
from batchwright.config.schema import REPLAY
from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.run_dir import RunDir, run_name
from batchwright.data.rollout import Rollout
from batchwright.doctor.finding import Finding
from batchwright.doctor.live import LiveDoctor
from batchwright.doctor.run_history import facts_of
from batchwright.doctor.text import one_line
from batchwright.nets.policy import NetworkMaker
from batchwright.planning.quantity import Plan, counted, plan_from_dict
from batchwright.training import checkpoint
from batchwright.training.build import OWN_NETWORK, Session, build_session
from batchwright.training.done import Done, read_done
from batchwright.training.evaluate import success_rate
from batchwright.training.guard import dump
from batchwright.training.loop import DivergedError, Regime, finished
from batchwright.training.loop import run as run_iterations
from batchwright.training.on_policy import ON_POLICY_REGIME
from batchwright.training.remedies import resized_plan
from batchwright.training.replay import REPLAY_REGIME
from batchwright.training.replay_build import build_replay_session
from batchwright.training.session import EngineSession
from batchwright.training.signals import stop_when_asked
from batchwright.training.state import TrainState
from batchwright.training.threads import take_threads
from batchwright.watch.gauges import AcceleratorGauge, MemoryGauge
from batchwright.watch.lines import RETURN
from batchwright.watch.metric_log import EventLog, MetricLog, read_events, read_metrics
from batchwright.watch.progress import Progress
from batchwright.watch.statistics import MovingStatistics, summarise
from batchwright.watch.writers import make_writers


@dataclass(frozen=True)
class Result:
    """What a run came to."""

    run_dir: Path
    evaluation: dict[str, Any]
    """Of the last policy: episodes, mean, median, iqr, iqm, returns, intervals; empty where the run was interrupted."""
    iterations: int
    env_steps: int
    interrupted: bool = False
    seconds: float = 0.0
    solved: bool | None = None
    """Whether `stop_return` was reached; None where none was stated."""


@dataclass
class Voices:
    """Where a run speaks: the screen and other writers."""

    quiet: bool = False
    writers: tuple[str, ...] = ()
    stream: Any = field(default_factory=lambda: sys.stdout)


def create_run(resolved: Resolved, plan: Plan, path: str | Path | None) -> RunDir:
    """A run directory with its wishes and its plan, ready to be trained."""
    env = _env_of(resolved)
    run = RunDir.create(path, run_name(env, plan.algo, plan["seed"]))
    write_atomically(run.config_path, to_yaml(resolved).encode())
    write_atomically(run.plan_path, plan.to_json().encode())
    return run


def open_run(path: str | Path) -> tuple[RunDir, Resolved, Plan]:
    """A run with its wishes and its plan as they were written."""
    run = RunDir.open(path)
    resolved = resolve(config_file=run.config_path)
    try:
        record = json.loads(run.plan_path.read_text())
        plan = plan_from_dict(record)
        plan = replace(plan, task=replace(plan.task, name=resolved.config.task.env))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{run.plan_path} is damaged: {error}.", ["train anew in another --run-dir"]) from None
    return run, resolved, plan


def continue_run(path: str | Path, voices: Voices, network: NetworkMaker | None = None) -> Result:
    """Trains a run from its last good checkpoint, or from the start where it has none, to the end of its plan."""
    run, resolved, plan = open_run(path)
    if plan["hidden"] == OWN_NETWORK and network is None:
        raise UserError(
            f"{run} was trained with a network of your own.", ["batchwright.resume(run, network=...) in Python"]
        )
    done = read_done(run, plan)
    if done is not None:
        return _show_done(run, plan, done, voices)
    threads, planned = take_threads(plan), plan.get("learner_threads", 1)
    with run.lock(), EventLog(run.events_path) as events:
        watch = _Watch(run, plan, _env_of(resolved), events, voices)
        if threads != planned:
            told = f"updates were planned with {counted(planned, 'thread')}, this process gives them {threads} (NPROC)"
            watch.warn("threads", 0, f"{told}: expect other last digits")
        session, regime = _build(plan, watch, network)
        try:
            return _train(watch, session, regime)
        finally:
            session.close()


def _show_done(run: RunDir, plan: Plan, done: Done, voices: Voices) -> Result:
    """A finished run has nothing left to do: its result is shown again."""
    progress = Progress(plan, voices.stream, quiet=voices.quiet, past=read_metrics(run.metrics_path))
    outcome = f"finished after iteration {done.iterations}: nothing is left to do"
    told = {"evaluation": done.evaluation, "env_steps": done.env_steps, "iterations": done.iterations}
    progress.finish({"outcome": outcome, **told, "run_dir": run})
    return Result(run.path, done.evaluation, done.iterations, done.env_steps, solved=done.solved)


def _build(plan: Plan, watch: _Watch, network: NetworkMaker | None) -> tuple[EngineSession, Regime]:
    if plan.regime == REPLAY:
        return build_replay_session(plan, watch.env, watch.heard), REPLAY_REGIME
    return build_session(plan, watch.env, network=network, on_event=watch.heard), ON_POLICY_REGIME


def _env_of(resolved: Resolved) -> str:
    env = resolved.config.task.env
    if env is None:
        raise UserError("an environment is needed.", ["batchwright train CartPole-v1"])
    return env


class _Watch:
    """What the loop tells: kept in the record, the checkpoints and on the screen."""

    def __init__(self, run: RunDir, plan: Plan, env: str, events: EventLog, voices: Voices) -> None:
        self.run, self.plan, self.env, self.events = run, plan, env, events
        self.metrics = MetricLog(run.metrics_path)
        self._voices = voices
        self.take_up([])
        self.gauges = MemoryGauge(), AcceleratorGauge()
        self.writers = make_writers(voices.writers, run, lambda message: self.warn("writer", 0, message))
        self.evaluation: dict[str, Any] = {}
        self.stopping: Callable[[], bool] = lambda: False

    def attach(self, session: EngineSession) -> None:
        """Knows the session from here on: it brings the policy that is evaluated."""
        self.session = session
        self.evaluator = session.evaluator(self.plan["eval_episodes"], self.heard)

    def take_up(self, past: Sequence[Mapping[str, Any]]) -> None:
        """Moving figures and the curve go on from the records before a resume."""
        self.progress = Progress(self.plan, self._voices.stream, quiet=self._voices.quiet, past=past)
        self.moving = MovingStatistics()
        self.moving.replay(past, RETURN)
        self.doctor = LiveDoctor(facts_of(self.plan)) if self.plan.get("doctor", "say") != "off" else None
        if self.doctor is not None:
            self.doctor.take_up(past, read_events(self.run.events_path))

    def warn(self, kind: str, iteration: int, message: str) -> None:
        self.events.record(kind, iteration, message)
        if self.doctor is not None:
            self.doctor.hear({"kind": kind, "iteration": iteration, "message": message})
        self.progress.note(message, warning=True)

    def heard(self, event: dict[str, Any]) -> None:
        """What an engine reports of its environments."""
        self.events.record("environment", 0, str(event["error"]), **event)
        self.progress.note(_told_of(event), warning=True)

    def record(self, record: dict[str, Any]) -> None:
        for gauge in self.gauges:
            record |= gauge.read()
        self.metrics.record(record)
        self.moving.add(record.get(RETURN))
        for writer in self.writers:
            writer.write(record)
        self.progress.iteration(record)
        if self.doctor is not None:
            self.advise(record["iteration"], self.doctor.look(record))

    def advise(self, iteration: int, found: Sequence[Finding]) -> None:
        """Says what the doctor found, and keeps it among the events."""
        for finding in found:
            told = finding.to_dict()
            text = one_line(finding)
            self.events.record("advice", iteration, text, **{n: v for n, v in told.items() if n != "message"})
            self.progress.note(f"doctor: {text}")

    def remedy(self, plan: Plan, since: int) -> tuple[str, Finding] | None:
        """The remedy that the record after the last change asks for; the doctor is there where it may act."""
        assert self.doctor is not None
        return self.doctor.remedy(facts_of(plan), since)

    def last_advice(self, iteration: int) -> list[Finding]:
        """The doctor's last look, when a run has ended however it ended; all that is wrong then."""
        if self.doctor is None:
            return []
        new, wrong = self.doctor.last_look()
        self.advise(iteration, new)
        return wrong

    def bad(self, iteration: int, what: str, rollout: Rollout, flat: Any) -> None:
        path = dump(self.run.dumps, iteration, rollout, flat)
        self.warn("non-finite", iteration, f"{what}; the update of iteration {iteration} is undone. Rollout: {path}")

    def checkpoint(self, state: TrainState, actions: list[np.ndarray], scheduled: bool) -> None:
        self.metrics.sync()
        resumes_from_state = self.session.resumes_from_state
        saved = state if resumes_from_state else state._replace(position=state.position._replace(engine=()))
        iteration = int(state.counters.iteration)
        about = {"replay": not scheduled and not resumes_from_state, "versions": versions(), "env": self.env}
        extra = checkpoint.pack_actions(actions) if about["replay"] else {}
        beside, shared = self.session.save_beside(self.run.checkpoints / checkpoint.SHARED, state)
        checkpoint.save(self.run.checkpoints, iteration, saved, about, extra | beside, shared)
        self.events.record("checkpoint", iteration, "scheduled" if scheduled else "asked for by a signal")

    def evaluate(self, state: TrainState) -> dict[str, Any]:
        threshold, moving = self.plan.get("eval_threshold"), self.moving.moving
        last = finished(self.plan, state)
        if threshold is not None and not last and (moving is None or moving < threshold):
            return {}
        began = time.perf_counter()
        seed = self.session.streams.number("evaluation", 0)
        found = self.evaluator(state.learner.flat, state.obs_stats(self.plan.get("normalize_obs", False)), seed)
        succeeded = success_rate(found)
        self.evaluation = summarise(found["returns"]) | succeeded
        iteration = int(state.counters.iteration) - 1
        self.events.record(
            "evaluation", iteration, f"mean {self.evaluation['mean']:g}", returns=self.evaluation["returns"]
        )
        return {
            **{f"eval_{name}": self.evaluation[name] for name in ("mean", "median", "iqm")},
            **dict(zip(("eval_low", "eval_high"), self.evaluation["iqr"], strict=True)),
            "eval_length_mean": float(found["lengths"].mean()),
            **{f"eval_{name}": value for name, value in succeeded.items()},
            "evaluation_seconds": time.perf_counter() - began,
        }

    def interrupted(self) -> bool:
        return self.stopping()

    def close(self) -> None:
        self.gauges[1].close()
        self.evaluator.close()
        self.metrics.close()
        for writer in self.writers:
            writer.close()


def _told_of(event: Mapping[str, Any]) -> str:
    which = event.get("environments") or [event.get("environment")]
    name = f"environment {which[0]}" if len(which) == 1 else f"the worker of environments {which[0]} to {which[-1]}"
    return f"{name} was restarted ({event['restarts']} of at most {event['max_restarts']}): {event['error']}"


def _train(watch: _Watch, session: EngineSession, regime: Regime) -> Result:
    """From where the run stands to its end; SIGTERM and Ctrl-C ask for a checkpoint first."""
    began = time.perf_counter()
    watch.attach(session)
    try:
        with stop_when_asked(lambda text: watch.progress.note(text, warning=True)) as watch.stopping:
            start, actions = _resume_or_start(watch, session)
            state = run_iterations(regime, session, start, watch, actions)
        watch.last_advice(int(state.counters.iteration) - 1)
    except DivergedError as error:
        watch.warn("diverged", error.iteration, f"training diverged: {error}")
        error.fixes = tuple(flags for finding in watch.last_advice(error.iteration) for flags in finding.flags[:1])
        raise
    finally:
        watch.close()
    iteration = int(state.counters.iteration)
    interrupted = not finished(watch.plan, state)
    if iteration > int(start.counters.iteration):
        kind = "interrupted" if interrupted else "finished"
        watch.events.record(kind, iteration - 1, f"{kind} after iteration {iteration}")
    seconds = time.perf_counter() - began
    solved = state.solved(watch.plan.get("stop_return")) if "stop_return" in watch.plan.quantities else None
    steps = int(state.counters.env_steps)
    result = Result(watch.run.path, watch.evaluation, iteration, steps, interrupted, seconds, solved)
    outcome = (
        f"interrupted after iteration {iteration}; go on with: batchwright resume {watch.run}" if interrupted else ""
    )
    watch.progress.finish(
        {
            "outcome": outcome,
            "evaluation": {} if interrupted else watch.evaluation,
            "env_steps": result.env_steps,
            "iterations": iteration,
            "wall_seconds": seconds,
            "run_dir": watch.run,
        }
    )
    return result


def _resume_or_start(watch: _Watch, session: EngineSession) -> tuple[TrainState, list[np.ndarray]]:
    """The state to go on from, with the actions that an interrupt left to be replayed."""
    fresh = session.fresh_state()
    template = fresh if session.resumes_from_state else fresh._replace(position=fresh.position._replace(engine=()))
    found = checkpoint.load_last(watch.run.checkpoints, template, lambda text: watch.warn("checkpoint", 0, text))
    if found is None:
        watch.metrics.cut_after(-1)
        watch.progress.header(watch.run)
        return fresh, []
    state, manifest, folder = found
    changed = {n: (was, now) for n, now in versions().items() if (was := manifest["versions"].get(n)) != now}
    if changed:
        told = ", ".join(f"{name} {was} -> {now}" for name, (was, now) in changed.items())
        watch.warn("versions", 0, f"the checkpoint was made with other versions ({told}): expect other last digits")
    state = jax.tree.map(lambda new, old: jnp.asarray(new) if isinstance(old, jax.Array) else new, state, template)
    remedies = getattr(state, "remedies", None)
    if remedies is not None and int(remedies.rollout_steps) != session.plan["rollout_steps"]:
        assert isinstance(session, Session)  # only its states have remedies
        session.resize(resized_plan(session.plan, int(remedies.rollout_steps)))
    session.load_beside(watch.run.checkpoints / checkpoint.SHARED, folder, manifest["shared"], state)
    iteration = int(state.counters.iteration)
    dropped = watch.metrics.cut_after(iteration - 1)
    told = f"resumed after iteration {iteration}" + (f"; {dropped} later records are made again" if dropped else "")
    watch.events.record("resume", iteration, told)
    watch.take_up(read_metrics(watch.run.metrics_path))
    watch.progress.header(watch.run, told)
    if session.resumes_from_state:
        return state, []
    if not manifest["replay"]:
        return state._replace(position=session.start_engine(int(state.counters.engine_started))), []
    actions = checkpoint.load_actions(folder)
    position = session.replay(int(state.counters.engine_started), actions, state.position)
    return state._replace(position=position), actions


def versions() -> dict[str, str]:
    """What the numbers of a run depend on beside its plan."""
    packages = ("batchwright", "jax", "jaxlib", "numpy", "optax", "gymnasium")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
