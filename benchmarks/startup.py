"""How long `batchwright --help` and a plan without an environment take from the shell; target 0.4 s."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

TARGET_SECONDS = 0.4
COMMANDS = {
    "batchwright --help": ["--help"],
    "batchwright plan --num-envs 64 --rollout-steps 32": ["plan", "--num-envs", "64", "--rollout-steps", "32"],
}


def wait_seconds(words: list[str]) -> float:
    """Wall time of one run as a process of its own."""
    script = Path(sys.executable).with_name("batchwright")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "batchwright.cli"]
    start = time.perf_counter()
    subprocess.run([*command, *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def measure(runs: int) -> dict[str, list[float]]:
    """Seconds of every run; commands take turns, so that a busy moment hits them alike. The first turn is not kept."""
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(runs + 1):
        for name, words in COMMANDS.items():
            seconds = wait_seconds(words)
            if turn:
                taken[name].append(seconds)
    return taken


def summary(taken: dict[str, list[float]]) -> list[dict[str, object]]:
    return [
        {
            "command": name,
            "runs": len(seconds),
            "median_seconds": round(statistics.median(seconds), 4),
            "fastest_seconds": round(min(seconds), 4),
            "slowest_seconds": round(max(seconds), 4),
            "target_seconds": TARGET_SECONDS,
            "met": statistics.median(seconds) < TARGET_SECONDS,
        }
        for name, seconds in taken.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="runs of each command (at least 15 for a record)")
    parser.add_argument("--json", metavar="FILE", help="write the record there")
    stated = parser.parse_args()
    rows = summary(measure(max(1, stated.runs)))
    width = max(len(name) for name in COMMANDS)
    print(f"{'command':<{width}}  {'median':>8}  {'fastest':>8}  {'slowest':>8}  target {TARGET_SECONDS} s")
    for row in rows:
        figures = "  ".join(f"{row[f'{which}_seconds']:>6} s" for which in ("median", "fastest", "slowest"))
        print(f"{row['command']:<{width}}  {figures}  {'met' if row['met'] else 'missed'}")
    if stated.json:
        machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()}
        record = {"machine": machine | {"python": platform.python_version()}, "results": rows}
        Path(stated.json).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
