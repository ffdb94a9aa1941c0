"""SAC on HalfCheetah-v5 beside SBX at equal settings: the return after the same steps, seed by seed.

python benchmarks/sac_beside_sbx.py --peers-python PATH [--steps 200000] [--seeds 3]
256-256 units, learning rate 3e-4, 256 transitions per update, one update per step, 5000 random steps first, gamma 0.99,
polyak 0.005, target entropy -6; SBX's own defaults otherwise. Evaluated over 10 episodes, exploration off.
Every finished run is kept in the JSON file at once; runs that are there already are not made again.
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

ENV, WARMUP_STEPS, EPISODES = "HalfCheetah-v5", 5000, 10
RESULTS = Path(__file__).parent / "results" / "sac_beside_sbx.json"


def ours(seed: int, steps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        line = (
            f"train {ENV} --algo sac --preset none --engine envpool --num-envs 1 --rollout-steps 64 --hidden 256,256 "
            f"--learning-rate 3e-4 --transitions-per-update 256 --warmup-steps {WARMUP_STEPS} --eval-every 0 "
            f"--eval-episodes {EPISODES} --total-steps {steps} --seed {seed} --run-dir {run} --json"
        )
        found = _call([sys.executable, "-m", "batchwright.cli", *line.split()])
    return {"mean": found["evaluation"]["mean"], "seconds": found["seconds"]}


def sbx(seed: int, steps: int) -> dict[str, Any]:
    import time

    import gymnasium
    from sbx import SAC
    from stable_baselines3.common.evaluation import evaluate_policy

    began = time.perf_counter()
    model = SAC(
        "MlpPolicy",
        gymnasium.make(ENV),
        learning_starts=WARMUP_STEPS,
        learning_rate=3e-4,
        batch_size=256,
        policy_kwargs={"net_arch": [256, 256]},
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
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--worker", type=int, help="for the peer's own interpreter: a seed")
    stated = parser.parse_args()
    if stated.worker is not None:
        print(json.dumps(sbx(stated.worker, stated.steps)))
        return
    peer = [stated.peers_python, "-W", "ignore", __file__, "--steps", str(stated.steps), "--worker"]
    for seed in range(stated.seeds):
        for name in ("batchwright", "sbx"):
            found = json.loads(stated.json.read_text()) if stated.json.exists() else {}
            key = f"{name}|{stated.steps}|{seed}"
            if key not in found:
                found[key] = ours(seed, stated.steps) if name == "batchwright" else _call([*peer, str(seed)])
                stated.json.parent.mkdir(parents=True, exist_ok=True)
                stated.json.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{key:<28} return {found[key]['mean']:9.1f}  {found[key]['seconds']:.0f} s", flush=True)
    for name in ("batchwright", "sbx"):
        means = [run["mean"] for key, run in found.items() if key.startswith(f"{name}|{stated.steps}|")]
        print(f"{name:<12} median {statistics.median(means):.1f} of {len(means)} seeds")


if __name__ == "__main__":
    main()
