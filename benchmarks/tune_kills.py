"""Kills tunings with SIGKILL at random moments, resumes each, and compares with one that was never killed.

python benchmarks/tune_kills.py [--kills 20] [--each 5] [--workers 2] [--seed 0]
Each tuning is killed several times and resumed to its end. Moments are spread over the whole of it: a number of
finished units is drawn from all of them, and a part of a unit's time after that. Its ledger without times, its preset
and its decisions must be those of the tuning that was not killed, no unit may be in a ledger twice, and a unit that was
finished may not be trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "tune_kills.json"
FLAGS = shlex.split(
    "tune IdentityDiscrete-v0 --engine jax --num-envs 4 --rollout-steps 16 --minibatches 2 --epochs 2 --hidden 8 "
    "--phases B --search none --budget-steps 30k"
)
SLOW = "learning_rate: 3.0e-5\n"
"""The default that is tuned: a learning rate that is far too small, so that there is a winner and a preset."""


def command(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "batchwright.cli", *words, "--quiet"]


def ledger(folder: Path) -> list[dict[str, Any]]:
    """The ledger in unit order without times; a half-written last line is left out."""
    lines = []
    for text in (folder / "ledger.jsonl").read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    kept = [line for line in lines if line["kind"] != "forecast"]
    kept.sort(key=lambda line: (line["kind"] != "header", line["kind"] != "unit", line.get("unit", 0)))
    return [{name: value for name, value in line.items() if name != "seconds"} for line in kept]


def units(folder: Path) -> list[str]:
    return (
        [line["key"] for line in ledger(folder) if line["kind"] == "unit"] if (folder / "ledger.jsonl").exists() else []
    )


def logged(folder: Path) -> dict[str, int]:
    """When each unit, finished or not, logged last."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (folder / "units").glob("*/metrics.jsonl")}


def written(folder: Path) -> dict[str, int]:
    """The same of units that are in the ledger."""
    times = logged(folder)
    return {key: times[key] for key in units(folder) if key in times}


def one(words: list[str], folder: Path, at_units: int | None, wait_seconds: float = 0.0) -> tuple[int, int]:
    """Runs the command, killed a while after so many units; its exit code, and finished units trained again."""
    before, start = written(folder), logged(folder)
    process = subprocess.Popen(command(words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (logged(folder) == start or (at_units or 0) > len(units(folder))):
        time.sleep(0.01)
    try:
        process.wait(timeout=None if at_units is None else wait_seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    after = written(folder)
    return process.returncode, sum(after[key] != before[key] for key in before)


def killed_tuning(
    folder: Path, flags: list[str], workers: list[str], moments: list[int], draw: random.Random, unit_seconds: float
) -> dict[str, Any]:
    """One tuning through a kill after each of these numbers of units to its end."""
    begin, kills, again = [*flags, "--run-dir", str(folder), *workers], list[dict[str, Any]](), 0
    words = begin
    for target in [*moments, None]:
        wait = draw.uniform(0.0, unit_seconds)
        code, repeated = one(words, folder, target, wait)
        again += repeated
        if code == 0:
            break
        if target is None:
            raise SystemExit(f"a tuning ended with exit code {code}")
        kills.append({"after_seconds": round(wait, 2), "units": len(units(folder))})
        started = (folder / "ledger.jsonl").exists()
        words = ["tune", "--resume", str(folder), *workers] if started else begin
    return {"kills": kills, "trained_again": again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--each", type=int, default=5, help="kills of one tuning")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    draw, workers, tunings = random.Random(given.seed), ["--workers", str(given.workers)], []
    with tempfile.TemporaryDirectory() as work:
        whole, slow = Path(work) / "whole", Path(work) / "slow.yaml"
        slow.write_text(SLOW)
        flags = [*FLAGS, "--config", str(slow)]
        assert one([*flags, "--run-dir", str(whole), *workers], whole, None)[0] == 0
        times = [path.stat().st_mtime for path in (whole / "units").glob("*/metrics.jsonl")]
        total = len(units(whole))
        unit_seconds = (max(times) - min(times)) / total
        left = given.kills
        while left > 0:
            folder = Path(work) / f"tuning-{len(tunings)}"
            moments = sorted(draw.sample(range(total), min(left, given.each)))
            found = killed_tuning(folder, flags, workers, moments, draw, unit_seconds)
            keys = units(folder)
            found["equal"] = ledger(folder) == ledger(whole)
            found["same_preset"] = preset(folder) == preset(whole) != b""
            found["units_twice"] = len(keys) - len(set(keys))
            left -= len(found["kills"])
            tunings.append(found)
            print(json.dumps(found), flush=True)
    bad = [t for t in tunings if not t["equal"] or not t["same_preset"] or t["units_twice"] or t["trained_again"]]
    report = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine()},
        "command": " ".join(["batchwright", *FLAGS, *workers]),
        "kills": sum(len(t["kills"]) for t in tunings),
        "units_of_a_tuning": total,
        "tunings": tunings,
        "unequal": len(bad),
    }
    given.output.parent.mkdir(exist_ok=True)
    given.output.write_text(json.dumps(report, indent=1) + "\n")
    raise SystemExit(1 if bad else 0)


def preset(folder: Path) -> bytes:
    path = folder / "tuned.yaml"
    return path.read_bytes() if path.exists() else b""


if __name__ == "__main__":
    main()
