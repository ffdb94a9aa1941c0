"""A tuning from its options to its verdict: header, forecast, playbook, preset."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchwright.core import html
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.planning.plan import Plan
from batchwright.runs.versions import versions
from batchwright.tuning.executors import Executor
from batchwright.tuning.playbook import JUDGING_PHASE, SURFACE, Strategy, play
from batchwright.tuning.screening import bold_values
from batchwright.tuning.search_space import SearchSpace, Setting
from batchwright.tuning.settings_text import show_setting
from batchwright.tuning.speed_probe import measure_speed
from batchwright.tuning.tuned_preset import certify, write_tuned
from batchwright.tuning.tuning_budget import SHAPES, Allocation, Budget, Speed, allocate, forecast, strategies
from batchwright.tuning.tuning_ledger import TuningLedger
from batchwright.tuning.tuning_run import Limits, TuningInterrupted, TuningRun, best_so_far
from batchwright.tuning.unit_runs import Objective, UnitPlanner

FEWEST_JUDGE_SEEDS = 4
"""With fewer, no result can be told from chance: of 3 against 3 runs, every tenth beats all others by luck."""
JUDGE_SEED_OFFSET = 1000
"""Judging seeds begin so far above the tuning seeds; there are never as many of these."""
MOST_TUNE_SEEDS = 100


@dataclass(frozen=True)
class TuneOptions:
    """What a user asks of a tuning, beside the settings that are fixed."""

    seconds: float | None = None
    steps: int | None = None
    tune_seeds: int | None = None
    """1 or 2 by the budget, where it is not stated."""
    judge_seeds: int = 5
    contestants: int = 3
    search: str = SURFACE
    first_seed: int = 0
    unit_steps: int | None = None
    """Environment steps of one unit, where they are stated."""
    narrow: bool = False
    """Whether the phases or the numbers to tune were chosen."""

    def check(self) -> None:
        if self.judge_seeds < FEWEST_JUDGE_SEEDS or self.judge_seeds > JUDGE_SEED_OFFSET:
            raise UserError(
                f"--judge-seeds {self.judge_seeds}: {FEWEST_JUDGE_SEEDS} to {JUDGE_SEED_OFFSET} can tell a better "
                "setting from chance.",
                ["--judge-seeds 5", "--judge-seeds 10"],
            )
        if self.tune_seeds is not None and not 1 <= self.tune_seeds <= MOST_TUNE_SEEDS:
            raise UserError(f"--tune-seeds {self.tune_seeds} is not from 1 to {MOST_TUNE_SEEDS}.", ["--tune-seeds 2"])


@dataclass(frozen=True)
class TuneResult:
    """The outcome of a tuning."""

    run_dir: Path
    best: Setting
    """The winner; the best so far where the tuning was interrupted; empty for the default."""
    verdict: dict[str, Any] | None
    """winner, reason, and a row for each judged setting; None where the tuning was interrupted."""
    preset: Path | None
    """`tuned.yaml`; None where there is no winner."""
    units: int
    failed_units: int
    env_steps: int
    seconds: float
    """Of all units together."""
    interrupted: bool = False

    def _repr_html_(self) -> str:
        """The verdict in a notebook."""
        verdict = self.verdict or {}
        rows = [("winner", show_setting(self.best)), ("reason", str(verdict.get("reason", "interrupted")))]
        rows += [("preset", str(self.preset))] if self.preset else []
        rows += [("units", f"{self.units}, {self.failed_units} failed"), ("steps", f"{self.env_steps:,}")]
        return html.table(("", ""), [*rows, ("run", str(self.run_dir))])


def base_strategy(options: TuneOptions) -> Strategy:
    first = options.first_seed
    judge = tuple(range(first + JUDGE_SEED_OFFSET, first + JUDGE_SEED_OFFSET + options.judge_seeds))
    tune = tuple(range(first, first + (options.tune_seeds or 1)))
    return Strategy(tune, judge, False, options.search, 4, options.contestants, sampler_seed=first)


def iteration_steps(plan: Plan) -> int:
    """Environment steps of one iteration of a plan; of whole episodes, about a thousand."""
    return int(plan.get("rollout_transitions") or plan.get("steps_per_iteration") or 1000)


def step_multiple(plan: Plan, space: SearchSpace) -> int:
    """Steps that hold whole iterations of every rollout size, so that all units take exactly the same steps."""
    at_once = iteration_steps(plan)
    axis = space.axis("rollout_steps")
    sizes = [at_once] if axis is None else [at_once * v // plan["rollout_steps"] for v in axis.values]
    return min(math.lcm(*sizes), 4 * max(sizes))


def other_shape(plan: Plan, space: SearchSpace) -> Setting:
    """The next value of the first tuned number that decides the shape of arrays; nothing where none is tuned."""
    for axis in (axis for phase in space.phases for axis in phase.axes if axis.name in SHAPES and len(axis.values) > 1):
        at = axis.values.index(plan[axis.name])
        return {axis.name: axis.values[at - 1 if at else 1]}
    return {}


def measure_and_allocate(
    planner: UnitPlanner, plan: Plan, space: SearchSpace, options: TuneOptions, executor: Executor
) -> tuple[Allocation, Speed]:
    """What the budget is spent on, from the measured speed of the default setting."""
    options.check()
    warmup = int(plan.get("warmup_steps") or 0)
    bold = bold_values(space, {name: plan[name] for name in space.names}) if options.search == SURFACE else {}
    ways = strategies(base_strategy(options), options.tune_seeds is None, options.first_seed, options.narrow)

    def allocated(speed: Speed) -> Allocation:
        return allocate(
            Budget(options.steps, options.seconds, speed, executor.slots, space),
            ways,
            wanted_steps=options.unit_steps or int(plan["total_steps"]),
            length_is_stated=options.unit_steps is not None,
            iteration_steps=iteration_steps(plan) + warmup,
            multiple=step_multiple(plan, space),
        )

    def unit_steps(speed: Speed) -> int:
        try:
            return allocated(speed).unit_steps
        except UserError:  # the measured speed decides whether the budget is too small
            return 0

    shape = other_shape(plan, space)
    speed = measure_speed(planner, executor, iteration_steps(plan), warmup, bold, shape, unit_steps)
    return allocated(speed), speed


def make_header(
    env: str,
    plan: Plan,
    planner: UnitPlanner,
    space: SearchSpace,
    allocation: Allocation,
    options: TuneOptions,
    objective: str,
) -> dict[str, Any]:
    """All that decides what a tuning does; a resumed one must have the same."""
    return {
        "code": versions(),
        "env": env,
        "env_file": file_digest(env),
        "algo": plan.algo,
        "flags": dict(planner.flags),
        "defaults": {name: plan[name] for name in space.names},
        "space": space.to_json(),
        "space_digest": space.digest,
        "strategy": asdict(allocation.strategy),
        "unit_steps": allocation.unit_steps,
        "budget_steps": options.steps,
        "budget_seconds": options.seconds,
        "objective": objective,
    }


def file_digest(env: str) -> str:
    """A fingerprint of the file of an environment `file.py:factory`; empty for others."""
    if ".py:" not in env:
        return ""
    try:
        return hashlib.sha256(Path(env.rsplit(":", 1)[0]).expanduser().read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


def refuse_other_code(header: Mapping[str, Any], objective: str) -> None:
    """Refuses to go on where new units could not be compared with the old ones."""
    saved, now = header["code"], versions()
    changed = [f"{name} {saved.get(name)} -> {now[name]}" for name in now if saved.get(name) != now[name]]
    if changed:
        raise UserError(
            f"the ledger was written with other versions ({', '.join(changed)}): its units cannot be compared with new "
            "ones.",
            ["install these versions again", "begin anew in another --run-dir"],
        )
    if header["env_file"] != file_digest(header["env"]):
        raise UserError(f"{header['env']} has changed since the tuning began.", ["begin anew in another --run-dir"])
    if header["objective"] != objective:
        raise UserError(
            f"the tuning began with the objective {header['objective']}, not {objective}.",
            ["resume it in Python with the same objective", "begin anew in another --run-dir"],
        )


def run_tuning(
    folder: Path,
    planner: UnitPlanner,
    executor: Executor,
    objective: Objective,
    objective_name: str,
    on_message: Callable[[str], None],
    begin: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None,
) -> TuneResult:
    """Runs or resumes a tuning in its folder; `begin` is the header and the forecast of a new one."""
    with RunDir(folder).lock():
        ledger = TuningLedger(folder)
        try:
            if begin is not None:
                ledger.write_header(begin[0])
                ledger.write_forecast(begin[1])
            assert ledger.header is not None
            refuse_other_code(ledger.header, objective_name)
            return _run(folder, ledger, planner, executor, objective, on_message)
        finally:
            ledger.close()


def _run(
    folder: Path,
    ledger: TuningLedger,
    planner: UnitPlanner,
    executor: Executor,
    objective: Objective,
    on_message: Callable[[str], None],
) -> TuneResult:
    header: Mapping[str, Any] = ledger.header or {}
    expected: Mapping[str, Any] = ledger.forecast or {}
    strategy = read_strategy(header["strategy"])
    space = SearchSpace.from_json(header["space"])
    total = int(expected.get("units", 0))

    def show(unit: dict[str, Any], count: int) -> None:
        score = unit["reason"] or unit["status"] if unit["score"] is None else f"score {unit['score']:,.4g}"
        place = f"{count:>4} of at most {total}  {unit['phase']:<8} seed {unit['seed']:<4}"
        on_message(f"{place} {show_setting(unit['setting'])}: {score}")

    limits = Limits(
        steps=header["budget_steps"],
        seconds=header["budget_seconds"],
        judging_seconds=float(expected.get("judging_seconds", 0.0)),
        before=float(expected.get("spent_seconds", 0.0))
        + sum(unit["seconds"] for unit in ledger.units.values()) / int(expected.get("workers", 1)),
    )
    run = TuningRun(folder, ledger, planner, executor, header["unit_steps"], limits, objective, show)
    try:
        final = run.run(play(space, dict(header["defaults"]), strategy))
    except TuningInterrupted:
        best, score = best_so_far(ledger)
        on_message(
            f"interrupted; best so far: {show_setting(best)}" + ("" if score is None else f", score {score:,.4g}")
        )
        return _result(folder, ledger, best, None, None)
    path = None
    if final["winner"] is not None:
        counts = unit_counts(ledger)
        seen = [unit["seed"] for unit in ledger.units.values() if unit["phase"] != JUDGING_PHASE]
        judged = [unit["seed"] for unit in ledger.units.values() if unit["phase"] == JUDGING_PHASE]
        seeds = sorted(set(seen)), sorted(set(judged))
        certificate = certify(final, header, seeds, counts, ledger.digest)
        settings = {**planner.settings(final["winner"]), "total_steps": header["unit_steps"]}
        path = write_tuned(folder, header["env"], settings, certificate)
    return _result(folder, ledger, final["winner"] or {}, final, path)


def read_strategy(record: Mapping[str, Any]) -> Strategy:
    seeds = {name: tuple(record[name]) for name in ("tune_seeds", "judge_seeds")}
    return Strategy(**{**record, **seeds})


def unit_counts(ledger: TuningLedger) -> dict[str, Any]:
    lines = list(ledger.units.values())
    failed = [unit for unit in lines if unit["score"] is None and unit["status"] != "skipped"]
    return {"units": len(lines), "failed": len(failed), "env_steps": sum(unit["env_steps"] for unit in lines)}


def _result(
    folder: Path, ledger: TuningLedger, best: Setting, final: dict[str, Any] | None, path: Path | None
) -> TuneResult:
    counts = unit_counts(ledger)
    seconds = sum(unit["seconds"] for unit in ledger.units.values())
    return TuneResult(
        folder,
        best,
        final,
        path,
        counts["units"],
        counts["failed"],
        counts["env_steps"],
        round(seconds, 1),
        final is None,
    )


def make_forecast(
    allocation: Allocation, space: SearchSpace, defaults: Setting, speed: Speed, workers: int
) -> dict[str, Any]:
    """The forecast as the ledger keeps it."""
    found = forecast(allocation, space, defaults, speed, workers)
    unit = allocation.unit_steps * speed.seconds_per_step * speed.screened_cost + speed.unit_seconds
    judging = allocation.units[JUDGING_PHASE] * unit / workers
    return {**found, "judging_seconds": round(judging, 2), "workers": workers, "speed": speed.to_json()}
