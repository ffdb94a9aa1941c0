"""What `batchwright tune` promises, measured: planted cases, forecasts, budgets, programs that are shared.

python benchmarks/tune_measure.py [--parts twice planted forecast budget shared] [--cases nothing] [--nothing 10]
Every tuning is kept in the JSON file at once; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from batchwright.api import set_up_jax

set_up_jax()

import jax  # noqa: E402
from jax.experimental.compilation_cache import compilation_cache  # noqa: E402

import batchwright  # noqa: E402
from batchwright.core.machine import probe_machine  # noqa: E402
from batchwright.envs.catalog import describe  # noqa: E402
from batchwright.envs.task_facts import task_facts  # noqa: E402
from batchwright.tuning.tuning_ledger import read_ledger  # noqa: E402
from batchwright.tuning.unit_runs import UnitPlanner  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "tune_measure.json"
ENVS = Path(__file__).with_name("planted_envs.py").resolve()
SMALL = {"engine": "gymnasium-sync", "num_envs": 4, "minibatches": 2, "epochs": 2, "hidden": "16", "preset": "none"}
SMALL |= {"rollout_steps": 32, "eval_episodes": 1, "learner_threads": 1}
FORECAST = [
    ("Pendulum-v1", {"budget_steps": "2M"}),
    ("MountainCar-v0", {"budget_steps": "1.5M", "engine": "envpool"}),
    ("Acrobot-v1", {"budget_steps": "1M", "phases": ["B", "C"], "search": "none"}),
    ("CartPole-v1", {"budget_steps": "2M"}),
    ("MountainCarContinuous-v0", {"budget_steps": "600k", "phases": ["D"], "algo": "a2c"}),
    ("CartPole-v1", {"budget_steps": "2.5M", "phases": ["B"], "algo": "dqn", "search": "none"}),
]
"""Tunings that were made after the last number of the forecast was set."""
BUDGETS = [("CartPole-v1", "60s"), ("Acrobot-v1", "90s"), ("Pendulum-v1", "60s")]
SETTINGS = 32
"""Settings of CartPole for the comparison with cold processes and of two workers."""
SHORT, LONG = 8192, 131_072
"""Environment steps of each."""


def tuning(env: str, **options: Any) -> dict[str, Any]:
    """One tuning: its verdict and its cost beside the forecast. It finds no program that an earlier one compiled."""
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", str(Path(folder) / "programs"))
        compilation_cache.reset_cache()
        begun = time.perf_counter()
        result = batchwright.tune(env, run_dir=Path(folder) / "tuning", quiet=True, **options)
        wall = time.perf_counter() - begun
        lines = read_ledger(Path(folder) / "tuning" / "ledger.jsonl")
    assert result is not None and result.verdict is not None
    expected = next(line for line in lines if line["kind"] == "forecast")
    units = [line for line in lines if line["kind"] == "unit"]
    skipped = sum(unit["status"] == "skipped" for unit in units)
    return {
        "winner": result.verdict["winner"],
        "reason": result.verdict["reason"],
        "units": result.units - skipped,
        "skipped": skipped,
        "env_steps": result.env_steps,
        "seconds": round(wall, 1),
        "unit_seconds": round(result.seconds, 1),
        "longest_unit_seconds": max(unit["seconds"] for unit in units),
        "forecast": {name: expected[name] for name in ("units", "steps", "seconds", "within", "spent_seconds")},
    }


TWICE = (
    "tune IdentityDiscrete-v0 --config slow.yaml --engine jax --num-envs 4 --rollout-steps 16 --minibatches 2 "
    "--epochs 2 --hidden 8 --phases B --search none --budget-steps 30k"
)
TIMES = ("seconds", "least_seconds", "most_seconds", "spent_seconds", "judging_seconds", "speed", "within", "written")
"""What the machine decides, in ledgers and reports."""


def twice(made: list[Path] | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """One command twice, with its report; or two folders in which that was done already."""

    def measure() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as work:
            Path(work, "slow.yaml").write_text("learning_rate: 3.0e-5\n")
            folders = made or [Path(work) / name for name in ("first", "second")]
            for folder in [] if made else folders:
                for words in ([*TWICE.split(), "--run-dir", str(folder)], ["report", str(folder)]):
                    subprocess.run([sys.executable, "-m", "batchwright.cli", *words], cwd=work, check=True)
            return {"command": f"batchwright {TWICE}"} | compared(*folders)

    return {"one command twice": measure}


def compared(first: Path, second: Path) -> dict[str, Any]:
    """What two tunings have in common, byte for byte; times aside in the ledger and the report."""
    ledgers = [[without_times(line) for line in read_ledger(folder / "ledger.jsonl")] for folder in (first, second)]
    pages = [(folder / "report.html").read_text(encoding="utf-8") for folder in (first, second)]
    parts = [re.split(r'(?<=id="data">)(.*?)(?=</script>)', page, maxsplit=1, flags=re.DOTALL) for page in pages]
    shown = [without_times(json.loads(part[1])) for part in parts]
    preset = (first / "tuned.yaml").read_bytes()
    return {
        "ledger_lines": len(ledgers[0]),
        "same_ledger": ledgers[0] == ledgers[1],
        "same_preset": preset == (second / "tuned.yaml").read_bytes(),
        "same_report": shown[0] == shown[1] and parts[0][::2] == parts[1][::2],
    }


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(part) for name, part in value.items() if name not in TIMES}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def planted(nothing: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Tunings whose outcome is known."""
    few = {"search": "none", "judge_seeds": 5, "tune_seeds": 2}
    slow = Path(tempfile.mkdtemp()) / "slow.yaml"
    slow.write_text("learning_rate: 3.0e-5\n")
    short = Path(tempfile.mkdtemp()) / "short.yaml"
    short.write_text("gamma: 0.7\nentropy_start: 0.0\n")
    space = Path(tempfile.mkdtemp()) / "space.yaml"
    space.write_text("D: {gamma: [0.7, 0.99], entropy_start: [0.0, 0.6]}\n")
    corridor = {"total_steps": 20_480, "learning_rate": 3e-3}
    cases: dict[str, Callable[[], dict[str, Any]]] = {
        "learning rate alone": lambda: tuning(
            f"{ENVS}:make_match", config=slow, phases=["B", "D"], budget_steps="400k", **few, **SMALL
        ),
        "gamma with entropy": lambda: tuning(
            f"{ENVS}:make_corridor", config=short, space=space, budget_steps="2M", **few, **SMALL, **corridor
        ),
    }
    for number in range(nothing):
        cases[f"nothing matters {number}"] = lambda number=number: tuning(  # type: ignore[misc]
            f"{ENVS}:make_noise", seed=10_000 * number, phases=["B"], budget_steps="80k", **few, **SMALL
        )
    return cases


def forecasts() -> dict[str, Callable[[], dict[str, Any]]]:
    flags = {"engine": "jax", "num_envs": 8, "hidden": "16", "preset": "none"}
    return {
        f"{env} {number}": lambda env=env, options=options: tuning(env, **{**flags, **options})  # type: ignore[misc]
        for number, (env, options) in enumerate(FORECAST)
    }


def budgets() -> dict[str, Callable[[], dict[str, Any]]]:
    flags = {"engine": "jax", "num_envs": 8, "hidden": "16", "preset": "none", "phases": ["B"], "search": "none"}
    return {
        f"{env} {budget}": lambda env=env, budget=budget: {  # type: ignore[misc]
            "budget_seconds": float(budget[:-1]),
            **tuning(env, budget=budget, **flags),
        }
        for env, budget in BUDGETS
    }


def prepared(folder: Path, steps: int) -> list[Path]:
    """32 settings of CartPole that differ in numbers and not in shapes."""
    flags = {
        "env": "CartPole-v1",
        "algo": "ppo",
        "engine": "jax",
        "num_envs": 8,
        "rollout_steps": 64,
        "hidden": "64,64",
    }
    flags |= {"learner_threads": 1, "eval_every": 0, "eval_episodes": 5, "doctor": "off"}
    planner = UnitPlanner(flags, probe_machine(), task_facts(describe("CartPole-v1")))
    settings = [{"learning_rate": 1e-4 * 1.12**number, "gamma": 0.95 + 0.001 * number} for number in range(SETTINGS)]
    return [planner.prepare(s, 0, steps, folder / f"unit-{number}") for number, s in enumerate(settings)]


TRAIN_ALL = """
import sys
from pathlib import Path
from batchwright.api import keep_programs
keep_programs()
from batchwright.tuning.executors import make_executor
executor = make_executor(int(sys.argv[1]))
assert all(outcome.status == "finished" for outcome in executor.execute(map(Path, sys.argv[2:])))
executor.close()
"""
"""A program that trains runs as `tune` does, with so many workers."""


def shared() -> dict[str, Callable[[], dict[str, Any]]]:
    """Seconds of 32 settings from the start of a process: one, one with two workers, and one process for each.

    None finds a compiled program of an earlier one; the cold processes come in four parts of 8 settings.
    """

    def timed(
        commands: Callable[[list[str]], list[list[str]]], part: slice = slice(None), steps: int = SHORT
    ) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            runs = [str(run) for run in prepared(Path(folder), steps)][part]
            begun, before = time.perf_counter(), os.times()
            for command in commands(runs):
                with tempfile.TemporaryDirectory() as cache:
                    own = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache}
                    subprocess.run([sys.executable, *command], env=own, check=True)
            spent = os.times()
            cpu = sum(spent[:4]) - sum(before[:4])
            seconds = round(time.perf_counter() - begun, 1)
            return {"settings": len(runs), "seconds": seconds, "cpu_seconds": round(cpu, 1), "load": os.getloadavg()[0]}

    def together(workers: int) -> Callable[[list[str]], list[list[str]]]:
        return lambda runs: [["-c", TRAIN_ALL, str(workers), *runs]]

    def alone(runs: list[str]) -> list[list[str]]:
        return [["-m", "batchwright.cli", "resume", run, "--quiet"] for run in runs]

    cases: dict[str, Callable[[], dict[str, Any]]] = {}
    for number in range(3):
        cases[f"one process {number}"] = lambda: timed(together(1))
        cases[f"two workers {number}"] = lambda: timed(together(2))
    for number in range(2):
        cases[f"long, one process {number}"] = lambda: timed(together(1), steps=LONG)
        cases[f"long, two workers {number}"] = lambda: timed(together(2), steps=LONG)
    for number in range(4):
        part = slice(8 * number, 8 * number + 8)
        cases[f"cold processes {number}"] = lambda part=part: timed(alone, part)  # type: ignore[misc]
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["twice", "planted", "forecast", "budget", "shared"])
    parser.add_argument("--made", nargs=2, type=Path, help="for `twice`: folders of two tunings of its command")
    parser.add_argument("--cases", nargs="+", help="only cases whose names begin with one of these words")
    parser.add_argument("--nothing", type=int, default=10, help="tunings of the case where nothing matters")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    report: dict[str, Any] = json.loads(given.output.read_text()) if given.output.exists() else {}
    makers = {"twice": lambda: twice(given.made), "planted": lambda: planted(given.nothing)}
    makers |= {"forecast": forecasts, "budget": budgets, "shared": shared}
    for part in given.parts:
        known = report.setdefault(part, {})
        for name, measure in makers[part]().items():
            if name in known or (given.cases and not name.startswith(tuple(given.cases))):
                continue
            known[name] = measure()
            report["measured"] = datetime.now(UTC).isoformat(timespec="seconds")
            report["machine"] = {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine()}
            given.output.parent.mkdir(exist_ok=True)
            given.output.write_text(json.dumps(report, indent=1) + "\n")
            print(part, name, json.dumps(known[name]), flush=True)


if __name__ == "__main__":
    main()
