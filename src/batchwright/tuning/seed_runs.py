"""One setting over several seeds: a folder of runs that differ in nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from batchwright.config.load import Origin, Resolved
from batchwright.core.run_dir import RUNS, RunDir, run_name
from batchwright.core.seed_folder import seed_run, write_seed_folder
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import PINNED
from batchwright.runs.launch import create_run
from batchwright.tuning.executors import Executor, RunOutcome


@dataclass(frozen=True)
class SeedsResult:
    """The outcome of one setting over several seeds."""

    run_dir: Path
    """The folder of the runs."""
    runs: list[dict[str, Any]]
    """One per seed: run, status, reason, seconds, score (the mean of its last evaluation)."""
    median: float | None
    """Of the scores."""
    iqm: float | None
    iqm_interval: list[float] | None
    """95%; resamples runs."""
    interrupted: bool = False


def prepare_seeds(resolved: Resolved, plan: Plan, count: int, folder: str | Path | None) -> Path:
    """A folder with one run directory per seed, from the plan's seed on, nothing trained yet."""
    first = int(plan["seed"])
    env = str(resolved.config.task.env)
    if folder is None:
        name = run_name(env, plan.algo, first).rsplit("-s", 1)[0]
        folder = RunDir.create(None, f"{name}-seeds{count}", root=RUNS, now=datetime.now()).path
    place = RunDir.create(folder, "").path
    seeds = list(range(first, first + count))
    for seed in seeds:
        create_run(*with_seed(resolved, plan, seed), seed_run(place, seed))
    write_seed_folder(place, env, plan.algo, seeds)
    return place


def with_seed(resolved: Resolved, plan: Plan, seed: int) -> tuple[Resolved, Plan]:
    """The same run with another seed, as `train --seed` would plan it."""
    running = replace(resolved.config.running, seed=seed)
    origins = {**resolved.origins, "seed": Origin("flag", "--seed")}
    quantity = replace(plan.quantities["seed"], value=seed, reason="one of --seeds", source=PINNED)
    return (
        replace(resolved, config=replace(resolved.config, running=running), origins=origins),
        replace(plan, quantities={**plan.quantities, "seed": quantity}),
    )


def train_seeds(
    runs: Sequence[Path], executor: Executor, on_outcome: Callable[[RunOutcome], None]
) -> list[dict[str, Any]]:
    """Trains runs to their ends; one entry per run, in order: {"run", "status", "reason", "seconds"}."""
    found: dict[Path, RunOutcome] = {}
    for outcome in executor.execute(runs):
        found[outcome.run] = outcome
        on_outcome(outcome)
    return [found[run].to_json() if run in found else RunOutcome(run, "not started").to_json() for run in runs]
