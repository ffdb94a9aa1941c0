"""CartPole without velocities: an LSTM of ours beside sb3-contrib's RecurrentPPO at equal settings, return and speed.

python benchmarks/memory_beside_sb3.py --peers-python PATH [--sides ours one-lstm two-lstms] [--seeds 10 11 12 13 14]
    [--speed 5] [--json benchmarks/results/memory_beside_sb3.json]

8 environments x 128 steps, minibatches of 128 transitions, 10 epochs, learning rate 1e-3, gamma 0.99, lambda 0.95, clip
range 0.2, no entropy bonus, advantages normalised per minibatch, LSTMs of 64 units, a layer of 64 after them for actor
and critic each, normalised observations and rewards, Adam with epsilon 1e-5, one thread. Both unroll up to 128 steps.
RecurrentPPO has one LSTM that the actor alone trains (`one-lstm`), or two, its default (`two-lstms`). Evaluated after
50,000 steps over 50 episodes, exploration off.

--speed N measures N pairs in turns instead, 20 rollouts each: without imports, compiling and the first two rollouts.
Every finished run is kept in the JSON file at once; what is there is not made again.
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
sys.path.insert(0, str(HERE / "peers"))
RESULTS = HERE / "results" / "memory_beside_sb3.json"
ENVS, STEPS, MINIBATCH, EPOCHS, UNITS, EPISODES = 8, 128, 128, 10, 64, 50
MARKS = (20_000, 35_000, 50_000)
SPEED_ROLLOUTS, LEFT_OUT = 20, 2
SIDES = ("ours", "one-lstm", "two-lstms")
OURS = (
    f"--engine gymnasium-sync --preset none --memory lstm --memory-size {UNITS} --seq-length {STEPS} --num-envs {ENVS} "
    f"--rollout-steps {STEPS} --minibatch-transitions {MINIBATCH} --epochs {EPOCHS} --learning-rate 0.001 "
    "--hidden 64,64 --gamma 0.99 --gae-lambda 0.95 --clip-range 0.2 --value-weight 0.5 --max-grad-norm 0.5 "
    f"--advantage-norm minibatch --normalize-obs --normalize-rewards --eval-every 0 --eval-episodes {EPISODES}"
)
LSTMS: dict[str, dict[str, Any]] = {
    "one-lstm": {"shared_lstm": True, "enable_critic_lstm": False},
    "two-lstms": {"shared_lstm": False, "enable_critic_lstm": True},
}


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
        line = f"train {Path(__file__).resolve()}:positions {OURS} --total-steps {steps} --seed {seed}"
        found = _call(
            [sys.executable, "-m", "batchwright.cli", *line.split(), "--json", "--quiet", "--run-dir", str(run)]
        )
        plan = json.loads((run / "plan.json").read_text())["quantities"]
        assert plan["minibatch_transitions"]["value"] == MINIBATCH, "minibatches are not equal"
        records = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    seconds = [record["collect_seconds"] + record["update_seconds"] for record in records]
    return {"mean": found["evaluation"]["mean"], "rate": _rate(seconds)}


def theirs(side: str, seed: int, marks: list[int]) -> list[dict[str, Any]]:
    """One run of RecurrentPPO, evaluated at the marks; called in the peers' environment."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    env = VecNormalize(make_vec_env(positions, ENVS, seed=seed))
    shown = VecNormalize(make_vec_env(positions, ENVS, seed=seed + 1000), training=False, norm_reward=False)
    shown.obs_rms = env.obs_rms

    class Clock(BaseCallback):
        """Seconds of each rollout with its update, evaluations left out; what was evaluated."""

        def _on_training_start(self) -> None:
            self.seconds: list[float] = []
            self.found: list[dict[str, Any]] = []
            self.last = time.perf_counter()

        def _on_rollout_start(self) -> None:
            if self.num_timesteps:
                self.seconds.append(time.perf_counter() - self.last)
                self.evaluate()
            self.last = time.perf_counter()

        def _on_training_end(self) -> None:
            self.seconds.append(time.perf_counter() - self.last)
            self.evaluate()

        def evaluate(self) -> None:
            if len(self.found) < len(marks) and self.num_timesteps >= marks[len(self.found)]:
                mean, _ = evaluate_policy(model, shown, n_eval_episodes=EPISODES)
                self.found.append({"mean": float(mean), "rate": _rate(self.seconds)})

        def _on_step(self) -> bool:
            return True

    model = RecurrentPPO(
        "MlpLstmPolicy",
        env,
        n_steps=STEPS,
        batch_size=MINIBATCH,
        n_epochs=EPOCHS,
        learning_rate=1e-3,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        policy_kwargs={"lstm_hidden_size": UNITS, "net_arch": [64], **LSTMS[side]},
        seed=seed,
        device="cpu",
    )
    clock = Clock()
    model.learn(marks[-1], callback=clock)
    return clock.found


def _rate(seconds: list[float]) -> float:
    kept = seconds[LEFT_OUT:]
    return ENVS * STEPS * len(kept) / sum(kept)


def returns(stated: argparse.Namespace) -> None:
    """Evaluated returns at the marks, by side and seed."""
    for seed in stated.seeds:
        for side in stated.sides:
            keys = [f"{side}|{steps}|{seed}" for steps in MARKS]
            if set(keys) <= set(read(stated.json)["runs"]):
                continue
            if side == "ours":
                found = [ours(seed, steps) for steps in MARKS]
            else:
                found = _theirs_apart(stated.peers_python, side, seed, list(MARKS))
            keep(stated.json, "runs", dict(zip(keys, found, strict=True)))


def speeds(stated: argparse.Namespace) -> None:
    """Steps per second in turns, so that what else the machine does meets all sides."""
    for turn in range(stated.speed):
        steps = ENVS * STEPS * SPEED_ROLLOUTS
        found = {}
        for side in stated.sides:
            one = ours(turn, steps) if side == "ours" else _theirs_apart(stated.peers_python, side, turn, [steps])[0]
            found[side] = one["rate"]
        keep(stated.json, "speed", {str(len(read(stated.json)["speed"])): found})


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {"runs": {}, "speed": {}}


def keep(path: Path, part: str, new: dict[str, Any]) -> None:
    from machine import describe

    report = read(path)
    report[part] |= new
    report |= {"machine": describe(), "measured": time.strftime("%Y-%m-%d"), "ours": OURS}
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(new, flush=True)


def _theirs_apart(python: str, side: str, seed: int, marks: list[int]) -> Any:
    words = [python, str(Path(__file__).resolve()), "--peers-python", "", "--sides", side, "--seeds", str(seed)]
    return _call([*words, "--one", *map(str, marks)])


def _call(words: list[str]) -> Any:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", required=True, help="the interpreter that has sb3-contrib")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13, 14])
    parser.add_argument("--speed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--one", type=int, nargs="+", help=argparse.SUPPRESS)
    stated = parser.parse_args()
    if stated.one is not None:
        print(json.dumps(theirs(stated.sides[0], stated.seeds[0], stated.one)))
    elif stated.speed:
        speeds(stated)
    else:
        returns(stated)


if __name__ == "__main__":
    main()
