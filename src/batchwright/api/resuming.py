"""Going on with a run from its checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.api.jax_setup import keep_programs
from batchwright.api.processes import planned_processes, refuse_objects, train_in_processes, words_of_resume
from batchwright.api.reports import leave_report, message_printer
from batchwright.api.stored_runs import pass_again
from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan

if TYPE_CHECKING:
    from batchwright.envs.engines.engine import OnEvent
    from batchwright.lerobot.lerobot_run import DatasetResult
    from batchwright.nets.policy import NetworkMaker
    from batchwright.runs.callback import CallbackLike
    from batchwright.runs.engine_learner import EngineLearner
    from batchwright.runs.launch import Result
    from batchwright.runs.recorder import OutputOptions


def resume(
    run: str | Path,
    *,
    quiet: bool = False,
    writers: tuple[str, ...] = (),
    lines: str = "plain",
    network: NetworkMaker | None = None,
    callback: CallbackLike | None = None,
    env: Any = None,
    trust: bool = False,
    from_start: bool = False,
    total_steps: int | None = None,
    total_episodes: int | None = None,
    processes: int | None = None,
    on: str | None = None,
    address: str | None = None,
) -> Result:
    """Goes on with a run from its last good checkpoint; equal, bit for bit, to never having stopped.

    `total_steps` (or `total_episodes`, where a run counts those) makes the run longer; what its schedules then do
    differently is printed. `trust` lets code run that the run of somebody else names as its environment. `from_start`
    starts a run anew that lost its checkpoints; its record is kept beside. `env` passes an environment again that the
    run was given as an object. `processes` is how many go on with it; as many as planned when not stated.
    """
    keep_programs()
    pass_again(run, env)
    extend(run, total_steps=total_steps, total_episodes=total_episodes, quiet=quiet, trust=trust)
    from batchwright.runs.recorder import OutputOptions
    from batchwright.runs.start_processes import is_worker, refuse_place

    together = processes or planned_processes(run)
    on_ray = refuse_place(on, address, together)
    if together > 1 and not is_worker():
        refuse_objects(run, network, callback, env)
        words = words_of_resume(run, quiet, writers, lines, trust, from_start)
        return train_in_processes(run, together, words, on_ray, address)
    options = OutputOptions(quiet=quiet, writers=writers, lines=lines)
    return _train_and_report(run, options, network, trust, from_start, callback)


def extend(
    run: str | Path,
    *,
    total_steps: int | None = None,
    total_episodes: int | None = None,
    quiet: bool = False,
    trust: bool = False,
) -> None:
    """Plans a run anew for another length and trains nothing: `resume` goes on to the new end."""
    length = {"total_steps": total_steps, "total_episodes": total_episodes}
    stated = {name: value for name, value in length.items() if value is not None}
    if not stated:
        return
    if len(stated) > 1:
        raise UserError("--total-steps and --total-episodes contradict each other.", [f"--total-steps {total_steps}"])
    from batchwright.runs.extension import extend_run

    extend_run(run, stated, message_printer(quiet), trust)


def _train_and_report(
    run: str | Path,
    options: OutputOptions,
    network: NetworkMaker | None,
    trust: bool,
    from_start: bool = False,
    callback: CallbackLike | None = None,
) -> Result:
    """Trains a run to its end and leaves its report, also where it was interrupted or diverged."""
    from batchwright.regimes import make_learner
    from batchwright.runs.callback import Callbacks
    from batchwright.runs.launch import EvaluationFailed, continue_run
    from batchwright.runs.loop import DivergedError
    from batchwright.runs.shared_programs import programs_of_process
    from batchwright.runs.start_state import StartOptions

    def make(plan: Plan, env: str, on_event: OnEvent) -> EngineLearner[Any]:
        programs = programs_of_process(plan["engine"]) if network is None else None
        return make_learner(plan, env, on_event, network, programs)

    start, user = StartOptions(trust, from_start), Callbacks(callback)
    try:
        result = continue_run(run, make, options, start, user)
    except (DivergedError, EvaluationFailed):
        leave_report(run, options.stream)
        raise
    leave_report(run, options.stream)
    return result


def continue_dataset_run(
    run: str | Path, *, python: str | None = None, quiet: bool = False, writers: tuple[str, ...] = ()
) -> DatasetResult:
    """Goes on with a run on recorded data from its last checkpoint, in LeRobot's interpreter; leaves its report."""
    from batchwright.lerobot.lerobot_run import continue_run

    result = continue_run(run, python, quiet, writers)
    if result.updates:
        leave_report(run, sys.stderr if quiet else sys.stdout)
    return result
