"""SAC on HalfCheetah-v5 beside Stable-Baselines3 and SBX at equal settings, and beside the machine's float bound.

python benchmarks/speed_replay.py --peers-python PATH [--repeats 9] [--steps 200] [--threads 1]
256-256 units, 256 transitions per update, one update per step, one environment. All contenders are started and warmed
up once, then take turns of a second or two: a machine whose speed drifts is equally slow for all of them. Wall and CPU
time of a step are both kept, and on a shared machine the second is the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENV, HIDDEN, ROWS = "HalfCheetah-v5", 256, 256
OBS, ACTION = 17, 6
RESULTS = Path(__file__).parent / "results" / "speed_replay.json"
WARM_STEPS = 256


def update_flops() -> float:
    """Multiply-adds x 2 of one SAC update in the products of its layers: what no implementation can leave out."""

    def layers(inputs: int, outputs: int) -> list[tuple[int, int]]:
        return [(inputs, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, outputs)]

    def cost(shape: list[tuple[int, int]]) -> float:
        return 2.0 * ROWS * sum(a * b for a, b in shape)

    actor, critic = layers(OBS, 2 * ACTION), layers(OBS + ACTION, 1)
    inner = cost(critic[1:])  # gradients of a network's inputs skip its first layer
    forward = 2 * cost(actor) + 2 * 3 * cost(critic)  # actor at s and s', twins: target, online, at the actor's action
    critics_back = 2 * (cost(critic) + inner)
    actor_back = 2 * (inner + 2.0 * ROWS * ACTION * HIDDEN) + cost(actor) + cost(actor[1:])
    return forward + critics_back + actor_back


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


Turn = Callable[[int], dict[str, float]]
"""A number of steps -> wall and CPU seconds of one of them."""


def ours() -> Turn:
    import batchwright
    from batchwright.replay.replay_learner import make_replay_learner

    plan = batchwright.plan(
        env=ENV, algo="sac", preset="none", engine="envpool", num_envs=1, total_steps=10**6, warmup_steps=128
    )
    learner = make_replay_learner(plan, ENV)
    state = learner.start()
    while int(state.counters.env_steps) < WARM_STEPS:
        state, _ = learner.iterate(state)

    def turn(steps: int) -> dict[str, float]:
        nonlocal state
        made, updating, (wall, cpu) = 0, 0.0, clocks()
        while made < steps:
            state, result = learner.iterate(state)
            made += plan["steps_per_iteration"]
            updating += result.seconds["update"]
        after_wall, after_cpu = clocks()
        return {"wall": (after_wall - wall) / made, "cpu": (after_cpu - cpu) / made, "update_wall": updating / made}

    return turn


def peer(name: str, threads: int) -> Turn:
    import gymnasium

    if name == "sb3":
        import torch
        from stable_baselines3 import SAC

        torch.set_num_threads(threads)
    else:
        from sbx import SAC
    model = SAC(
        "MlpPolicy",
        gymnasium.make(ENV),
        learning_starts=128,
        batch_size=ROWS,
        policy_kwargs={"net_arch": [HIDDEN, HIDDEN]},
    )
    model.learn(WARM_STEPS)

    def turn(steps: int) -> dict[str, float]:
        wall, cpu = clocks()
        model.learn(steps, reset_num_timesteps=False)
        after_wall, after_cpu = clocks()
        return {"wall": (after_wall - wall) / steps, "cpu": (after_cpu - cpu) / steps}

    return turn


def float_bound() -> Turn:
    """The products of one update alone, from a compiled loop over 256 x 256 x 256, the shape that rules it."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def products(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, _: ((c @ w) * 1e-3, None), x, None, length=1000)[0]

    x, w = jnp.ones((ROWS, HIDDEN)), jnp.ones((HIDDEN, HIDDEN))
    products(x, w).block_until_ready()
    share = update_flops() / (1000 * 2.0 * ROWS * HIDDEN * HIDDEN)

    def turn(steps: int) -> dict[str, float]:
        rounds, (wall, cpu) = max(1, round(steps * share)), clocks()
        for _ in range(rounds):
            products(x, w).block_until_ready()
        after_wall, after_cpu = clocks()
        return {"wall": (after_wall - wall) * share / rounds, "cpu": (after_cpu - cpu) * share / rounds}

    return turn


def serve(name: str, threads: int) -> None:
    """Reads a number of steps from each line, answers with what they took."""
    turn = ours() if name == "batchwright" else float_bound() if name == "bound" else peer(name, threads)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(int(line))), flush=True)


def start(name: str, python: str, threads: int) -> subprocess.Popen[str]:
    """A contender in a process of its own, warmed up."""
    limits = {key: str(threads) for key in ("NPROC", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    words = [python, "-W", "ignore", __file__, "--worker", name, "--threads", str(threads)]
    worker = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **limits}
    )
    assert worker.stdout is not None
    while (line := worker.stdout.readline()).strip() != "ready":
        if not line:
            raise SystemExit(f"{name} ended with exit code {worker.wait()}")
    return worker


def ask(worker: subprocess.Popen[str], steps: int) -> dict[str, float]:
    assert worker.stdin is not None and worker.stdout is not None
    worker.stdin.write(f"{steps}\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--worker", choices=("batchwright", "sb3", "sbx", "bound"))
    stated = parser.parse_args()
    if stated.worker:
        serve(stated.worker, stated.threads)
        return
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in ("batchwright", "sb3", "sbx", "bound")}
    pythons = {name: stated.peers_python if name in ("sb3", "sbx") else sys.executable for name in rows}
    workers = {name: start(name, python, stated.threads) for name, python in pythons.items()}
    for turn in range(stated.repeats):
        for name, worker in workers.items():
            rows[name].append(ask(worker, stated.steps))
            took = rows[name][-1]
            print(f"{turn} {name:<12} wall {1e3 * took['wall']:7.2f} ms  cpu {1e3 * took['cpu']:7.2f} ms", flush=True)
    for worker in workers.values():
        worker.terminate()
    medians = {n: {k: statistics.median(r[k] for r in f) for k in ("wall", "cpu")} for n, f in rows.items()}
    summary: dict[str, Any] = {
        "env": ENV,
        "threads": stated.threads,
        "steps": stated.steps,
        "repeats": stated.repeats,
        "update_megaflops": update_flops() / 1e6,
        "load_average": os.getloadavg()[0],
        "median_seconds_per_step": medians,
        "times_sb3": {k: medians["sb3"][k] / medians["batchwright"][k] for k in ("wall", "cpu")},
        "times_sbx": {k: medians["sbx"][k] / medians["batchwright"][k] for k in ("wall", "cpu")},
        "share_of_bound": {k: medians["bound"][k] / medians["batchwright"][k] for k in ("wall", "cpu")},
        "share_of_bound_during_updates": medians["bound"]["wall"]
        / statistics.median(turn["update_wall"] for turn in rows["batchwright"]),
        "runs": rows,
    }
    print(json.dumps({k: v for k, v in summary.items() if k != "runs"}, indent=1))
    old = json.loads(stated.json.read_text()) if stated.json.exists() else {}
    stated.json.parent.mkdir(parents=True, exist_ok=True)
    stated.json.write_text(json.dumps(old | {f"threads {stated.threads}": summary}, indent=1) + "\n")


if __name__ == "__main__":
    main()
