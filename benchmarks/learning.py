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

GREEDY_COLONY = -0.87
"""Mean return of `envs.tasks.colony_rules.greedy_rule` over 200 episodes, seed 1000."""

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
    "sac-pendulum": ("Pendulum-v1", -157.0, "RL Zoo, 20k steps"),
    "sac-lunarlandercontinuous": ("LunarLanderContinuous-v3", 260.0, "RL Zoo, 500k steps"),
    "dqn-cartpole": ("CartPole-v1", 500.0, "RL Zoo, 50k steps"),
    "ppo-moving": ("Moving-v0", 0.9, "success rate asked for"),
    "ppo-sliding": ("Sliding-v0", 0.9, "success rate asked for"),
    "ppo-platform": ("Platform-v0", 0.9, "asked for"),
    "ppo-pianoreach-g1": ("PianoReach-G1-v0", 0.9, "success rate asked for"),
    "ppo-colony": ("Colony-v0", GREEDY_COLONY, "greedy rule"),
}
JUDGED_BY_SUCCESS = ("ppo-moving", "ppo-sliding", "ppo-pianoreach-g1")
EPISODES = 50


def one(preset: str, seed: int, extra: list[str]) -> dict[str, Any]:
    """One training run and the evaluation of its last policy on seeds that training never used."""
    env = TASKS[preset][0]
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        words = ["train", env, "--preset", preset, "--seed", str(seed), "--run-dir", run, "--json", *extra]
        result = _call([*words, "--eval-every", "0"])
        found = _call(["eval", run, "--episodes", str(EPISODES), "--seed", "1000", "--json"])
    told = {"success_rate": found["success_rate"]} if "success_rate" in found else {}
    # Said at once: a judgement takes long, and one that is stopped should leave what it found.
    print(f"{preset}, seed {seed}: {found['mean']:.1f}", file=sys.stderr, flush=True)
    return {"seed": seed, "mean": found["mean"], **told, **{name: result[name] for name in ("env_steps", "seconds")}}


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
    successes = sorted(run["success_rate"] for run in runs if "success_rate" in run)
    judged = successes if preset in JUDGED_BY_SUCCESS else means
    told = {"success": statistics.median(successes), "success_low": successes[0]} if successes else {}
    return {
        "preset": preset,
        "env": env,
        "env_steps": runs[0]["env_steps"],
        "seeds": len(runs),
        "median": statistics.median(means),
        "low": means[0],
        "high": means[-1],
        **told,
        "aim": aim,
        "aim_from": who,
        "reached": statistics.median(judged) >= aim,
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
                f"{r['env']:<26} {r['preset']:<26} {r['env_steps']:>9,} steps  median {r['median']:>8.4g} "
                f"[{r['low']:.4g}, {r['high']:.4g}]  success {r.get('success', '-')}  "
                f"aim {r['aim']:g} ({r['aim_from']})  "
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
