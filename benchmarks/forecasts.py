"""How far forecasts of memory and time are from what real runs take.

python benchmarks/forecasts.py [memory|time] [--only NAME] [--json benchmarks/results/forecasts.json]

Each run is a process of its own with an empty cache of compiled programs. Its peak is the largest resident set that the
kernel counted (`ru_maxrss`); engines of one process only, as those of workers are not in that figure.

Time: `plan ENV --forecast` in one process, then `train` with the same flags in another. Compared are the seconds from
the start of training, without that of Python, and the ETA of the first line from 10% on with what was left. All clocks
of both processes count CPU time (`QUIET_CORE`), which is what a core that does nothing else would take: other programs
change it little. Pin the whole to one core (`taskset -c 0 ...`). The load of the machine is recorded.
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
from pathlib import Path
from typing import Any

MIB = 1024**2
PPO, SHORT = ["--algo", "ppo"], ["--eval-every", "0", "--eval-episodes", "1", "--preset", "none"]


def _ppo(env: str, engine: str, envs: int, steps: int, *more: str) -> list[str]:
    total = 3 * envs * steps
    sizes = ["--engine", engine, "--num-envs", envs, "--rollout-steps", steps, "--total-steps", total]
    return [env, *PPO, *map(str, sizes), *more, *SHORT]


def _replay(env: str, algo: str, engine: str, *more: str) -> list[str]:
    return [env, "--algo", algo, "--engine", engine, "--total-steps", "3000", "--warmup-steps", "1000", *more, *SHORT]


MEMORY: dict[str, list[str]] = {
    "ppo Acrobot, 16 envs": _ppo("Acrobot-v1", "jax", 16, 128),
    "ppo Pendulum, 512 envs": _ppo("Pendulum-v1", "jax", 512, 64),
    "ppo CartPole, 1024 envs": _ppo("CartPole-v1", "jax", 1024, 256),
    "ppo CartPole, 4096 envs": _ppo("CartPole-v1", "jax", 4096, 128),
    "ppo LunarLander, 8 envs": _ppo("LunarLander-v3", "envpool", 8, 256),
    "ppo LunarLander, 1024 envs": _ppo("LunarLander-v3", "envpool", 1024, 64),
    "ppo Hopper, 32 envs": _ppo("Hopper-v5", "envpool", 32, 128),
    "ppo Walker2d, 512 envs": _ppo("Walker2d-v5", "envpool", 512, 32),
    "ppo Acrobot, gymnasium, 4 envs": _ppo("Acrobot-v1", "gymnasium-sync", 4, 256),
    "ppo wide network, 128 envs": _ppo("Acrobot-v1", "jax", 128, 128, "--hidden", "512,512"),
    "ppo images, 16 envs": _ppo("Breakout-v5", "envpool", 16, 64),
    "ppo images, 128 envs": _ppo("Breakout-v5", "envpool", 128, 16, "--epochs", "2"),
    "a2c Acrobot": ["Acrobot-v1", "--algo", "a2c", "--engine", "jax", "--total-steps", "10000", *SHORT],
    "reinforce CartPole": ["CartPole-v1", "--algo", "reinforce", "--engine", "jax", "--total-steps", "10000", *SHORT],
    "sac Hopper": _replay("Hopper-v5", "sac", "envpool"),
    "sac MountainCarContinuous": _replay("MountainCarContinuous-v0", "sac", "jax"),
    "td3 Pendulum": _replay("Pendulum-v1", "td3", "jax"),
    "dqn Acrobot": _replay("Acrobot-v1", "dqn", "jax"),
    "dqn LunarLander": _replay("LunarLander-v3", "dqn", "envpool"),
    "sac with return decomposition": _replay("MountainCarContinuous-v0", "sac", "jax", "--redistribute", "rrd"),
}
"""Runs that no number of `process_memory.py` was set by."""

NO_PRESET = ["--preset", "none"]
TIME: dict[str, list[str]] = {
    "ppo CartPole, jax": ["CartPole-v1", *PPO, "--engine", "jax", "--total-steps", "3000000"],
    "ppo LunarLander, envpool": ["LunarLander-v3", *PPO, "--engine", "envpool", "--total-steps", "800000"],
    "ppo Acrobot, jax": ["Acrobot-v1", *PPO, "--engine", "jax", "--total-steps", "3000000"],
    "ppo HalfCheetah, envpool": ["HalfCheetah-v5", *PPO, "--engine", "envpool", "--total-steps", "600000"],
    "ppo CartPole, gymnasium": ["CartPole-v1", *PPO, "--engine", "gymnasium-sync", "--total-steps", "300000"],
    "a2c CartPole, jax": ["CartPole-v1", "--algo", "a2c", "--engine", "jax", "--total-steps", "3000000"],
    "sac Pendulum, jax": ["Pendulum-v1", "--algo", "sac", "--engine", "jax", "--total-steps", "8000"],
    "dqn CartPole, jax": ["CartPole-v1", "--algo", "dqn", "--engine", "jax", "--total-steps", "60000"],
}
ETA_LINE = re.compile(r"^iteration +(\d+)/(\d+) .* ETA ([\d:]+)$")
ETA_FROM = 0.1
QUIET_CORE = """import sys, time
time.perf_counter = time.monotonic = time.process_time
from batchwright.cli import main
sys.exit(main(sys.argv[1:]))"""


def call(words: list[str], cache: str) -> str:
    """Standard output of one call of the command."""
    command = [sys.executable, "-c", QUIET_CORE, *words]
    environ = os.environ | {"XDG_CACHE_HOME": cache}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    return done.stdout


def time_row(name: str, words: list[str]) -> dict[str, Any]:
    """Forecast before a run and remembered after it, and its ETA, beside what it took."""
    words, load = [*words, *NO_PRESET], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        before = json.loads(call(["plan", *words, "--forecast", "--json"], folder))["forecast"]
        shown = call(["train", *words, "--run-dir", str(run_dir)], folder)
        records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        after = json.loads(call(["plan", *words, "--forecast", "--json"], folder))["forecast"]
    assert before["source"].startswith("measured") and after["source"].startswith("remembered")
    actual = records[-1]["elapsed_seconds"] + records[-1]["evaluation_seconds"]
    row = {"run": name, "command": " ".join(words), "load": round(load, 1), "forecast": before["seconds"]}
    row |= {
        "remembered": after["seconds"],
        "actual": round(actual, 1),
        "error": round(before["seconds"] / actual - 1, 3),
    }
    parts = ("step_seconds", "start_seconds", "evaluation_seconds")
    return (
        row | _eta(shown, records, actual) | {"before": [before[p] for p in parts], "after": [after[p] for p in parts]}
    )


def _eta(shown: str, records: list[dict[str, Any]], actual: float) -> dict[str, Any]:
    """The first ETA from 10% on, beside what was left then."""
    for line in shown.splitlines():
        found = ETA_LINE.match(line)
        if found is None or int(found[1]) < ETA_FROM * int(found[2]):
            continue
        eta = 0
        for part in found[3].split(":"):
            eta = 60 * eta + int(part)
        left = actual - records[int(found[1]) - 1]["elapsed_seconds"]
        at = round(int(found[1]) / int(found[2]), 2)
        return {"eta_at": at, "eta": eta, "left": round(left, 1), "eta_error": round(eta / left - 1, 3)}
    return {}


def peak_of(words: list[str], cache: str) -> int:
    """The peak of the resident set of one call of the command, in bytes."""
    command = [sys.executable, "-m", "batchwright.cli", *words]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, env=os.environ | {"XDG_CACHE_HOME": cache}
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(words)}\n{errors.read()}")
    return usage.ru_maxrss * 1024


def memory_row(name: str, words: list[str]) -> dict[str, Any]:
    """Forecast and peak of one run."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        peak = peak_of(["train", *words, "--run-dir", str(run_dir), "--quiet"], folder)
        planned = json.loads((run_dir / "plan.json").read_text())["quantities"]
    parts = ("process_bytes", "env_bytes", "rollout_bytes", "update_bytes", "buffer_bytes", "memory_bytes")
    forecast = {part: planned[part]["value"] for part in parts if part in planned}
    error = forecast["memory_bytes"] / peak - 1
    return {"run": name, "command": " ".join(words), **forecast, "peak_bytes": peak, "error": round(error, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", nargs="?", choices=("memory", "time"), help="both where neither is stated")
    parser.add_argument("--only", help="runs whose names contain this")
    parser.add_argument("--json", metavar="FILE", help="write the record there; runs it has and this call has not stay")
    stated = parser.parse_args()
    for part, runs, measure in (("memory", MEMORY, memory_row), ("time", TIME, time_row)):
        for name, words in runs.items():
            if stated.part in (None, part) and (stated.only is None or stated.only in name):
                row = measure(name, words)
                shown = {key: round(value / MIB) if key.endswith("_bytes") else value for key, value in row.items()}
                print("  ".join(f"{key} {value}" for key, value in shown.items() if key != "command"), flush=True)
                if stated.json:
                    write(Path(stated.json), part, list(runs), row)


def write(path: Path, part: str, names: list[str], row: dict[str, Any]) -> None:
    """Puts a row into the record."""
    record = json.loads(path.read_text()) if path.exists() else {}
    found = {old["run"]: old for old in [*record.get(part, []), row]}
    record["machine"] = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    record[part] = [found[name] for name in names if name in found]
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
