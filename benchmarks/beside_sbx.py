"""SAC or TD3 on HalfCheetah-v5 beside SBX at equal settings: the return after the same steps, seed by seed.

python benchmarks/beside_sbx.py --peers-python PATH [--algo sac] [--steps 200000] [--seeds 0 1 2] [--turn 32]
Two layers of 128 units and 128 transitions per update (--units, --rows), learning rate 3e-4, one update per step, 5000
random steps first, gamma 0.99, polyak 0.005; SAC: target entropy -6; TD3: exploration noise 0.1, target noise 0.2
clipped at 0.5, one update of the actor for two of the critics; SBX's own defaults otherwise. Ours makes `--turn` steps
and then as many updates, SBX one and one. Evaluated over 10 episodes, exploration off. Every finished run is kept in
the JSON file at once; runs that are there already are not made again, so that calls with other seeds may run side by
side.
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

from rrd import keep, read

ENV, WARMUP_STEPS, EPISODES = "HalfCheetah-v5", 5000, 10
SIDES = ("batchwright", "sbx")
RESULTS = Path(__file__).parent / "results"


def ours(algo: str, seed: int, steps: int, units: int, rows: int, turn: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        line = (
            f"train {ENV} --algo {algo} --preset none --engine envpool --num-envs 1 --rollout-steps {turn} "
            f"--hidden {units},{units} --learning-rate 3e-4 --transitions-per-update {rows} "
            f"--warmup-steps {WARMUP_STEPS} --eval-every 0 --eval-episodes {EPISODES} --total-steps {steps} "
            f"--seed {seed} --run-dir {run} --json"
        )
        found = _call([sys.executable, "-m", "batchwright.cli", *line.split()])
    return {"mean": found["evaluation"]["mean"], "seconds": found["seconds"]}


def sbx(algo: str, seed: int, steps: int, units: int, rows: int) -> dict[str, Any]:
    import time

    import gymnasium
    import numpy as np
    from sbx import SAC, TD3
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.noise import NormalActionNoise

    began = time.perf_counter()
    env = gymnasium.make(ENV)
    size = env.action_space.shape
    own = {"action_noise": NormalActionNoise(np.zeros(size), np.full(size, 0.1))} if algo == "td3" else {}
    model = (TD3 if algo == "td3" else SAC)(
        "MlpPolicy",
        env,
        **own,
        learning_starts=WARMUP_STEPS,
        learning_rate=3e-4,
        batch_size=rows,
        policy_kwargs={"net_arch": [units, units]},
        seed=seed,
    )
    model.learn(steps)
    seconds = time.perf_counter() - began
    mean, _ = evaluate_policy(model, gymnasium.make(ENV), EPISODES, deterministic=True, warn=False)
    return {"mean": float(mean), "seconds": seconds}


def _call(words: list[str]) -> Any:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--algo", default="sac", choices=["sac", "td3"])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--turn", type=int, default=32)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=list(SIDES), choices=list(SIDES))
    parser.add_argument("--json", type=Path, help="default: results/ALGO_beside_sbx.json")
    parser.add_argument("--worker", type=int, help="for the peer's own interpreter: a seed")
    stated = parser.parse_args()
    stated.json = stated.json or RESULTS / f"{stated.algo}_beside_sbx.json"
    sizes = (stated.steps, stated.units, stated.rows)
    if stated.worker is not None:
        print(json.dumps(sbx(stated.algo, stated.worker, *sizes)))
        return
    peer = [stated.peers_python, "-W", "ignore", __file__, "--algo", stated.algo]
    peer += ["--steps", str(stated.steps), "--units", str(stated.units), "--rows", str(stated.rows), "--worker"]
    setting = f"{stated.steps}|{stated.units} units, {stated.rows} rows"
    labels = {"batchwright": f"batchwright, {stated.turn} steps in turn", "sbx": "sbx"}
    for seed in stated.seeds:
        for name in stated.only:
            key = f"{labels[name]}|{setting}|{seed}"
            if key not in read(stated.json):
                found = (
                    ours(stated.algo, seed, *sizes, stated.turn) if name == "batchwright" else _call([*peer, str(seed)])
                )
                keep(stated.json, key, found)
            found = read(stated.json)[key]
            print(f"{key:<66} return {found['mean']:9.1f}  {found['seconds']:.0f} s", flush=True)
    for label in labels.values():
        means = [run["mean"] for key, run in read(stated.json).items() if key.startswith(f"{label}|{setting}|")]
        if means:
            print(f"{label:<30} median {statistics.median(means):.1f} of {len(means)} seeds")


if __name__ == "__main__":
    main()
