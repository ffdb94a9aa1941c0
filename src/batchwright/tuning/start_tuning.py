"""Starts or resumes a tuning: checks what is asked, prints the forecast, makes the folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchwright.config.load import Resolved
from batchwright.config.schema import ON_POLICY
from batchwright.core.errors import UserError, quoted, unknown
from batchwright.core.machine import Machine
from batchwright.core.run_dir import RunDir, run_name
from batchwright.core.trust import is_trusted, named_code
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.runs.learner_threads import NPROC
from batchwright.tuning.optuna_export import check_export
from batchwright.tuning.optuna_search import SAMPLERS, load_optuna
from batchwright.tuning.playbook import LOCAL, NONE, SURFACE
from batchwright.tuning.search_space import TITLES, SearchSpace, default_space, read_space
from batchwright.tuning.tuning_budget import read_seconds, read_steps
from batchwright.tuning.tuning_flow import (
    TuneOptions,
    TuneResult,
    make_forecast,
    make_header,
    measure_and_allocate,
    run_tuning,
)
from batchwright.tuning.tuning_ledger import FORMAT, HEADER, is_tuning, read_ledger
from batchwright.tuning.tuning_run import UNITS_FOLDER
from batchwright.tuning.unit_place import UnitPlace
from batchwright.tuning.unit_runs import Objective, UnitPlanner, training_return

DEFAULT_BUDGET = "30m"
SEARCHES = (SURFACE, LOCAL, NONE, *SAMPLERS)
NOT_OF_UNITS = ("seed", "total_steps", "total_episodes", "hold", "eval_every")
"""Settings that a tuning decides itself."""


@dataclass(frozen=True)
class TuneRequest:
    """What a user asks for, as written."""

    env: str
    budget: str | None = None
    budget_steps: int | str | None = None
    phases: tuple[str, ...] = ()
    space: str | Path | None = None
    search: str = SURFACE
    tune_seeds: int | None = None
    judge_seeds: int = 5
    place: UnitPlace = field(default_factory=UnitPlace)
    run_dir: str | Path | None = None
    dry_run: bool = False
    export_optuna: str | Path | None = None

    def check(self) -> None:
        """Refuses what cannot be meant, before engines are measured."""
        if self.budget is not None and self.budget_steps is not None:
            raise UserError("--budget and --budget-steps both limit the cost.", ["leave out one of them"])
        for letter in self.phases:
            if letter not in TITLES:
                raise unknown("phase", letter, TITLES, "--phases")
        if self.search not in SEARCHES:
            raise unknown("search", self.search, SEARCHES, "--search")
        if self.search in SAMPLERS:
            load_optuna(self.search)
        if self.export_optuna is not None:
            check_export(self.export_optuna)
        self.place.check()
        if self.run_dir is not None:
            if is_tuning(self.run_dir):
                raise UserError(
                    f"{self.run_dir} holds a tuning already.",
                    [f"batchwright tune --resume {self.run_dir}", "another --run-dir"],
                )
            RunDir.refuse_used(self.run_dir)
        self.options(0, None).check()

    def options(self, first_seed: int, unit_steps: int | None) -> TuneOptions:
        steps = None if self.budget_steps is None else read_steps(str(self.budget_steps))
        seconds = None if steps is not None else read_seconds(self.budget or DEFAULT_BUDGET)
        return TuneOptions(
            seconds=seconds,
            steps=steps,
            tune_seeds=self.tune_seeds,
            judge_seeds=self.judge_seeds,
            search=self.search,
            first_seed=first_seed,
            unit_steps=unit_steps,
            narrow=bool(self.phases) or self.space is not None,
        )


def start_tuning(
    request: TuneRequest,
    resolved: Resolved,
    plan: Plan,
    machine: Machine,
    task: TaskFacts,
    stated: Sequence[str],
    objective: Objective | None,
    on_message: Callable[[str], None],
) -> TuneResult | None:
    """Tunes from a plan; None where only the forecast was asked for. `stated` are the numbers that stay fixed."""
    if resolved.config.learning.scale_learning_rate:
        raise UserError("--scale-learning-rate changes the learning rate that is tuned.", ["state --learning-rate"])
    if plan.get("reward_only"):
        raise UserError("--reward-only trains no policy whose return could be tuned.", ["leave out --reward-only"])
    planner = UnitPlanner(unit_flags(resolved, plan), machine, task)
    space = make_space(request, plan, stated)
    check_values(space, planner, plan)
    steps = int(plan["total_steps"]) if "total_steps" in stated else None
    options = request.options(int(plan["seed"]), steps)
    executor, begun = request.place.executor(planner.flags), time.monotonic()
    try:
        allocation, speed = measure_and_allocate(planner, plan, space, options, executor)
        defaults = {name: plan[name] for name in space.names}
        expected = make_forecast(allocation, space, defaults, speed, executor.slots)
        expected["spent_seconds"] = round(time.monotonic() - begun, 2)
        on_message(forecast_text(request.env, plan.algo, expected, allocation.strategy.search))
        if request.dry_run:
            return None
        name = objective_name(objective)
        header = make_header(request.env, plan, planner, space, allocation, options, name)
        folder = RunDir.create(request.run_dir, run_name(request.env, plan.algo, 0).rsplit("-s", 1)[0] + "-tuning").path
        return run_tuning(folder, planner, executor, objective or training_return, name, on_message, (header, expected))
    finally:
        executor.close()


def continue_tuning(
    folder: str | Path,
    machine: Machine,
    task: TaskFacts,
    place: UnitPlace,
    objective: Objective | None,
    on_message: Callable[[str], None],
) -> TuneResult:
    """Goes on with a tuning from its ledger."""
    header = read_header(folder)
    os.environ.setdefault(NPROC, str(header["flags"]["learner_threads"]))
    planner = UnitPlanner(header["flags"], machine, task)
    executor = place.executor(planner.flags)
    try:
        chosen, name = objective or training_return, objective_name(objective)
        return run_tuning(Path(folder).expanduser(), planner, executor, chosen, name, on_message)
    finally:
        executor.close()


def read_header(folder: str | Path) -> dict[str, Any]:
    """The header of a tuning's ledger; a folder that is none is refused."""
    if not is_tuning(folder):
        raise UserError(f"{folder} holds no tuning.", ["batchwright tune ENV --run-dir DIR"])
    lines = read_ledger(Path(folder).expanduser() / "ledger.jsonl")
    header = next((line for line in lines if line["kind"] == HEADER), None)
    if header is None or header.get("format") != FORMAT:
        raise UserError(f"the ledger of {folder} cannot be read.", ["begin anew in another --run-dir"])
    return header


def check_tuning_trust(folder: str | Path, trust: bool) -> str:
    """The environment of a tuning; code that it names is refused where nobody here made one of its units."""
    env, place = str(read_header(folder)["env"]), Path(folder).expanduser()
    units = [RunDir(path) for path in sorted((place / UNITS_FOLDER).glob("*")) if RunDir(path).is_run]
    if not trust and named_code(env) is not None and not any(is_trusted(unit, env) for unit in units):
        raise UserError(
            f"{folder} names code of its own, {quoted(env)}, and was not made here by you: importing it would run "
            "whatever its author wrote.",
            ["--trust (in Python: trust=True), if you trust its author"],
        )
    return env


def unit_flags(resolved: Resolved, plan: Plan) -> dict[str, Any]:
    """Everything that is stated or was measured, as flags: units do not depend on presets, files or timings."""
    flags = {name: resolved.config.get(name) for name in resolved.origins if name not in NOT_OF_UNITS}
    flags |= {"engine": plan["engine"], "learner_threads": plan["learner_threads"], "eval_every": 0}
    flags |= {"num_envs": plan["num_envs"], "algo": plan.algo}
    if plan.regime == ON_POLICY and plan.get("rollout_episodes") is None:
        flags["rollout_steps"] = plan["rollout_steps"]
        _state_minibatch(flags, resolved, plan)
    return flags


def _state_minibatch(flags: dict[str, Any], resolved: Resolved, plan: Plan) -> None:
    """States the size of minibatches, so that it stays where the rollout changes; a number of them by flag stays."""
    by_number = resolved.origin("minibatches")
    if by_number is not None and (by_number.kind == "flag" or plan["rollout_transitions"] % plan["minibatches"]):
        return
    if plan.algo == "ppo" or resolved.origin("hold") is not None:
        flags.pop("minibatches", None)
        flags["minibatch_transitions"] = plan["minibatch_transitions"]


def make_space(request: TuneRequest, plan: Plan, stated: Sequence[str]) -> SearchSpace:
    if request.space is not None:
        return read_space(request.space, plan, request.phases, stated)
    return default_space(plan, request.phases, stated)


def check_values(space: SearchSpace, planner: UnitPlanner, plan: Plan) -> None:
    """Refuses a number none of whose values can be planned with the default; single ones fail as units."""
    for phase in space.phases:
        for axis in phase.axes:
            others = [value for value in axis.values if value != plan[axis.name]]
            refused = [error for value in others if (error := _refusal(planner, axis.name, value)) is not None]
            if others and len(refused) == len(others):
                raise UserError(f"{axis.name} cannot be tuned here: {refused[0].message}", [f"--fix {axis.name}=..."])


def _refusal(planner: UnitPlanner, name: str, value: Any) -> UserError | None:
    try:
        planner.plan({name: value}, 0, 10**6)
    except UserError as error:
        return error
    return None


def objective_name(objective: Objective | None) -> str:
    if objective is None:
        return "episode_return"
    return f"{getattr(objective, '__module__', '')}.{getattr(objective, '__qualname__', type(objective).__name__)}"


def forecast_text(env: str, algo: str, expected: Mapping[str, Any], search: str) -> str:
    minutes, least, most = (expected[name] / 60 for name in ("seconds", "least_seconds", "most_seconds"))
    phases = ", ".join(f"{letter} {count}" for letter, count in expected["units_by_phase"].items())
    first = (
        f"tuning {algo} on {env}: at most {expected['units']} units of {expected['unit_steps']:,} steps, "
        f"{expected['steps']:,} steps, about {minutes:.1f} minutes (within {expected['within']:.0%}) "
        f"with {expected['workers']} at a time"
    )
    span = f"{least:.1f} minutes where nothing beats the default, so that nothing is judged, to {most:.1f}"
    return (
        f"{first}\n  from {span} where the costliest settings win\n"
        f"  units by phase, about: {phases}; joint search: {search}"
    )
