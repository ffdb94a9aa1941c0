"""PPO with shared parameters on simple_spread (mpe2), beside Stable-Baselines3 at equal numbers and equal steps.

python benchmarks/agents.py [--python-peer .venv-peers/bin/python] [--seeds 3] [--json FILE] [--most-runs N]

One run at a time; what stands in the file is not run again. Each row is the mean return of an agent over 200 episodes
after training, exploration off, the same episodes for both (`agents_evaluation.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from mpe2 import simple_spread_v3

import batchwright
from agents_evaluation import evaluate
from batchwright.core.machine import probe_machine

RESULTS = Path(__file__).parent / "results" / "agents.json"
PEER = Path(__file__).parent / "peers" / "agents_sb3.py"
SETTINGS: dict[str, Any] = {"env": "mpe2:simple_spread_v3", "num_envs": 8, "rollout_steps": 128, "epochs": 10}
SETTINGS |= {"minibatch_transitions": 768, "total_steps": 100_000, "learning_rate": 7e-4, "gamma": 0.95}
SETTINGS |= {"gae_lambda": 0.95, "clip_range": 0.2, "entropy_start": 0.01, "value_weight": 0.5, "max_grad_norm": 0.5}
OURS: dict[str, Any] = {
    "preset": "none",
    "engine": "gymnasium-sync",
    "entropy_end": 0.01,
    "hidden": "64,64",
    "advantage_norm": "minibatch",
}
OURS |= {"advantage_norm": "minibatch", "eval_every": 0, "eval_episodes": 10, "doctor": "off"}
"""What SB3 has by other names or by default."""


def ours(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run = batchwright.train(run_dir=Path(folder) / "run", quiet=True, seed=seed, **SETTINGS, **OURS)
        seconds = time.perf_counter() - start
        line = json.loads((run.run_dir / "metrics.jsonl").read_text().splitlines()[-1])
        policy = batchwright.load(run.run_dir)
        mean = evaluate(simple_spread_v3.parallel_env(), policy)
    versions = {package: metadata.version(package) for package in ("jax", "mpe2")}
    return {"mean": mean, "agent_steps": line["transitions"], "seconds": round(seconds, 1), "versions": versions}


def peer(python: str, seed: int) -> dict[str, Any]:
    command = [python, str(PEER), json.dumps(SETTINGS | {"seed": seed})]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def random_return() -> float:
    """What agents that act at random return, as a point of reference."""
    env = simple_spread_v3.parallel_env()
    for number, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(number)
    return evaluate(env, lambda obs: {agent: env.action_space(agent).sample() for agent in obs})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python-peer", default=".venv-peers/bin/python")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--most-runs", type=int, default=10**6)
    stated = parser.parse_args()
    report: dict[str, Any] = json.loads(stated.json.read_text()) if stated.json.exists() else {"rows": []}
    done = {(row["trainer"], row["seed"]) for row in report["rows"]}
    units = [(name, seed) for seed in range(stated.seeds) for name in ("batchwright", "sb3")]
    for name, seed in [unit for unit in units if unit not in done][: stated.most_runs]:
        found = ours(seed) if name == "batchwright" else peer(stated.python_peer, seed)
        print(name, seed, found, flush=True)
        report["rows"].append({"trainer": name, "seed": seed, **found})
        report |= {"machine": probe_machine().describe(), "settings": SETTINGS, "ours": OURS}
        report.setdefault("random", random_return())
        stated.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
