"""Trains the tuned presets over several seeds and tabulates deterministic evaluations beside the peers' figures.

python benchmarks/learning.py [--only ppo-cartpole ...] [--seeds 5] [--first-seed 100] [--jobs 2]
    [--json benchmarks/results/learning.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# preset -> (environment, the peer's figure to reach, who)
TASKS = {
    "ppo-cartpole": ("CartPole-v1", 500.0, "RL Zoo, 100k steps"),
    "ppo-acrobot": ("Acrobot-v1", -73.5, "RL Zoo, 1M steps"),
    "ppo-pendulum": ("Pendulum-v1", -172.0, "RL Zoo, 100k steps"),
    "ppo-lunarlander": ("LunarLander-v3", 242.0, "RL Zoo, 1M steps"),
    "ppo-lunarlandercontinuous": ("LunarLanderContinuous-v3", 271.0, "RL Zoo, 1M steps"),
    "ppo-halfcheetah": ("HalfCheetah-v5", 1443.0, "CleanRL, 1M steps"),
    "ppo-hopper": ("Hopper-v5", 2383.0, "CleanRL, 1M steps"),
    "a2c-cartpole": ("CartPole-v1", 475.0, "solved"),
    "reinforce-cartpole": ("CartPole-v1", 475.0, "solved"),
}
EPISODES = 50


def one(preset: str, seed: int, extra: list[str]) -> dict[str, Any]:
    """One training run and the evaluation of its last policy on seeds that training never used."""
    env = TASKS[preset][0]
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        words = ["train", env, "--preset", preset, "--seed", str(seed), "--run-dir", run, "--json", *extra]
        result = _call([*words, "--eval-every", "0"])
        found = _call(["eval", run, "--episodes", str(EPISODES), "--seed", "1000", "--json"])
    return {"seed": seed, "mean": found["mean"], "env_steps": result["env_steps"], "seconds": result["seconds"]}


def _call(words: list[str]) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "batchwright.cli", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def summary(preset: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and spread over seeds, beside the figure to reach."""
    means = sorted(run["mean"] for run in runs)
    env, aim, who = TASKS[preset]
    return {
        "preset": preset,
        "env": env,
        "env_steps": runs[0]["env_steps"],
        "seeds": len(runs),
        "median": statistics.median(means),
        "low": means[0],
        "high": means[-1],
        "aim": aim,
        "aim_from": who,
        "reached": statistics.median(means) >= aim,
        "median_seconds": statistics.median(run["seconds"] for run in runs),
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=100, help="seeds below it chose the presets")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="further flags for every run")
    stated = parser.parse_args()
    rows = []
    with ThreadPoolExecutor(stated.jobs) as pool:
        for preset in stated.only:
            seeds = range(stated.first_seed, stated.first_seed + stated.seeds)
            runs = list(pool.map(lambda seed, name=preset: one(name, seed, stated.extra), seeds))
            rows.append(summary(preset, runs))
            r = rows[-1]
            print(
                f"{r['env']:<26} {r['preset']:<26} {r['env_steps']:>9,} steps  median {r['median']:>8.1f} "
                f"[{r['low']:.1f}, {r['high']:.1f}]  aim {r['aim']:g} ({r['aim_from']})  "
                f"{'reached' if r['reached'] else 'NOT reached'}  {r['median_seconds']:.0f} s",
                flush=True,
            )
    if stated.json:
        old = json.loads(stated.json.read_text()) if stated.json.exists() else []
        kept = [row for row in old if row["preset"] not in stated.only]
        stated.json.parent.mkdir(parents=True, exist_ok=True)
        stated.json.write_text(json.dumps(sorted(kept + rows, key=lambda row: row["preset"]), indent=1) + "\n")


if __name__ == "__main__":
    main()
