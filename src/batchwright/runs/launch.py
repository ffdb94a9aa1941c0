"""A run from its settings to its result: create the directory, train or resume, finish."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchwright.config.load import Resolved
from batchwright.config.run_config import read_run_config
from batchwright.config.save import to_yaml
from batchwright.core import html
from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.run_dir import FOREIGN_JOB, RunDir, run_name
from batchwright.core.safe_open import explain_refusal, read_json
from batchwright.core.trust import check_trust, remember
from batchwright.doctor.finding import Finding
from batchwright.envs.engines.engine import OnEvent
from batchwright.planning.plan import Plan, plan_from_dict
from batchwright.planning.process_plan import with_processes
from batchwright.planning.quantity import counted
from batchwright.runs import time_forecast
from batchwright.runs.callback import Callbacks
from batchwright.runs.engine_learner import RECENT_EPISODES, EngineLearner, EngineState
from batchwright.runs.finished_run import FinishedRun, last_end, read_finished
from batchwright.runs.learner import Learner, StateT
from batchwright.runs.learner_threads import take_threads
from batchwright.runs.loop import DivergedError
from batchwright.runs.loop import run as run_iterations
from batchwright.runs.process_group import PeerLost, current_group, peers_lost
from batchwright.runs.recorder import OutputOptions, RunRecorder
from batchwright.runs.run_settings import RunSettings
from batchwright.runs.signals import stop_when_asked
from batchwright.runs.silent_run import publish_nothing, publish_training, share_start
from batchwright.runs.start_processes import tell_run
from batchwright.runs.start_state import StartOptions, start_or_resume
from batchwright.watch.lines import evaluation_line
from batchwright.watch.metric_log import EventLog, read_events, read_metrics
from batchwright.watch.progress import Progress
from batchwright.watch.run_end import (
    BY_CALLBACK,
    CALLBACK,
    END_TEXT,
    FAILED,
    FINISHED,
    INTERRUPTED,
    RETURN_REACHED,
    STOPPED,
)

MakeLearner = Callable[[Plan, str, OnEvent], EngineLearner[Any]]
"""(plan, environment, callback for engine events) -> the learner of the plan's regime."""


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    run_dir: Path
    evaluation: dict[str, Any]
    """Of the last policy: episodes, mean, median, iqr, iqm, returns, intervals; empty where the run was interrupted."""
    iterations: int
    env_steps: int
    interrupted: bool = False
    seconds: float = 0.0
    solved: bool | None = None
    """Whether `stop_return` was reached; None where none was stated."""
    stopped: str = ""
    """`return reached` or `by a callback` where that ended the run before its last planned iteration."""

    def _repr_html_(self) -> str:
        """The outcome in a notebook, with the place of the report."""
        rows = [("evaluation", evaluation_line(self.evaluation))] if self.evaluation else []
        rows += [("steps", f"{self.env_steps:,}"), ("iterations", str(self.iterations))]
        rows += [("stopped", self.stopped)] if self.stopped else []
        rows += [("interrupted", "go on with batchwright.resume(run)")] if self.interrupted else []
        rows += [("run", str(self.run_dir)), ("report", str(RunDir(self.run_dir).report_path))]
        return html.table(("", ""), rows)


class EvaluationFailed(UserError):  # noqa: N818 - a kind of UserError, named after what happened
    """Training is done and saved; the evaluation of the last policy raised."""

    def __init__(self, run: RunDir, error: Exception) -> None:
        what = error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        again = f"batchwright eval {run}"
        fixes = [*error.fixes, again] if isinstance(error, UserError) else [again]
        super().__init__(f"training is finished and saved in {run}; its last evaluation failed: {what}", fixes)


def create_run(resolved: Resolved, plan: Plan, path: str | Path | None) -> RunDir:
    """A run directory with its settings and its plan, ready to be trained."""
    return create_run_dir(resolved, plan, path, run_name(_env_of(resolved), plan.algo, plan["seed"]))


def create_run_dir(resolved: Resolved, plan: Plan, path: str | Path | None, default_name: str) -> RunDir:
    """A run directory with its settings and its plan; of two that are prepared in one place at once, one is refused."""
    run = RunDir.create(path, default_name)
    with run.lock(), explain_refusal(run.path, "write"):
        RunDir.refuse_used(run.path)
        write_atomically(run.config_path, to_yaml(resolved).encode())
        write_atomically(run.plan_path, plan.to_json().encode())
    remember(run, resolved.config.task.env)
    return run


def open_run(path: str | Path) -> tuple[RunDir, Resolved, Plan]:
    """A run with its settings and its plan as they were written."""
    run = RunDir.open(path)
    with explain_refusal(run.path, "read", f"make the files of {run} readable"):
        resolved = read_run_config(run)
        try:
            plan = plan_from_dict(read_json(run.plan_path))
        except ValueError as error:
            raise UserError(f"{run.plan_path} is damaged: {error}.", ["train anew in another --run-dir"]) from None
    return run, resolved, replace(plan, task=replace(plan.task, name=resolved.config.task.env))


def continue_run(
    path: str | Path,
    make_learner: MakeLearner,
    options: OutputOptions,
    start: StartOptions | None = None,
    user: Callbacks | None = None,
) -> Result:
    """Trains a run from its last good checkpoint, or from the start where it has none, to the end of its plan."""
    run, resolved, plan = open_run(path)
    group = current_group()
    plan = with_processes(plan, group.processes)
    if (run.path / FOREIGN_JOB).exists():
        raise UserError(f"{run} was trained by rl_games.", [f"batchwright rl-games --resume {run}"])
    start = start or StartOptions()
    done = read_finished(run, plan)
    if done is not None:
        publish_nothing(group)
        return _show_finished(run, plan, done, options)
    check_trust(run, resolved.config.task.env, start.trust)
    _refuse_missing_callback(run, plan, user)
    threads, planned = take_threads(plan), plan.get("learner_threads", 1)
    is_new = not run.metrics_path.exists()
    with run.lock(), EventLog(run.events_path) as events:
        recorder = RunRecorder(run, plan, events, options, user=user)
        if threads != planned:
            given = f"updates were planned with {counted(planned, 'thread')}, this process gives them {threads} (NPROC)"
            recorder.on_warning("threads", 0, f"{given}: expect other last digits")
        if is_new:
            _show_forecast(plan, recorder)
        start_seconds = time.perf_counter()
        if group.processes > 1:
            tell_run(group.folder, run.path)
            publish_training(plan, _env_of(resolved), group)
        learner = make_learner(plan, _env_of(resolved), recorder.on_engine_event)
        recorder.user_learner = learner
        try:
            state: EngineState = train_to_end(learner, recorder, start)
        finally:
            learner.close()
        seconds = time.perf_counter() - start_seconds
        result = _finish(learner, recorder, state, seconds)
        if is_new and not result.interrupted:
            time_forecast.remember(plan, read_metrics(run.metrics_path), seconds)
        if recorder.evaluation_error is not None and not result.interrupted:
            raise EvaluationFailed(run, recorder.evaluation_error)
        return result


def _show_forecast(plan: Plan, recorder: RunRecorder) -> None:
    """The time that a long run will take: at once where such a run was trained here, else after a second of it."""
    speed = time_forecast.recall(plan)
    if speed is None:
        recorder.first_forecast = time_forecast.FirstForecast(plan)
    elif speed.seconds(plan) >= time_forecast.WORTH_SAYING_SECONDS:
        recorder.display.note(time_forecast.forecast_line(plan, speed, time_forecast.REMEMBERED))


def _refuse_missing_callback(run: RunDir, plan: Plan, user: Callbacks | None) -> None:
    if plan.get("callback") is not None and not user:
        raise UserError(
            f"{run} was trained with a callback, {plan['callback']}: without it this would be another run.",
            [
                f'batchwright.resume("{run}", callback=...) in Python',
                "callback=batchwright.Callback() goes on without it",
            ],
        )


def train_to_end(learner: Learner[StateT], recorder: RunRecorder, start: StartOptions) -> StateT:
    """Starts or resumes a run and trains it to its end; SIGTERM and Ctrl-C save and stop it."""
    recorder.attach(learner)
    first: int | None = None
    try:
        asked = stop_when_asked(lambda text: recorder.display.note(text, warning=True))
        with asked as stop_requested, peers_lost():
            recorder.stop_requested = lambda: current_group().any(stop_requested())
            state = start_or_resume(learner, recorder, start)
            state = share_start(learner, state, current_group())
            state = recorder.start_callbacks(state)
            first = int(state.counters.iteration)
            state = run_iterations(learner, state, recorder)
        iteration = int(state.counters.iteration)
        recorder.final_advice(iteration - 1)
        recorder.end_callbacks(state)
    except DivergedError as error:
        recorder.on_warning("diverged", error.iteration, f"training diverged: {error}")
        error.fixes = _fixes(recorder.final_advice(error.iteration))
        raise
    except PeerLost:
        _record_failure(recorder, UserError("another process of this training has ended", []))
        raise
    except Exception as error:
        if first is not None:  # a run that is refused stays as it is
            _record_failure(recorder, error)
        raise
    finally:
        recorder.close()
    ended = learner.finished(state) and last_end(read_events(recorder.run.events_path)) != FINISHED
    if iteration > first or ended:
        _record_end(learner, recorder, state)
    return state


def _record_failure(recorder: RunRecorder, error: Exception) -> None:
    """Leaves the reason in the record, for who reads it later; one without an iteration keeps none."""
    with contextlib.suppress(OSError, UserError):
        if recorder.run.metrics_path.stat().st_size:
            text = error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            iteration = int((recorder.last_record or {}).get("iteration", 0))
            recorder.events.record(FAILED, iteration, (text.splitlines() or [""])[0][:300])


def _fixes(findings: list[Finding]) -> tuple[str, ...]:
    """The best flags of each finding; none where the environment's own numbers are at fault, which no flag mends."""
    if any(finding.name == "nan-from-environment" for finding in findings):
        return ()
    return tuple(flags for finding in findings for flags in finding.flags[:1])


def _record_end(learner: Learner[StateT], recorder: RunRecorder, state: StateT) -> None:
    iteration = int(state.counters.iteration)
    kind = FINISHED if learner.finished(state) or recorder.stopped() else INTERRUPTED
    if recorder.stopped() and not learner.finished(state):
        recorder.events.record(kind, iteration - 1, callback_text(recorder, iteration), reason=BY_CALLBACK)
    elif learner.stopped_early(state):
        text = stop_text(learner.settings, iteration)
        recorder.events.record(kind, iteration - 1, text, reason=RETURN_REACHED)
    else:
        recorder.events.record(kind, iteration - 1, f"{kind} after iteration {iteration}")


def callback_text(recorder: RunRecorder, iteration: int) -> str:
    return f"{END_TEXT[CALLBACK]} after iteration {iteration}: {recorder.stop_reason}"


def stop_text(settings: RunSettings, iteration: int) -> str:
    planned = "" if settings.iterations is None else f" of {settings.iterations}"
    return (
        f"{END_TEXT[STOPPED]} after iteration {iteration}{planned}: the mean return of the last {RECENT_EPISODES} "
        f"training episodes is at least {settings.stop_return:g} (--stop-return)"
    )


def _finish(learner: EngineLearner[Any], recorder: RunRecorder, state: EngineState, seconds: float) -> Result:
    iteration, by_callback = int(state.counters.iteration), recorder.stopped() and not learner.finished(state)
    interrupted = not learner.finished(state) and not by_callback
    stop_return = learner.settings.stop_return
    stopped = learner.stopped_early(state)
    result = Result(
        recorder.run.path,
        recorder.evaluation,
        iteration,
        int(state.counters.env_steps),
        interrupted,
        seconds,
        None if stop_return is None else state.mean_return_reaches(stop_return),
        BY_CALLBACK if by_callback else RETURN_REACHED if stopped else "",
    )
    outcome = stop_text(learner.settings, iteration) if stopped else ""
    if interrupted:
        outcome = f"interrupted after iteration {iteration}; go on with: batchwright resume {recorder.run}"
    if by_callback:
        outcome = callback_text(recorder, iteration)
    assert isinstance(recorder.display, Progress)
    recorder.display.finish(
        {
            "outcome": outcome,
            "evaluation": {} if interrupted else recorder.evaluation,
            "env_steps": result.env_steps,
            "iterations": iteration,
            "wall_seconds": seconds,
            "run_dir": recorder.run,
        }
    )
    return result


def _show_finished(run: RunDir, plan: Plan, done: FinishedRun, options: OutputOptions) -> Result:
    """Shows the result of a finished run again: nothing is left to do. Says its end where a kill prevented that."""
    if not done.is_recorded:
        with contextlib.suppress(UserError), run.lock(), EventLog(run.events_path) as events:
            reason = {"reason": done.stopped} if done.stopped else {}
            events.record(FINISHED, done.iterations - 1, f"finished after iteration {done.iterations}", **reason)
    progress = Progress(plan, options.stream, quiet=options.quiet, past=read_metrics(run.metrics_path))
    how = f"stopped: {done.stopped}" if done.stopped else FINISHED
    outcome = f"{how} after iteration {done.iterations}: nothing is left to do"
    effort = {"evaluation": done.evaluation, "env_steps": done.env_steps, "iterations": done.iterations}
    progress.finish({"outcome": outcome, **effort, "run_dir": run})
    return Result(run.path, done.evaluation, done.iterations, done.env_steps, solved=done.solved, stopped=done.stopped)


def discard_unstarted(path: str | Path) -> None:
    """Removes a run directory that has its plan and nothing else: training was refused before it began."""
    run = RunDir(Path(path))
    records = (run.metrics_path, run.events_path, run.episodes_path)
    own = (*records, run.lock_path, run.plan_path, run.config_path)
    with contextlib.suppress(OSError):  # what cannot be removed stays
        is_empty = not any(file.stat().st_size for file in records if file.exists())
        if set(run.path.iterdir()) <= set(own) and is_empty:
            for file in own:
                file.unlink(missing_ok=True)
            run.path.rmdir()


def _env_of(resolved: Resolved) -> str:
    env = resolved.config.task.env
    if env is None:
        raise UserError("an environment is needed.", ["batchwright train CartPole-v1"])
    return env
