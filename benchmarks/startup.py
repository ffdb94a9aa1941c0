"""How long `batchwright --help` and a plan without an environment take from the shell; target 0.4 s."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
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


def run_once(words: list[str]) -> tuple[float, float]:
    """(wall, processor) seconds of one run as a process of its own; the second does not depend on who else is busy."""
    script = Path(sys.executable).with_name("batchwright")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "batchwright.cli"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, *words], stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(runs: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds of every run; commands take turns, so that a busy moment hits them alike. The first turn is not kept."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for turn in range(runs + 1):
        for name, words in COMMANDS.items():
            seconds = run_once(words)
            if turn:
                taken[name].append(seconds)
    return taken


def summary(taken: dict[str, list[tuple[float, float]]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, seconds in taken.items():
        wall, processor = zip(*seconds, strict=True)
        rows.append(
            {
                "command": name,
                "runs": len(seconds),
                "median_seconds": round(statistics.median(wall), 3),
                "fastest_seconds": round(min(wall), 3),
                "slowest_seconds": round(max(wall), 3),
                "processor_seconds": round(statistics.median(processor), 3),
                "target_seconds": TARGET_SECONDS,
                "met": statistics.median(wall) < TARGET_SECONDS,
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15, help="runs of each command (at least 15 for a record)")
    parser.add_argument("--json", metavar="FILE", help="write the record there")
    stated = parser.parse_args()
    rows = summary(measure(max(1, stated.runs)))
    width = max(len(name) for name in COMMANDS)
    columns = ("median", "fastest", "slowest", "processor")
    print(f"{'command':<{width}}  {'  '.join(f'{which:>9}' for which in columns)}  target {TARGET_SECONDS} s")
    for row in rows:
        figures = "  ".join(f"{row[f'{which}_seconds']:>7.3f} s" for which in columns)
        print(f"{row['command']:<{width}}  {figures}  {'met' if row['met'] else 'missed'}")
    if stated.json:
        machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()}
        record = {"machine": machine | {"python": platform.python_version()}, "results": rows}
        Path(stated.json).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
