"""One training by several processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.api.stored_runs import settings_of
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.planning.process_plan import with_processes

if TYPE_CHECKING:
    from batchwright.runs.launch import Result


def planned_processes(run: str | Path) -> int:
    """The number of processes that a run was planned for."""
    return settings_of(RunDir.open(run)).config.experience.processes or 1


def refuse_objects(run: str | Path, network: Any, callback: Any, env: Any) -> None:
    """Refuses what lives in this process alone."""
    from batchwright.envs.env_names import PASSED

    env = env if not str(settings_of(RunDir.open(run)).config.task.env).startswith(PASSED) else PASSED
    for name, value in (("network", network), ("callback", callback), ("env", env)):
        if value is not None:
            raise UserError(
                f"{name}= is an object of this process; those of --processes start anew and would not have it.",
                [f"leave out {name}=", "processes=1"],
            )


def words_of_resume(
    run: str | Path, quiet: bool, writers: tuple[str, ...], lines: str, trust: bool, from_start: bool
) -> list[str]:
    """The command that goes on with a run in each process."""
    words = ["resume", str(run), *(["--quiet"] if quiet else []), *(["--writers", *writers] if writers else [])]
    return [*words, "--lines", lines, *(["--trust"] if trust else []), *(["--from-start"] if from_start else [])]


def train_in_processes(run: str | Path, processes: int, words: list[str], on_ray: bool, address: str | None) -> Result:
    """Trains a run in processes of its own; this one waits for them, and reads the result from the run."""
    from batchwright.runs.launch import open_run
    from batchwright.runs.process_result import result_of
    from batchwright.runs.start_processes import INTERRUPTED, ProcessesFailed, local_place, run_processes

    with_processes(open_run(run)[2], processes)  # refused here, once
    try:
        if on_ray:
            from batchwright.runs.ray_processes import run_on_ray

            run_on_ray(words, processes, address)
        else:
            run_processes(words, local_place(processes))
    except ProcessesFailed as error:
        if error.code != INTERRUPTED:
            raise
        return result_of(run, interrupted=True)
    return result_of(run, interrupted=False)


def train_as_follower() -> int:
    """Trains in a process that is not the first of several; returns the exit code."""
    from batchwright.regimes import make_learner
    from batchwright.runs.process_group import current_group
    from batchwright.runs.silent_run import train_silently

    return train_silently(make_learner, current_group())
