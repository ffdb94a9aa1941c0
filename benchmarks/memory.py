"""Tasks that need a memory, with a GRU and without: does the one solve what the other cannot.

python benchmarks/memory.py [--only RecallCue-v0] [--seeds 5] [--json FILE]

What stands in the file is not run again. Each row is the mean return of 100 evaluated episodes after training,
exploration off.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import batchwright
from batchwright.core.machine import probe_machine

RESULTS = Path(__file__).parent / "results" / "memory.json"
COMMON: dict[str, Any] = {"engine": "jax", "preset": "none", "eval_every": 0, "eval_episodes": 100, "num_envs": 32} | {
    "normalize_rewards": False
}
TASKS: dict[str, dict[str, Any]] = {
    "RecallCue-v0": {"rollout_steps": 30, "total_steps": 60_000, "hidden": "32,32"}
    | {"learning_rate": 3e-3, "learning_rate_schedule": "linear"},
    "RecallImage-v0": {"rollout_steps": 30, "total_steps": 60_000}
    | {"learning_rate": 3e-3, "learning_rate_schedule": "linear"},
    "CartPolePositions-v0": {"num_envs": 16, "rollout_steps": 64, "total_steps": 150_000, "epochs": 5, "minibatches": 4}
    | {"learning_rate": 2e-3, "learning_rate_schedule": "linear", "gamma": 0.98, "gae_lambda": 0.9}
    | {"normalize_obs": True},
    "PendulumAngle-v0": {"num_envs": 16, "rollout_steps": 64, "total_steps": 200_000}
    | {"learning_rate": 1e-3, "learning_rate_schedule": "linear", "gamma": 0.95, "gae_lambda": 0.95}
    | {"normalize_obs": True, "normalize_rewards": True},
}
MEMORY: dict[str, dict[str, Any]] = {
    "RecallCue-v0": {"memory": "gru", "memory_size": 32, "seq_length": 10},
    "RecallImage-v0": {"memory": "gru", "memory_size": 32, "seq_length": 10},
    "CartPolePositions-v0": {"memory": "gru", "memory_size": 64, "seq_length": 16},
    "PendulumAngle-v0": {"memory": "gru", "memory_size": 64, "seq_length": 16},
}
"""By task; all other numbers are the same with memory and without."""


def measure(env: str, memory: bool, seeds: int) -> list[dict[str, Any]]:
    """One setting over seeds."""
    wishes = COMMON | TASKS[env] | (MEMORY[env] if memory else {})
    with tempfile.TemporaryDirectory() as folder:
        result = batchwright.train(env, seeds=seeds, run_dir=Path(folder) / "runs", quiet=True, **wishes)
    kind = wishes.get("memory", "none")
    return [{"env": env, "memory": kind, "seed": k, "mean": run["score"]} for k, run in enumerate(result.runs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=RESULTS)
    stated = parser.parse_args()
    report: dict[str, Any] = json.loads(stated.json.read_text()) if stated.json.exists() else {"rows": []}
    done = {(row["env"], row["memory"]) for row in report["rows"]}
    for env in stated.only:
        for memory in (True, False):
            if (env, MEMORY[env]["memory"] if memory else "none") in done:
                continue
            rows = measure(env, memory, stated.seeds)
            scores = ", ".join(f"{row['mean']:.2f}" for row in rows)
            print(f"{env:<22} memory {rows[0]['memory']:<5} mean returns {scores}", flush=True)
            report["rows"] += rows
            report |= {"machine": probe_machine().describe(), "common": COMMON, "tasks": TASKS, "with": MEMORY}
            stated.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
