"""Minibatch and rollout sizes at equal data, beside what the gradient noise scale and the doctor say of each run.

python benchmarks/batch_sweep.py [--only CartPole-v1] [--seeds 3] [--json benchmarks/results/batch_sweep.json]

Every run of a task has the same environment steps, epochs and learning rate; `--preset none`. Runs that the record has
are not made again, so that a sweep may be continued.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.doctor.noise_scale import noise_scale
from batchwright.doctor.run_history import RunHistory, facts_of
from batchwright.planning.plan import plan_from_dict

TASKS = {"CartPole-v1": 65_536, "Acrobot-v1": 131_072, "Pendulum-v1": 196_608}
"""Environment steps of each run."""
ROLLOUT, MINIBATCH = 2048, 64
SETTINGS = [(ROLLOUT, size) for size in (16, 64, 256, 512, 1024)] + [(512, MINIBATCH), (8192, MINIBATCH)]
"""Transitions of a rollout, of a minibatch."""
NUM_ENVS = 8
LAST_SHARE = 0.2
"""The last part of a run, whose episodes are its result."""
SIZE_FINDINGS = frozenset(
    {"minibatch-too-small", "too-few-minibatches", "too-many-minibatches", "rollout-too-small", "rollout-too-large"}
)


def one(env: str, rollout: int, minibatch: int, seed: int) -> dict[str, Any]:
    """One run: mean return of its last part and of all of it, its noise scales, findings about sizes."""
    sizes = ["--num-envs", NUM_ENVS, "--rollout-steps", rollout // NUM_ENVS, "--minibatch-transitions", minibatch]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["train", env, "--algo", "ppo", "--preset", "none", "--engine", "jax", "--eval-every", "0"]
        words += [*map(str, sizes), "--total-steps", str(TASKS[env]), "--seed", str(seed), "--quiet"]
        began = time.perf_counter()
        call([*words, "--run-dir", str(run)])
        seconds = time.perf_counter() - began
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        history = RunHistory(facts_of(plan_from_dict(json.loads((run / "plan.json").read_text()))), records)
        found = json.loads(call(["doctor", str(run), "--json"]))["findings"]
    scales = {role: noise_scale(history, role) for role in ("policy", "value")}
    return {
        "seed": seed,
        "last": round(mean_return(records, 1 - LAST_SHARE), 2),
        "whole": round(mean_return(records, 0.0), 2),
        "updates": sum(record["updates"] for record in records),
        "seconds": round(seconds, 1),
        "noise": {
            role: None if s is None else [round(x) for x in (s.transitions, s.low, s.high)]
            for role, s in scales.items()
        },
        "findings": {f["finding"]: f["flags"] for f in found if f["finding"] in SIZE_FINDINGS},
    }


def mean_return(records: list[dict[str, Any]], begin: float) -> float:
    """Of the episodes that ended from this share of the environment steps on."""
    least = begin * records[-1]["env_steps"]
    ended = [r for r in records if r["env_steps"] > least and r.get("episodes")]
    return float(np.average([r["episode_return"] for r in ended], weights=[r["episodes"] for r in ended]))


def call(words: list[str]) -> str:
    """Standard output of one call of the command."""
    done = subprocess.run(
        [sys.executable, "-m", "batchwright.cli", *words], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=TASKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", type=Path, default=Path("batch_sweep.json"))
    stated = parser.parse_args()
    record = json.loads(stated.json.read_text()) if stated.json.exists() else {"runs": {}}
    record["machine"] = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    for seed in range(stated.seeds):
        for env in TASKS if stated.only is None else [stated.only]:
            for rollout, minibatch in SETTINGS:
                runs = record["runs"].setdefault(f"{env} {rollout} {minibatch}", [])
                if any(run["seed"] == seed for run in runs):
                    continue
                runs.append(one(env, rollout, minibatch, seed))
                print(env, rollout, minibatch, json.dumps(runs[-1]), flush=True)
                stated.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
