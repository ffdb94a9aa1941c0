"""How far forecasts of memory are from the peaks of real runs.

python benchmarks/forecasts.py [--only NAME] [--json FILE]

Each run is a process of its own with an empty cache of compiled programs. Its peak is the largest resident set that the
kernel counted (`ru_maxrss`); engines of one process only, as those of workers are not in that figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
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
    "ppo vectors, 8 envs": _ppo("CartPole-v1", "jax", 8, 128),
    "ppo vectors, 256 envs": _ppo("CartPole-v1", "envpool", 256, 128),
    "ppo vectors, 2048 envs": _ppo("CartPole-v1", "jax", 2048, 128),
    "ppo wide network, 256 envs": _ppo("CartPole-v1", "envpool", 256, 128, "--hidden", "256,256"),
    "ppo gymnasium, 8 envs": _ppo("CartPole-v1", "gymnasium-sync", 8, 128),
    "ppo images, 8 envs": _ppo("Pong-v5", "envpool", 8, 128),
    "ppo images, 256 envs": _ppo("Pong-v5", "envpool", 256, 8),
    "ppo images, 2048 envs": _ppo("Pong-v5", "envpool", 2048, 2, "--epochs", "1"),
    "sac": _replay("Pendulum-v1", "sac", "jax"),
    "dqn": _replay("CartPole-v1", "dqn", "jax"),
    "sac with return decomposition": _replay("Pendulum-v1", "sac", "jax", "--redistribute", "rrd"),
}


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
    parser.add_argument("--only", help="runs whose names contain this")
    parser.add_argument("--json", metavar="FILE", help="write the record there; runs it has and this call has not stay")
    stated = parser.parse_args()
    rows = []
    for name, words in MEMORY.items():
        if stated.only is None or stated.only in name:
            row = memory_row(name, words)
            rows.append(row)
            shown = {key: round(value / MIB) if key.endswith("_bytes") else value for key, value in row.items()}
            print("  ".join(f"{key} {value}" for key, value in shown.items() if key != "command"), flush=True)
    if stated.json:
        write(Path(stated.json), rows)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Merges these rows into the record."""
    record = json.loads(path.read_text()) if path.exists() else {}
    found = {row["run"]: row for row in [*record.get("memory", []), *rows]}
    record["machine"] = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    record["memory"] = [found[name] for name in MEMORY if name in found]
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
