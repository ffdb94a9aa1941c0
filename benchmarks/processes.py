"""Several processes beside one: learning curves, kills, and what the exchange of gradients costs.

python benchmarks/processes.py curves | kills | reduce [--json benchmarks/results/processes.json]
Each part writes its own entry of the file; `curves` goes on where it was stopped.
curves: CartPole at equal totals with 1, 2 and 4 processes, 6 seeds each.
kills: one run of 2 processes, either of which is killed with SIGKILL at 10 random moments; beside one without kills.
reduce: the time of one sum over processes, by size, and the share of the exchange in the iterations of two runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from batchwright.watch.metric_log import is_time_valued, read_metrics

RESULTS = Path(__file__).parent / "results" / "processes.json"
CURVES = "CartPole-v1 --engine jax --num-envs 8 --rollout-steps 64 --minibatches 4 --epochs 6 --total-steps 30720"
KILLED = "CartPole-v1 --engine jax --num-envs 4 --rollout-steps 16 --minibatches 2 --epochs 2 --hidden 8 "
KILLED += "--total-steps 12800 --checkpoint-every 10 --eval-every 0 --eval-episodes 2"
SHARES = {
    "small: 8 x 64 transitions, 64-64, 24 updates": CURVES.replace("30720", "10240"),
    "large: 64 x 128 transitions, 256-256, 16 updates": "CartPole-v1 --engine jax --num-envs 64 --rollout-steps 128 "
    "--minibatches 4 --epochs 4 --hidden 256,256 --total-steps 163840",
}
SIZES = (1, 1_000, 10_000, 100_000, 1_000_000)
ROUNDS = 100
COUNTS, SEEDS, KILLS = (1, 2, 4), (0, 1, 2, 3, 4, 5), 10
SUM = """
import sys, time
import numpy as np
from batchwright.process_worker import join
number, port = int(sys.argv[1]), sys.argv[2]
join(f"127.0.0.1:{port}", 2, number, "", "127.0.0.1")
from batchwright.on_policy.sharded_programs import TimedReduce
from batchwright.runs.process_group import current_group
for size in map(int, sys.argv[4].split(",")):
    timed = TimedReduce(current_group(), size)
    seconds = [timed.seconds() for _ in range(int(sys.argv[3]))]
    if number == 0:
        print(size, *np.quantile(seconds, [0.5, 0.25, 0.75]), flush=True)
"""


def train(flags: str, folder: Path, *more: str) -> list[str]:
    words = [sys.executable, "-m", "batchwright.cli", "train", *shlex.split(flags), "--run-dir", str(folder)]
    return [*words, "--preset", "none", "--quiet", "--doctor", "off", *more]


def done(words: list[str]) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def curves(report: dict[str, Any], save: Any) -> None:
    """The mean return of training episodes over the run, and the last evaluation, by number of processes and seed."""
    rows = report.setdefault("curves", {"command": f"batchwright train {CURVES}", "runs": []})["runs"]
    have = {(row["processes"], row["seed"]) for row in rows}
    for count in COUNTS:
        for seed in SEEDS:
            if (count, seed) in have:
                continue
            with tempfile.TemporaryDirectory() as work:
                run = Path(work) / "run"
                done(train(CURVES, run, "--seed", str(seed), "--processes", str(count), "--eval-episodes", "20"))
                records = read_metrics(run / "metrics.jsonl")
            returns = [record["episode_return"] for record in records if record.get("episodes")]
            rows.append(
                {
                    "processes": count,
                    "seed": seed,
                    "mean_training_return": statistics.fmean(returns),
                    "last_evaluation": records[-1]["eval_mean"],
                    "first_transitions": records[0]["transitions"],
                    "first_return": records[0].get("episode_return"),
                }
            )
            print(rows[-1], flush=True)
            save()


def logged(run: Path) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in record.items() if not is_time_valued(name)}
        for record in read_metrics(run / "metrics.jsonl")
    ]


def lines(run: Path) -> int:
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def worker_of(parent: int, number: int) -> int | None:
    """The id of process `number` that `parent` has started."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                above = int(re.findall(rb"PPid:\s*(\d+)", (entry / "status").read_bytes())[0])
            except (OSError, IndexError):
                continue
            if above == parent and b"batchwright.process_worker" in words and words[5] == str(number).encode():
                return int(entry.name)
    return None


def kills(report: dict[str, Any], save: Any) -> None:
    """One run through all kills to its end; each kill comes at a random record of what is left, and a moment later."""
    draw, found = random.Random(0), []
    with tempfile.TemporaryDirectory() as work:
        whole, run = Path(work) / "whole", Path(work) / "run"
        done(train(KILLED, whole, "--processes", "2"))
        total = len(logged(whole))
        moments = sorted(draw.sample(range(1, total), KILLS))
        words = train(KILLED, run, "--processes", "2")
        for target in moments:
            parent = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            victim, wait = draw.choice((0, 1)), draw.uniform(0.0, 0.05)
            while parent.poll() is None and (lines(run) < target or worker_of(parent.pid, victim) is None):
                time.sleep(0.002)
            time.sleep(wait)
            killed = worker_of(parent.pid, victim)
            assert killed is not None, "the run came to its end before it was killed"
            os.kill(killed, signal.SIGKILL)
            start = time.perf_counter()
            message = parent.communicate()[1].strip().splitlines()
            seconds = round(time.perf_counter() - start, 2)
            found.append(
                {"process": victim, "after_records": lines(run), "seconds_to_end": seconds, "said": message[0]}
            )
            print(found[-1], flush=True)
            words = [sys.executable, "-m", "batchwright.cli", "resume", str(run), "--quiet"]
        done(words)
        equal = logged(run) == logged(whole)
        episodes = (run / "episodes.jsonl").read_bytes() == (whole / "episodes.jsonl").read_bytes()
    report["kills"] = {"kills": found, "iterations": total, "equal": equal, "equal_episodes": episodes}
    save()


def reduce(report: dict[str, Any], save: Any) -> None:
    """Times of one sum, and its share of the iterations of runs."""
    port = str(random.Random().randrange(20_000, 30_000))
    sizes = ",".join(map(str, SIZES))
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", SUM, str(n), port, str(ROUNDS), sizes], stdout=subprocess.PIPE, text=True
        )
        for n in (0, 1)
    ]
    text = workers[0].communicate()[0]
    workers[1].communicate()
    rows = [line.split() for line in text.splitlines() if line[:1].isdigit()]
    entry: dict[str, Any] = {"rounds": ROUNDS, "processes": 2, "cores": len(os.sched_getaffinity(0))}
    entry["sums"] = [
        {"numbers": int(size), "median_ms": 1e3 * float(m), "quartiles_ms": [1e3 * float(low), 1e3 * float(high)]}
        for size, m, low, high in rows
    ]
    entry["shares"] = []
    for name, flags in SHARES.items():
        with tempfile.TemporaryDirectory() as work:
            run = Path(work) / "run"
            done(train(flags, run, "--processes", "2", "--eval-every", "0", "--eval-episodes", "2"))
            records = read_metrics(run / "metrics.jsonl")[2:]  # the first ones compile
        spent = [record["collect_seconds"] + record["update_seconds"] + record["wait_seconds"] for record in records]
        waited = [record["reduce_seconds"] for record in records]
        row = {"run": name, "iteration_ms": 1e3 * statistics.median(spent), "updates": records[-1]["updates"]}
        row |= {"reduce_ms": 1e3 * statistics.median(waited), "iterations": len(records)}
        entry["shares"].append(row)
        print(row, flush=True)
    report["reduce"] = entry
    save()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("curves", "kills", "reduce"))
    parser.add_argument("--json", type=Path, default=RESULTS)
    given = parser.parse_args()
    report: dict[str, Any] = json.loads(given.json.read_text()) if given.json.exists() else {}
    report["measured"] = datetime.now(UTC).isoformat(timespec="seconds")
    report["machine"] = {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine()}

    def save() -> None:
        given.json.write_text(json.dumps(report, indent=1) + "\n")

    {"curves": curves, "kills": kills, "reduce": reduce}[given.part](report, save)


if __name__ == "__main__":
    main()
