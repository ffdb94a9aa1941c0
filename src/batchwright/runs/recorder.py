"""Callbacks of the training loop that write the record, the events and the checkpoints of a run and show progress."""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TextIO

from batchwright.config.schema import RECORDED
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import explain_refusal
from batchwright.doctor.finding import Finding
from batchwright.doctor.live import LiveDoctor
from batchwright.doctor.run_history import facts_of
from batchwright.doctor.text import one_line
from batchwright.planning.plan import Plan
from batchwright.runs import checkpoints
from batchwright.runs.callback import CallbackLearner, Callbacks, RunView
from batchwright.runs.env_evidence import env_evidence
from batchwright.runs.learner import IterationResult, Learner, Record, RunState, StateT
from batchwright.runs.non_finite import dump
from batchwright.runs.time_forecast import FirstForecast
from batchwright.runs.versions import versions
from batchwright.watch.episode_log import EpisodeLog
from batchwright.watch.gauges import AcceleratorGauge, MemoryGauge
from batchwright.watch.lines import PLAIN, RETURN
from batchwright.watch.metric_log import (
    ELAPSED_SECONDS,
    EVALUATION_SECONDS,
    EventLog,
    IterationLines,
    MetricLog,
    read_events,
)
from batchwright.watch.progress import Progress
from batchwright.watch.statistics import MovingStatistics
from batchwright.watch.writers import make_writers


@dataclass
class OutputOptions:
    """Where a run prints and which other loggers it writes to."""

    quiet: bool = False
    writers: tuple[str, ...] = ()
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    lines: str = PLAIN
    """How iterations are shown: one of `LINES`."""


class Display(Protocol):
    """What the terminal shows of a run."""

    def header(self, run_dir: object, *lines: str) -> None: ...
    def iteration(self, record: Mapping[str, Any]) -> None: ...
    def note(self, message: str, *, warning: bool = False) -> None: ...


MakeDisplay = Callable[[Sequence[Mapping[str, Any]]], Display]
"""From the records before a resume to a display that goes on from them."""


class RunRecorder:
    """Implements `Callbacks` for one run directory."""

    def __init__(
        self,
        run: RunDir,
        plan: Plan,
        events: EventLog,
        options: OutputOptions,
        make_display: MakeDisplay | None = None,
        user: Callbacks | None = None,
    ) -> None:
        self.run, self.plan, self.events, self.options = run, plan, events, options
        self.user = user or Callbacks(None)
        self._began = time.perf_counter()
        self.first_forecast: FirstForecast | None = None
        self.user_learner: CallbackLearner | None = None
        self.stop_reason: str | None = None
        """Why the user's callback ended the run."""
        self.metrics = MetricLog(run.metrics_path)
        self.episodes = None if plan.regime == RECORDED else EpisodeLog(run.episodes_path)
        self._make_display = make_display or self._make_progress
        self._gauges = MemoryGauge(), AcceleratorGauge()
        self.evaluation: dict[str, Any] = {}
        self.evaluation_error: Exception | None = None
        """Of the last evaluation, where it failed."""
        self._evaluation_warnings: set[str] = set()
        self.last_record: Record | None = None
        """The record of the last iteration, until its evaluation has completed it."""
        self.stop_requested: Callable[[], bool] = lambda: False
        self.restore([])
        self._writers = make_writers(options.writers, run, lambda message: self.on_warning("writer", 0, message))

    def attach(self, learner: Learner[Any]) -> None:
        """Sets the learner whose checkpoints and evaluations are recorded."""
        self._learner = learner

    def _make_progress(self, past: Sequence[Mapping[str, Any]]) -> Display:
        options = self.options
        return Progress(self.plan, options.stream, quiet=options.quiet, lines=options.lines, past=past)

    def show_plan_warnings(self) -> None:
        """The header of a first start, with the warnings of the plan: changed numbers and broken rules."""
        for warning in self.plan.warnings:
            self.events.record("warning", 0, warning)
        self.display.header(self.run, *(f"warning: {warning}" for warning in self.plan.warnings))

    def cut_after(self, iteration: int) -> int:
        """Drops the records of later iterations, which are made again; returns how many iterations."""
        for log in self._logs():
            if (kept := log.put_in_order()) is not None:
                text = f"{log.path.name} was out of order: put in order; as it was: {kept.name}"
                self.on_warning("record", iteration + 1, text)
        if self.episodes is not None:
            self.episodes.cut_after(iteration)
        return self.metrics.cut_after(iteration)

    def keep_beside(self) -> list[Path]:
        """Sets the records aside and begins empty ones; returns where they are kept."""
        return [log.keep_beside() for log in self._logs()]

    def _logs(self) -> list[IterationLines]:
        return [self.metrics] if self.episodes is None else [self.metrics, self.episodes]

    def restore(self, past: Sequence[Mapping[str, Any]]) -> None:
        """Continues moving averages, the curve and the doctor from the records before a resume."""
        past = [record for record in past if record is not self.last_record]
        self.display = self._make_display(past)
        self._moving = MovingStatistics()
        self._moving.add_records(past, RETURN)
        self._doctor = LiveDoctor(facts_of(self.plan)) if self.plan.get("doctor", "off") != "off" else None
        if self._doctor is not None:
            self._doctor.restore(past, read_events(self.run.events_path))

    def on_warning(self, kind: str, iteration: int, message: str, **details: Any) -> None:
        self.events.record(kind, iteration, message, **details)
        if self._doctor is not None:
            self._doctor.add_event({"kind": kind, "iteration": iteration, "message": message})
        self.display.note(message, warning=True)

    def on_engine_event(self, event: dict[str, Any]) -> None:
        """Records what an engine reports of its environments."""
        self.events.record("environment", 0, str(event["error"]), **event)
        message = _restart_message(event) if "restarts" in event else str(event["error"])
        self.display.note(message, warning=True)

    def on_non_finite(self, iteration: int, result: IterationResult) -> None:
        message = f"{result.non_finite}; the update of iteration {iteration} is undone."
        if result.collected is not None and result.params_before is not None:
            try:
                path = dump(self.run.dumps, iteration, result.collected.rollout, result.params_before)
                message += f" Rollout: {path}"
            except OSError as error:
                message += f" Its rollout could not be kept: {error.strerror}."
        self.on_warning("non-finite", iteration, message)

    def on_record(self, record: Record, result: IterationResult | None = None) -> None:
        self._write_record(record, result)
        self._show_record(record)
        line = None if self.first_forecast is None else self.first_forecast.add(record)
        if line is not None:
            self.display.note(line)

    def on_last_record(self, record: Record, result: IterationResult | None = None) -> None:
        """Keeps the record of the last iteration; it is shown when its evaluation has completed it."""
        self._write_record(record, result)
        self.last_record = record

    def _write_record(self, record: Record, result: IterationResult | None) -> None:
        for gauge in self._gauges:
            record |= gauge.read()
        collected = None if result is None else result.collected
        if collected is not None:
            for name, value in env_evidence(record["iteration"], collected).items():
                record.setdefault(name, value)
        record[ELAPSED_SECONDS] = round(time.perf_counter() - self._began, 4)
        if self.episodes is not None and result is not None and collected is not None:
            self.episodes.add(record, collected.env_steps, collected.episodes, result.reward_names)
        self.metrics.record(record)

    def _show_record(self, record: Record) -> None:
        self._moving.add(record.get(RETURN))
        for writer in self._writers:
            writer.write(record)
        self.display.iteration(record)
        if self._doctor is not None:
            self._show_advice(record["iteration"], self._doctor.check(record))

    def view(self, state: RunState) -> RunView:
        assert self.user_learner is not None  # callbacks are given together with it
        return RunView(self.run.path, self.plan, self.user_learner, state)

    def start_callbacks(self, state: StateT) -> StateT:
        """Calls `on_start` of the user's callbacks; environments that they changed start anew."""
        if not self.user or int(state.counters.iteration) > 0:
            return state
        view = self.view(state)
        self.user.on_start(view)
        self._heed(view)
        if not view.has_set_env or self.user_learner is None:
            return state
        restarted: StateT = self.user_learner.restart_environments(state)
        return restarted

    def resume_callbacks(self, state: RunState, manifest: Mapping[str, Any]) -> None:
        """Gives callbacks back what a checkpoint holds of them; those that are new to the run start."""
        if not self.user:
            return
        if "callbacks" in manifest:
            self.user.load(manifest["callbacks"])
        else:
            self.user.on_start(self.view(state))

    def end_callbacks(self, state: RunState) -> None:
        if self.user:
            self.user.on_end(self.view(state))

    def on_iteration(self, state: RunState, record: Record) -> Record:
        """What the user's callbacks log; refuses names that the record has already."""
        if not self.user:
            return {}
        view = self.view(state)
        self.user.on_iteration(MappingProxyType(record), view)
        self._heed(view)
        taken = sorted(set(view.logged) & set(record))
        if taken:
            raise UserError(
                f"the callback logs {taken[0]}, which is a metric of the run.", [f'log("my/{taken[0]}", ...)']
            )
        return view.logged

    def _heed(self, view: RunView) -> None:
        if view.stop_reason is not None and self.stop_reason is None:
            self.stop_reason = view.stop_reason

    def stopped(self) -> bool:
        """Whether the user's callback has asked the run to end."""
        return self.stop_reason is not None

    def evaluate(self, state: RunState) -> Record:
        """Metrics of an evaluation; none while the training return is below the threshold."""
        return {} if self._below_threshold() else self._evaluate(state)

    def evaluate_last(self, state: RunState) -> None:
        """Evaluates the last policy and completes the last record, unless that was done before a resume."""
        if self.last_record is None:
            return
        if EVALUATION_SECONDS in self.last_record:  # a callback ended the run in an iteration that was evaluated
            self._show_record(self.last_record)
            self.last_record = None
            return
        below = self._below_threshold()
        if below:
            text = f"{below}; the last evaluation is made all the same, as it is the result of the run"
            self.on_warning("remark", int(state.counters.iteration) - 1, text)
        found = self._evaluate(state)
        self.metrics.amend(found)
        self.metrics.sync()
        self._show_record(self.last_record | found)
        self.last_record = None

    def _below_threshold(self) -> str:
        """A sentence where the training return is below `--eval-threshold`; else empty."""
        threshold, moving = self._learner.settings.eval_threshold, self._moving.moving
        if threshold is None or (moving is not None and moving >= threshold):
            return ""
        reached = "no episode has ended" if moving is None else f"the training return is {moving:.4g}"
        return f"{reached}, below --eval-threshold {threshold:g}"

    def _evaluate(self, state: RunState) -> Record:
        """Metrics of an evaluation. One that fails is a warning: it costs no training."""
        start_seconds, iteration = time.perf_counter(), int(state.counters.iteration) - 1
        try:
            found = self._learner.evaluate(state)
        except Exception as error:
            self.evaluation, self.evaluation_error = {}, error
            message = f"the evaluation failed: {error if isinstance(error, UserError) else repr(error)}"
            details = {"traceback": traceback.format_exc()}
            self.on_warning("evaluation-failed", iteration, message, **details)
            return {EVALUATION_SECONDS: time.perf_counter() - start_seconds}
        self.evaluation, self.evaluation_error = found.summary, None
        self._keep_best(state, found.summary.get("mean"))
        if self.user:
            view = self.view(state)
            self.user.on_evaluation(found.summary, view)
            self._heed(view)
        self.events.record(found.event, iteration, found.message, **found.details)
        for warning in found.warnings:
            if warning not in self._evaluation_warnings:  # once, not at every evaluation
                self._evaluation_warnings.add(warning)
                self.on_warning("remark", iteration, warning)
        return {**found.metrics, EVALUATION_SECONDS: time.perf_counter() - start_seconds}

    def _keep_best(self, state: RunState, mean: float | None) -> None:
        """Keeps the policy of the best evaluation so far, by its mean return; of equals the first."""
        if mean is None:
            return
        folder, iteration = self.run.best, int(state.counters.iteration)
        best = checkpoints.load_named(folder, lambda text: None)
        if best is not None and best[1].get("mean_return", -math.inf) >= mean:
            return
        about = {"mean_return": mean, "versions": versions()}
        try:
            with explain_refusal(folder, "write"):
                checkpoints.save(folder, iteration, self._learner.checkpoint_template(state), about, kept=1)
        except UserError as error:  # training goes on without it
            self.on_warning("checkpoint", iteration, f"the best policy so far was not kept: {error.message}")

    def on_checkpoint(self, state: RunState, scheduled: bool, reason: str) -> None:
        for log in self._logs():
            log.sync()
        folder, iteration = self.run.checkpoints, int(state.counters.iteration)
        with explain_refusal(folder, "write", f"make {folder} writable, then batchwright resume {self.run}"):
            parts = self._learner.save(state, folder / checkpoints.SHARED, scheduled)
            about = {**parts.manifest, "versions": versions()}
            if self.user:
                about["callbacks"] = self.user.save()
            checkpoints.save(folder, iteration, parts.state, about, parts.files, dict(parts.shared))
        self.events.record("checkpoint", iteration, reason)

    def remedy(self, plan: Plan, since_iteration: int) -> tuple[str, Finding] | None:
        return None if self._doctor is None else self._doctor.remedy(facts_of(plan), since_iteration)

    def final_advice(self, iteration: int) -> list[Finding]:
        """Shows the doctor's last findings, however the run ended; returns all that are wrong then."""
        if self._doctor is None:
            return []
        new, wrong = self._doctor.final_check()
        self._show_advice(iteration, new)
        return wrong

    def _show_advice(self, iteration: int, findings: Sequence[Finding]) -> None:
        for finding in findings:
            text = one_line(finding)
            details = {name: value for name, value in finding.to_dict().items() if name != "message"}
            self.events.record("advice", iteration, text, **details)
            self.display.note(f"doctor: {text}")

    def close(self) -> None:
        self._gauges[1].close()
        for log in self._logs():
            log.close()
        for writer in self._writers:
            writer.close()


def _restart_message(event: Mapping[str, Any]) -> str:
    which = event.get("environments") or [event.get("environment")]
    name = f"environment {which[0]}" if len(which) == 1 else f"the worker of environments {which[0]} to {which[-1]}"
    return f"{name} was restarted ({event['restarts']} of at most {event['max_restarts']}): {event['error']}"
