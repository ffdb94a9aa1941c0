"""How near training comes to its limit (environments alone + compiled update alone), and speed against num_envs.

python benchmarks/limit.py [--json benchmarks/results/limit.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchwright.api import plan, set_up_jax

SETTINGS = (
    ("CartPole-v1", "envpool", 8, 256, 64, 10),
    ("CartPole-v1", "jax", 8, 256, 64, 10),
    ("HalfCheetah-v5", "envpool", 8, 256, 64, 10),
    ("LunarLander-v3", "envpool", 16, 1024, 64, 4),
)
GROWING = (8, 64, 512, 4096)
ROUNDS, ITERATIONS = 4, 8


def learner_for(env: str, engine: str, num_envs: int, steps: int, minibatch: int, epochs: int) -> Any:
    from batchwright.on_policy.on_policy_factory import make_on_policy_learner

    settings = {"num_envs": num_envs, "rollout_steps": steps, "minibatch_transitions": minibatch, "epochs": epochs}
    made = plan(env, preset="none", engine=engine, normalize_obs=False, normalize_rewards=False, **settings)
    return make_on_policy_learner(made, env)


def limit(env: str, engine: str, num_envs: int, steps: int, minibatch: int, epochs: int) -> dict[str, Any]:
    """Whole iterations against the sum of their two parts, on the same trajectories.

    Environments alone are started from the same seeds and stepped through the very actions of the rollouts: what a
    step costs depends on what the policy does.
    """
    import jax

    learner = learner_for(env, engine, num_envs, steps, minibatch, epochs)
    state, result = learner.iterate(learner.start())
    stats, hyper = state.obs_stats(False), learner.hyper(state)
    order = learner.minibatch_order(0, result.collected.rollout)
    whole, update, alone = [], [], []
    for number in range(1, ROUNDS + 1):
        # The first iteration after a start compiles EnvPool's rollout: it is not timed, on either side.
        state, result = learner.iterate(replace(state, collect_state=learner.session.start(number)))
        actions = [result.collected.actions]
        for _ in range(ITERATIONS):
            begin = time.perf_counter()
            state, result = learner.iterate(state)
            learner.record(state, result, 1.0)
            whole.append(time.perf_counter() - begin)
            actions.append(result.collected.actions)
            begin = time.perf_counter()
            jax.block_until_ready(learner.update(state.train, result.collected.rollout, stats, hyper, order))
            update.append(time.perf_counter() - begin)
        alone += steps_alone(learner, number, actions)
    whole_seconds, update_seconds, env_seconds = (statistics.median(x) for x in (whole, update, alone))
    return {
        "env": env,
        "engine": engine,
        "setting": f"{num_envs} x {steps}, {minibatch}, {epochs}",
        "steps_per_second": num_envs * steps / whole_seconds,
        "environments_seconds": env_seconds,
        "update_seconds": update_seconds,
        "iteration_seconds": whole_seconds,
        "share_of_limit": (env_seconds + update_seconds) / whole_seconds,
    }


def steps_alone(learner: Any, number: int, actions: list[Any]) -> list[float]:
    """Seconds of each rollout after the first, which compiles, with the environments and nothing else."""
    import jax

    state = learner.session.start(number).engine

    @jax.jit
    def run(state: Any, action_TND: Any) -> Any:
        def step(state: Any, action: Any) -> Any:
            state, result = learner.engine.step(state, learner.policy.to_env(action))
            return state, (result.obs, result.reward)

        return jax.lax.scan(step, state, action_TND)

    seconds = []
    for action in actions:
        begin = time.perf_counter()
        state, _ = jax.block_until_ready(run(state, action))
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]


def growing(env: str, engine: str) -> list[dict[str, Any]]:
    """Steps per second against num_envs at 32 steps, a quarter of the rollout per minibatch, 4 epochs."""
    rows = []
    for num_envs in GROWING:
        learner = learner_for(env, engine, num_envs, 32, max(64, num_envs * 8), 4)
        state, _ = learner.iterate(learner.start())
        seconds = []
        while len(seconds) < 5 or sum(seconds) < 2:
            begin = time.perf_counter()
            state, _ = learner.iterate(state)
            seconds.append(time.perf_counter() - begin)
        rows.append(
            {
                "env": env,
                "engine": engine,
                "num_envs": num_envs,
                "steps_per_second": num_envs * 32 / statistics.median(seconds),
            }
        )
        learner.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    stated = parser.parse_args()
    set_up_jax()
    limits = []
    for setting in SETTINGS:
        limits.append(limit(*setting))
        row = limits[-1]
        print(
            f"{row['env']:<16} {row['engine']:<8} {row['setting']:<16} {row['steps_per_second']:>9,.0f} steps/s  "
            f"{row['share_of_limit']:.2f} of the limit",
            flush=True,
        )
    sizes = []
    for env, engine in (("CartPole-v1", "jax"), ("CartPole-v1", "envpool")):
        for row in growing(env, engine):
            sizes.append(row)
            name = f"{row['env']:<16} {row['engine']:<8} {row['num_envs']:>5} envs"
            print(f"{name} {row['steps_per_second']:>11,.0f} steps/s", flush=True)
    if stated.json:
        stated.json.write_text(json.dumps({"limits": limits, "growing": sizes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
