"""CartPole without velocities: an LSTM of ours beside sb3-contrib's RecurrentPPO at equal settings, return and speed.

python benchmarks/memory_beside_sb3.py --peers-python PATH [--seeds 0 1 2] [--steps 100000]
    [--json benchmarks/results/memory_beside_sb3.json]

8 environments x 128 steps, minibatches of 128 transitions, 10 epochs, learning rate 1e-3, gamma 0.99, lambda 0.95, one
LSTM of 64 units that actor and critic share, normalised observations and rewards, one thread. Both unroll up to
128 steps. Evaluated over 20 episodes, exploration off. Speeds leave out imports, compiling and the first tenth. Every
finished run is kept in the JSON file at once; what is there is not made again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "memory_beside_sb3.json"
ENVS, STEPS, MINIBATCH, EPOCHS, UNITS, EPISODES = 8, 128, 128, 10, 64, 20
SEQUENCE = 128


def positions() -> Any:
    """CartPole-v1 that shows the position and the angle alone."""
    import gymnasium
    import numpy as np

    low = np.array([-4.8, -0.42], np.float32)
    space = gymnasium.spaces.Box(low, -low, dtype=np.float32)
    return gymnasium.wrappers.TransformObservation(gymnasium.make("CartPole-v1"), lambda obs: obs[[0, 2]], space)


def ours(seed: int, steps: int) -> dict[str, Any]:
    """One run of ours in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        line = (
            f"train {Path(__file__).resolve()}:positions --engine gymnasium-sync --memory lstm --memory-size {UNITS} "
            f"--seq-length {SEQUENCE} --num-envs {ENVS} --rollout-steps {STEPS} --minibatch-transitions {MINIBATCH} "
            f"--epochs {EPOCHS} --learning-rate 0.001 --hidden 64,64 --normalize-obs --normalize-rewards "
            f"--total-steps {steps} --seed {seed} --eval-every 0 --eval-episodes {EPISODES} --json "
            f"--quiet --run-dir {run}"
        )
        found = _call([sys.executable, "-m", "batchwright.cli", *line.split()])
        records = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    kept = records[len(records) // 10 :]
    seconds = sum(record["collect_seconds"] + record["update_seconds"] for record in kept)
    return {"mean": found["evaluation"]["mean"], "steps_per_second": ENVS * STEPS * len(kept) / seconds}


def theirs(seed: int, steps: int) -> dict[str, Any]:
    """One run of RecurrentPPO; called in the peers' environment."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)

    class Clock(BaseCallback):
        times: list[float]

        def _on_training_start(self) -> None:
            self.times = []

        def _on_rollout_start(self) -> None:
            self.times.append(time.perf_counter())

        def _on_step(self) -> bool:
            return True

    env = VecNormalize(make_vec_env(positions, ENVS, seed=seed))
    lstm = {"lstm_hidden_size": UNITS, "shared_lstm": True, "enable_critic_lstm": False, "net_arch": [64]}
    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        n_steps=STEPS,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        learning_rate=1e-3,
        policy_kwargs=lstm,
        seed=seed,
        device="cpu",
    )
    clock = Clock()
    model.learn(steps, callback=clock)
    times = clock.times[len(clock.times) // 10 :]
    rate = ENVS * STEPS * (len(times) - 1) / (times[-1] - times[0])
    env.training, env.norm_reward = False, False
    mean, _ = evaluate_policy(model, env, n_eval_episodes=EPISODES)
    return {"mean": float(mean), "steps_per_second": rate}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", required=True, help="the interpreter that has sb3-contrib")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    stated = parser.parse_args()
    if stated.one is not None:
        print(json.dumps(theirs(stated.one, stated.steps)))
        return
    for seed in stated.seeds:
        for side in ("ours", "RecurrentPPO"):
            report = json.loads(stated.json.read_text()) if stated.json.exists() else {}
            key = f"{side}|{stated.steps}|{seed}"
            if key in report:
                continue
            words = [stated.peers_python, str(Path(__file__).resolve()), "--peers-python", ""]
            words += ["--steps", str(stated.steps), "--one", str(seed)]
            report[key] = ours(seed, stated.steps) if side == "ours" else _call(words)
            stated.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            print(key, report[key], flush=True)


def _call(words: list[str]) -> Any:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
