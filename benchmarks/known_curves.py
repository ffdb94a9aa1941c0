"""Training returns of tuned presets and of defaults on environments that many know: what the doctor compares runs with.

python benchmarks/known_curves.py [--runs runs/known] [--only CartPole ...] [--minutes 20]
    [--json src/batchwright/doctor/known_curves.json]

Each run is trained with three seeds that no other benchmark uses. Kept are, at a few shares of the steps, the lowest
and the median of the seeds' mean return over the last fifth of the steps so far. Runs that are there stay as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

from doctor import Trainer, folder_of
from doctor_faults import Base

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "src" / "batchwright" / "doctor" / "known_curves.json"
SEEDS = (700, 701, 702)
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
WINDOW = 0.2
"""Of the steps so far, the last part over which returns are averaged."""
ENVPOOL = {"engine": "envpool"}


def tuned(env: str, preset: str, steps: int, **more: Any) -> tuple[str, Base]:
    algo = preset.split("-", maxsplit=1)[0]
    return f"{env} {algo} {preset}", Base(env, {"preset": preset, "total_steps": steps, **more})


def default(env: str, algo: str, steps: int, **more: Any) -> tuple[str, Base]:
    settings = {"preset": "none", "algo": algo, "total_steps": steps, **more}
    return f"{env} {algo} none", Base(env, settings)


RUNS = dict(
    [
        tuned("CartPole-v1", "ppo-cartpole", 100_000),
        tuned("CartPole-v1", "a2c-cartpole", 500_000),
        tuned("CartPole-v1", "reinforce-cartpole", 500_000),
        tuned("CartPole-v1", "dqn-cartpole", 50_000),
        tuned("Pendulum-v1", "ppo-pendulum", 100_000),
        tuned("Pendulum-v1", "sac-pendulum", 20_000),
        tuned("Acrobot-v1", "ppo-acrobot", 300_000),
        tuned("LunarLander-v3", "ppo-lunarlander", 300_000, **ENVPOOL),
        tuned("LunarLanderContinuous-v3", "ppo-lunarlandercontinuous", 300_000, **ENVPOOL),
        tuned("HalfCheetah-v5", "ppo-halfcheetah", 300_000, **ENVPOOL),
        tuned("Hopper-v5", "ppo-hopper", 300_000, **ENVPOOL),
        default("CartPole-v1", "ppo", 100_000),
        default("CartPole-v1", "a2c", 200_000),
        default("CartPole-v1", "reinforce", 200_000),
        default("CartPole-v1", "dqn", 50_000),
        default("Acrobot-v1", "ppo", 200_000),
        default("Acrobot-v1", "a2c", 300_000),
        default("Acrobot-v1", "reinforce", 300_000),
        default("Pendulum-v1", "ppo", 200_000),
        default("Pendulum-v1", "a2c", 300_000),
        default("Pendulum-v1", "sac", 10_000),
        default("MountainCarContinuous-v0", "ppo", 100_000),
        default("MountainCar-v0", "ppo", 200_000, **ENVPOOL),
        default("LunarLander-v3", "ppo", 300_000, **ENVPOOL),
        default("LunarLander-v3", "a2c", 300_000, **ENVPOOL),
        default("LunarLanderContinuous-v3", "ppo", 300_000, **ENVPOOL),
        default("FrozenLake-v1", "ppo", 100_000, engine="gymnasium-sync"),
        default("Taxi-v4", "ppo", 100_000, engine="gymnasium-sync"),
        default("InvertedPendulum-v5", "ppo", 60_000, **ENVPOOL),
        default("InvertedDoublePendulum-v5", "ppo", 100_000, **ENVPOOL),
        default("Reacher-v5", "ppo", 100_000, **ENVPOOL),
        default("Pusher-v5", "ppo", 60_000, **ENVPOOL),
        default("Swimmer-v5", "ppo", 100_000, **ENVPOOL),
        default("HalfCheetah-v5", "ppo", 200_000, **ENVPOOL),
        default("Hopper-v5", "ppo", 200_000, **ENVPOOL),
        default("Walker2d-v5", "ppo", 200_000, **ENVPOOL),
        default("Ant-v5", "ppo", 60_000, **ENVPOOL),
        default("BipedalWalker-v3", "ppo", 200_000, **ENVPOOL),
    ]
)


def curve(run: Path, steps: int) -> list[float | None]:
    """The mean return over the last fifth of the steps up to each share; None where no episode ended in it."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    ended = [(one["env_steps"], one["episode_return"]) for one in records if one.get("episode_return") is not None]
    found: list[float | None] = []
    for share in SHARES:
        upto = share * steps
        window = [value for at, value in ended if (1 - WINDOW) * upto < at <= upto * 1.01]
        found.append(statistics.fmean(window) if window else None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/known"))
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run after so many")
    parser.add_argument("--json", type=Path, default=OUTPUT)
    stated = parser.parse_args()
    trainer = Trainer(stated.runs, stated.minutes)
    report = json.loads(stated.json.read_text()) if stated.json.exists() else {}
    for key, base in RUNS.items():
        if not any(word in key for word in stated.only):
            continue
        for seed in SEEDS:
            trainer.run(key, base, seed)
        steps = base.settings["total_steps"]
        runs = [folder_of(stated.runs, key, seed) for seed in SEEDS]
        done = [curve(run / "run", steps) for run in runs if (run / "outcome.json").exists()]
        if len(done) < len(SEEDS):
            continue
        columns = list(zip(*done, strict=True))
        kept = [at for at, column in enumerate(columns) if None not in column]
        report[key] = {
            "steps": [round(SHARES[at] * steps) for at in kept],
            "lowest": [float(f"{min(columns[at]):.4g}") for at in kept],
            "median": [float(f"{statistics.median(columns[at]):.4g}") for at in kept],
        }
        stated.json.write_text(
            "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in report.items()) + "\n}\n"
        )
        print(key, report[key], flush=True)


if __name__ == "__main__":
    main()
