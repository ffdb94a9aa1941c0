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
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import batchwright
from batchwright.doctor.batch_findings import (
    minibatch_too_small,
    rollout_too_large,
    rollout_too_small,
    too_few_minibatches,
    too_many_minibatches,
)
from batchwright.doctor.noise_scale import noise_scale
from batchwright.doctor.run_history import RunHistory, facts_of
from batchwright.planning.plan import plan_from_dict

RESULTS = Path(__file__).parent / "results" / "batch_sweep.json"
TASKS = {"CartPole-v1": 49_152, "Acrobot-v1": 98_304, "Pendulum-v1": 98_304}
"""Environment steps of each run."""
ROLLOUT, MINIBATCH = 2048, 64
SETTINGS = [(ROLLOUT, size) for size in (16, 64, 256, 1024)] + [(512, MINIBATCH), (8192, MINIBATCH)]
"""Transitions of a rollout, of a minibatch."""
NUM_ENVS = 8
LAST_SHARE = 0.2
"""The last part of a run, whose episodes are its result."""
RULES = (minibatch_too_small, too_few_minibatches, too_many_minibatches, rollout_too_small, rollout_too_large)
"""Of the doctor, about sizes."""


def one(env: str, rollout: int, minibatch: int, seed: int) -> dict[str, Any]:
    """One run: mean return of its last part and of all of it, its noise scales, findings about sizes."""
    sizes = {"num_envs": NUM_ENVS, "rollout_steps": rollout // NUM_ENVS, "minibatch_transitions": minibatch}
    with tempfile.TemporaryDirectory() as folder:
        run, settings = Path(folder) / "run", {"algo": "ppo", "preset": "none", "engine": "jax", "eval_every": 0}
        settings |= {**sizes, "total_steps": TASKS[env], "seed": seed, "eval_episodes": 1}
        began = time.perf_counter()
        batchwright.train(env, run_dir=run, quiet=True, **settings)
        seconds = time.perf_counter() - began
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        history = RunHistory(records, facts_of(plan_from_dict(json.loads((run / "plan.json").read_text()))))
    found = [finding for finding in (rule(history) for rule in RULES) if finding is not None]
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
        "findings": {finding.name: list(finding.flags) for finding in found},
    }


def mean_return(records: list[dict[str, Any]], begin: float) -> float:
    """Of the episodes that ended from this share of the environment steps on."""
    least = begin * records[-1]["env_steps"]
    ended = [r for r in records if r["env_steps"] > least and r.get("episodes")]
    return float(np.average([r["episode_return"] for r in ended], weights=[r["episodes"] for r in ended]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=TASKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", type=Path, default=RESULTS)
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
