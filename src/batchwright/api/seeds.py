"""One setting over several seeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from batchwright.api.jax_setup import keep_programs
from batchwright.api.reports import leave_report
from batchwright.core.errors import UserError
from batchwright.core.seed_folder import seed_paths

if TYPE_CHECKING:
    from batchwright.nets.policy import NetworkMaker
    from batchwright.tuning.seed_runs import SeedsResult


MOST_SEEDS = 1000


def refuse_seed_count(seeds: int | None) -> None:
    """Refuses what is no number of seeds."""
    if seeds is not None and not (type(seeds) is int and 1 <= seeds <= MOST_SEEDS):
        raise UserError(f"--seeds {seeds} is not a whole number from 1 to {MOST_SEEDS}.", ["--seeds 5"])


def resume_seeds(
    folder: str | Path,
    *,
    quiet: bool = False,
    writers: tuple[str, ...] = (),
    network: NetworkMaker | None = None,
    workers: int = 1,
    trust: bool = False,
) -> SeedsResult:
    """Goes on with one setting over seeds: finished runs stay as they are, others go on from their checkpoints.

    `trust` lets the code run that runs name which were not made here.
    """
    keep_programs()
    from batchwright.tuning.executors import INTERRUPTED, RunOutcome, make_executor
    from batchwright.tuning.seed_runs import SeedsResult, train_seeds
    from batchwright.web.groups import scores
    from batchwright.web.report import read_run

    place = Path(folder).expanduser()
    runs = seed_paths(place)
    executor = make_executor(workers, writers, network, trust)

    def show(outcome: RunOutcome) -> None:
        if not quiet or outcome.reason:
            reason = f": {outcome.reason}" if outcome.reason else ""
            print(f"{outcome.run.name}: {outcome.status} after {outcome.seconds:.1f} s{reason}", flush=True)

    try:
        outcomes = train_seeds(runs, executor, show)
    finally:
        executor.close()
    found = scores([read_run(run) for run in runs])
    rows = [{**outcome, "score": row["score"]} for outcome, row in zip(outcomes, found["scores"], strict=True)]
    leave_report(place, sys.stdout)
    interrupted = any(row["status"] in (INTERRUPTED, "not started") for row in rows)
    return SeedsResult(place, rows, found["median"], found["iqm"], found["iqm_interval"], interrupted)
