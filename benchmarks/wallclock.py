"""Wall-clock from the start of the process to solved, imports and compilation included: SB3, SBX and Batchwright.

    .venv-peers/bin/python benchmarks/wallclock.py

The time is that of the whole process, from its start to its exit, as a user at the terminal sees it. Solved means the
same for all: the mean return of the last 100 training episodes reaches the threshold. SB3 and SBX run the RL Zoo's
hyperparameters (`peers/solve.py`). Caches are empty at every start unless --warm.
Writes benchmarks/results/wallclock.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peers import machine

HERE = Path(__file__).resolve().parent
OURS = HERE.parent / ".venv" / "bin" / "batchwright"

THRESHOLDS = {"CartPole-v1": 475.0, "LunarLander-v3": 200.0}
CONTENDERS = ("batchwright", "sb3", "sbx")
TARGETS = {"sb3": 1 / 3, "sbx": 1 / 2}
"""At most this share of the peer's time."""


@dataclass(frozen=True)
class Run:
    contender: str
    env: str
    seed: int
    seconds: float
    solved: bool
    steps: int | None
    reason: str
    """Why it does not count as solved; empty when it does."""


def our_command(env: str, seed: int) -> list[str]:
    """Must stop at THRESHOLDS[env] and print, as its last line of stdout, JSON with `solved` and `steps`."""
    stop = ["--stop-return", str(THRESHOLDS[env]), "--eval-every", "0"]
    return [str(OURS), "train", env, "--seed", str(seed), *stop, "--json"]


def peer_command(library: str, env: str, seed: int, options: argparse.Namespace) -> list[str]:
    return [
        *(options.python_peers, str(HERE / "peers" / "solve.py"), "--library", library, "--env", env),
        *("--threshold", str(THRESHOLDS[env]), "--seed", str(seed), "--threads", str(options.peer_threads)),
    ]


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def run_once(contender: str, env: str, seed: int, options: argparse.Namespace) -> Run:
    ours = contender == "batchwright"
    argv = our_command(env, seed) if ours else peer_command(contender, env, seed, options)
    with tempfile.TemporaryDirectory() as directory:
        # An empty cache: programs are compiled and engines measured, as at the first start on a machine.
        environment = os.environ if options.warm else {**os.environ, "XDG_CACHE_HOME": directory}
        started = time.perf_counter()
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=options.timeout,
                cwd=directory,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Run(contender, env, seed, options.timeout, False, None, f"no end within {options.timeout:g} s")
        except OSError as error:
            return Run(contender, env, seed, 0.0, False, None, str(error))
        seconds = time.perf_counter() - started
    solved, steps, reason = read_outcome(done)
    return Run(contender, env, seed, round(seconds, 2), solved, steps, reason)


def read_outcome(done: subprocess.CompletedProcess[str]) -> tuple[bool, int | None, str]:
    if done.returncode != 0:
        return False, None, f"exit code {done.returncode}: {last_line(done.stderr)}"
    try:
        outcome = json.loads(last_line(done.stdout))
        solved, steps = bool(outcome["solved"]), int(outcome.get("steps", outcome.get("env_steps")))
    except (ValueError, KeyError, TypeError):
        return False, None, "the last line of stdout is not JSON with `solved` and `steps`"
    return solved, steps, "" if solved else f"not solved within its {steps:,} steps"


def judge(env: str, runs: list[Run]) -> list[dict[str, Any]]:
    """Our share of each peer's time.

    Every run of ours has to be solved. A peer that spent its budget unsolved would have needed longer: its time is a
    lower bound, and our share an upper one (`at_most`).
    """
    mine = [run for run in runs if run.contender == "batchwright"]
    rows = []
    for peer, target in TARGETS.items():
        theirs = [run for run in runs if run.contender == peer]
        share = None
        if mine and theirs and all(run.solved for run in mine):
            share = statistics.median(run.seconds for run in mine) / statistics.median(run.seconds for run in theirs)
        verdict = "not measured" if share is None else "pass" if share <= target else "FAIL"
        bound = not all(run.solved for run in theirs)
        rows.append(
            {"env": env, "peer": peer, "target": target, "reached": share, "at_most": bound, "verdict": verdict}
        )
    return rows


def print_table(env: str, runs: list[Run]) -> None:
    print(f"\n{env} to a mean return of {THRESHOLDS[env]:g} over 100 training episodes\n")
    print("| | seconds, median | min - max | steps, median | seeds solved |\n|---|---|---|---|---|")
    for name in CONTENDERS:
        mine = [run for run in runs if run.contender == name]
        if not mine:
            continue
        seconds = [run.seconds for run in mine if run.solved]
        steps = [run.steps for run in mine if run.solved and run.steps is not None]
        cells = ["failed", "-", "-"]
        if seconds and steps:
            spread = f"{min(seconds):.1f} - {max(seconds):.1f}"
            cells = [f"{statistics.median(seconds):.1f}", spread, f"{statistics.median(steps):,.0f}"]
        print(f"| {name} | " + " | ".join(cells) + f" | {len(seconds)} of {len(mine)} |")
    for run in runs:
        if not run.solved:
            print(f"\n{run.contender}, seed {run.seed}, {run.seconds:.1f} s: {run.reason}")


def print_verdicts(rows: list[dict[str, Any]]) -> None:
    print("\nTargets: our share of the peer's time\n")
    print("| | peer | at most | reached | |\n|---|---|---|---|---|")
    for row in rows:
        reached = "-" if row["reached"] is None else f"{'< ' if row['at_most'] else ''}{row['reached']:.2f}"
        print(f"| {row['env']} | {row['peer']} | {row['target']:.2f} | {reached} | {row['verdict']} |")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-peers", default=sys.executable)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=100, help="seeds below it chose the presets")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds until a run counts as unsolved")
    parser.add_argument("--peer-threads", type=int, default=1, help="torch threads of the peers")
    parser.add_argument("--warm", action="store_true", help="keep caches between runs; empty before each run otherwise")
    parser.add_argument("--envs", nargs="+", choices=tuple(THRESHOLDS), default=list(THRESHOLDS))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--output", type=Path, default=HERE / "results" / "wallclock.json")
    return parser.parse_args()


def measure(env: str, options: argparse.Namespace) -> list[Run]:
    runs = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for contender in options.contenders:
            run = run_once(contender, env, seed, options)
            runs.append(run)
            word = f"solved after {run.steps:,} steps" if run.solved else run.reason
            print(f"  {env} seed {seed} {contender}: {run.seconds:.1f} s, {word}", file=sys.stderr)
    return runs


def main() -> int:
    options = parse_options()
    if warning := machine.busy_warning():
        print(f"warning: {warning}", file=sys.stderr)
    report: dict[str, Any] = {
        "measured": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine.describe(),
        "python": {"peers": machine.interpreter_version(options.python_peers)},
        "thresholds": THRESHOLDS,
        "cache": "kept" if options.warm else "empty",
        "runs": [],
        "targets": [],
    }
    for env in options.envs:
        runs = measure(env, options)
        print_table(env, runs)
        report["runs"] += [asdict(run) for run in runs]
        report["targets"] += judge(env, runs)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=2) + "\n")
    print_verdicts(report["targets"])
    print(f"\nwritten: {options.output}")
    unsolved = any(not run["solved"] for run in report["runs"] if run["contender"] == "batchwright")
    return 1 if unsolved or any(row["verdict"] == "FAIL" for row in report["targets"]) else 0


if __name__ == "__main__":
    sys.exit(main())
