"""Tunings: better settings within a budget, judged on fresh seeds."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.api.jax_setup import keep_programs
from batchwright.api.plans import plan_to_train
from batchwright.api.reports import leave_report, message_printer
from batchwright.config.presets import PresetNames
from batchwright.core.machine import probe_machine
from batchwright.planning.process_plan import refuse_spread_units

if TYPE_CHECKING:
    from batchwright.tuning.tuning_flow import TuneResult
    from batchwright.tuning.unit_runs import Objective


def tune(
    env: str,
    *,
    budget: str | None = None,
    budget_steps: int | str | None = None,
    phases: Sequence[str] = (),
    space: str | Path | None = None,
    search: str = "surface",
    tune_seeds: int | None = None,
    judge_seeds: int = 5,
    workers: int | None = None,
    on: str = "local",
    address: str | None = None,
    export_optuna: str | Path | None = None,
    run_dir: str | Path | None = None,
    dry_run: bool = False,
    quiet: bool = False,
    objective: Objective | None = None,
    preset: PresetNames = None,
    config: str | Path | None = None,
    **settings: Any,
) -> TuneResult | None:
    """Tunes a setting by the playbook and judges it on fresh seeds; returns the verdict, None with `dry_run`.

    `settings` are the flags of `batchwright train` with underscores: what is stated is fixed, not tuned, and
    `total_steps` is the length of one training. `objective` is a function of one metric record that is maximised; its
    mean over the steps of a training ranks a setting. The default is the return of the episodes that ended.
    `on="ray"` trains on the Ray cluster at `address`; `export_optuna` is a file for the tuning as an Optuna study.
    """
    keep_programs()
    from batchwright.envs.catalog import describe
    from batchwright.envs.passed_envs import name_passed
    from batchwright.envs.task_facts import task_facts
    from batchwright.tuning.start_tuning import TuneRequest, start_tuning
    from batchwright.tuning.unit_place import UnitPlace

    env = name_passed(env)
    settings = {name: value for name, value in settings.items() if value is not None}
    settings.setdefault("learner_threads", os.environ.get("NPROC", "1"))
    request = TuneRequest(
        env,
        budget,
        budget_steps,
        tuple(phases),
        space,
        search,
        tune_seeds,
        judge_seeds,
        UnitPlace(on, address, workers),
        run_dir,
        dry_run,
        export_optuna,
    )
    request.check()
    on_message = message_printer(quiet)
    resolved, made = plan_to_train(env, preset, config, on_message, **settings)
    refuse_spread_units(made, "tune")
    task = task_facts(describe(env))
    result = start_tuning(request, resolved, made, probe_machine(), task, tuple(settings), objective, on_message)
    if result is not None:
        _leave_tuning(result.run_dir, export_optuna)
    return result


def resume_tuning(
    folder: str | Path,
    *,
    workers: int | None = None,
    on: str = "local",
    address: str | None = None,
    export_optuna: str | Path | None = None,
    quiet: bool = False,
    objective: Objective | None = None,
    trust: bool = False,
) -> TuneResult:
    """Goes on with a tuning; its decisions and its verdict are those of one that was never stopped.

    `trust` lets the code run that a tuning names which was not made here.
    """
    keep_programs()
    from batchwright.envs.catalog import describe
    from batchwright.envs.task_facts import task_facts
    from batchwright.tuning.optuna_export import check_export
    from batchwright.tuning.start_tuning import check_tuning_trust, continue_tuning
    from batchwright.tuning.unit_place import UnitPlace

    place = UnitPlace(on, address, workers)
    place.check()
    if export_optuna is not None:
        check_export(export_optuna)
    task = task_facts(describe(check_tuning_trust(folder, trust)))
    on_message = message_printer(quiet)
    result = continue_tuning(folder, probe_machine(), task, place, objective, on_message)
    _leave_tuning(result.run_dir, export_optuna)
    return result


def _leave_tuning(folder: Path, export: str | Path | None) -> None:
    """Leaves the report of a tuning, and its study where one is asked for."""
    leave_report(folder, sys.stdout)
    if export is not None:
        from batchwright.tuning.optuna_export import export_optuna

        export_optuna(folder, export)
