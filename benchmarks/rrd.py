"""SAC on delayed rewards with and without return decomposition, beside SAC on the dense reward.

python benchmarks/rrd.py [--envs InvertedPendulum-v5 ...] [--variants dense rrd ...] [--seeds 0 1 2]
python benchmarks/rrd.py --turn 32 [--steps 150000] ...      fewer steps and updates in turn than 100, longer runs
python benchmarks/rrd.py --numbers [--only "rrd updates 25" ...]     the effect of each of the four batch numbers
Every finished run is kept in the JSON file at once; runs that are there already are not made again, so that calls with
other seeds or environments may run side by side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "rrd.json"
DELAYED = ["--episodic-reward"]
VARIANTS = {
    "dense": [],
    "delayed": DELAYED,
    "rrd": [*DELAYED, "--redistribute", "rrd"],
    "rrd-unbiased": [*DELAYED, "--redistribute", "rrd-unbiased"],
    "ircr": [*DELAYED, "--redistribute", "ircr"],
    "full": [*DELAYED, "--redistribute", "full"],
}
FIVE = ("dense", "delayed", "rrd", "rrd-unbiased", "ircr")
RRD = VARIANTS["rrd"]
# One number moved at a time from 100 updates per 100 steps, 128 transitions, 256 timesteps in subsequences of 64.
NUMBERS = {
    "rrd": RRD,
    "rrd updates 25": [*RRD, "--updates-per-iteration", "25"],
    "rrd transitions 32": [*RRD, "--transitions-per-update", "32"],
    "rrd transitions 512": [*RRD, "--transitions-per-update", "512"],
    "rrd timesteps 64": [*RRD, "--rrd-timesteps-per-update", "64"],
    "rrd timesteps 1024": [*RRD, "--rrd-timesteps-per-update", "1024"],
    "rrd subsequence 8": [*RRD, "--subsequence-timesteps", "8"],
    "rrd subsequence 256": [*RRD, "--subsequence-timesteps", "256"],
}
NUMBERS_ENV, NUMBERS_STEPS = "HalfCheetah-v5", 40_000
# Steps of a run, and those of its random start.
STEPS = {"InvertedPendulum-v5": (15_000, 1000), "Hopper-v5": (80_000, 5000), "HalfCheetah-v5": (80_000, 5000)}
SETTINGS = "--algo sac --preset none --engine envpool --num-envs 1 --hidden 128,128 --transitions-per-update 128 "
SETTINGS += "--eval-every 0 --eval-episodes 20"
TURN = 100
CURVE_POINTS = 20


def one(env: str, words: list[str], seed: int, steps: int, turn: int) -> dict[str, Any]:
    """One run: its last evaluation, and the mean training return over each twentieth of it."""
    settings = [*SETTINGS.split(), "--rollout-steps", str(turn), "--warmup-steps", str(STEPS[env][1])]
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        line = ["train", env, *settings, *words, "--total-steps", str(steps), "--seed", str(seed), "--run-dir", run]
        done = subprocess.run(
            [sys.executable, "-m", "batchwright.cli", *line, "--json"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(line)}\n{done.stderr}")
        result = json.loads(done.stdout.strip().splitlines()[-1])
        records = [json.loads(text) for text in (Path(run) / "metrics.jsonl").read_text().splitlines()]
    return {
        "mean": result["evaluation"]["mean"],
        "seconds": round(result["seconds"], 1),
        "curve": curve(records, steps),
        "reward_model_loss": next(
            (r["reward_model_loss"] for r in reversed(records) if "reward_model_loss" in r), None
        ),
    }


def curve(records: list[dict[str, Any]], steps: int) -> list[float | None]:
    """Mean training return of the episodes that ended in each part of the run; None where none did."""
    parts: list[list[float]] = [[] for _ in range(CURVE_POINTS)]
    for record in records:
        if record.get("episode_return") is not None:
            at = min(CURVE_POINTS - 1, record["env_steps"] * CURVE_POINTS // (steps + 1))
            parts[at] += [record["episode_return"]] * record["episodes"]
    return [round(statistics.fmean(part), 2) if part else None for part in parts]


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", nargs="+", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--variants", nargs="+", default=list(FIVE), choices=list(VARIANTS))
    parser.add_argument("--numbers", action="store_true")
    parser.add_argument("--only", nargs="+", default=list(NUMBERS), choices=list(NUMBERS), help="with --numbers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--turn", type=int, default=TURN, help="steps and updates in turn")
    parser.add_argument("--steps", type=int, help="of a run, where not the usual ones")
    parser.add_argument("--json", type=Path, default=RESULTS)
    stated = parser.parse_args()
    chosen = {name: NUMBERS[name] for name in stated.only}
    if not stated.numbers:
        chosen = {name: VARIANTS[name] for name in stated.variants}
    for seed in stated.seeds:
        for env in [NUMBERS_ENV] if stated.numbers else stated.envs:
            steps = stated.steps or (NUMBERS_STEPS if stated.numbers else STEPS[env][0])
            for name, words in chosen.items():
                key = f"{env}|{steps}|{name}{'' if stated.turn == TURN else f', {stated.turn} in turn'}|{seed}"
                if key in read(stated.json):
                    continue
                found = one(env, words, seed, steps, stated.turn)
                keep(stated.json, key, found)
                print(
                    f"{env:<22} {name:<20} seed {seed}  return {found['mean']:>9.1f}  {found['seconds']:.0f} s",
                    flush=True,
                )


def keep(path: Path, key: str, found: dict[str, Any]) -> None:
    """Adds one run to the file, which is whole at every moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(dict(sorted((read(path) | {key: found}).items())), indent=1) + "\n")
    fresh.replace(path)


if __name__ == "__main__":
    main()
