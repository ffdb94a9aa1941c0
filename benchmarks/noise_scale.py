"""The gradient noise scale that runs log, against gradients of independent rollouts at the same parameters.

python benchmarks/noise_scale.py [--only CartPole-v1] [--rollouts 64] [--json FILE]

PPO is trained for some iterations, then kept as it is. The policy's gradient (loss and entropy bonus, all parameters)
of each further rollout gives the truth: variance between rollouts x transitions, over the squared norm of the mean
gradient. The logged estimate is that of the first epoch of the same rollouts, from single minibatches.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.api import plan, set_up_jax

TASKS = {"CartPole-v1": 5, "Acrobot-v1": 10, "Pendulum-v1": 20}
"""Iterations of training before the measurement."""


def measure(env: str, iterations: int, rollouts: int) -> dict[str, Any]:
    """The noise scale of one task both ways, in transitions."""
    import jax

    from batchwright.on_policy.on_policy_learner import OnPolicyLearner
    from batchwright.on_policy.on_policy_update import make_loss, prepare_rollout
    from batchwright.regimes import make_learner

    made = plan(env, algo="ppo", preset="none", engine="jax", eval_every=0, minibatch_transitions=128)
    learner = make_learner(made, env)
    assert isinstance(learner, OnPolicyLearner)
    settings, policy = learner.on_policy_settings.update, learner.policy
    loss = make_loss(policy, settings)

    def policy_gradient(train: Any, rollout: Any, stats: Any, hyper: Any) -> Any:
        rows = prepare_rollout(policy, settings, train, rollout, stats, hyper).rows

        def objective(flat: Any) -> Any:
            total, metrics = loss(policy.unravel(flat), rows, rows.weight.sum(), hyper)
            return total - hyper.value_weight * metrics["value_loss"]

        return jax.grad(objective)(train.params), rows.weight.sum()

    compute = jax.jit(policy_gradient)
    state = learner.start()
    for _ in range(iterations):
        state, _ = learner.iterate(state)
    gradients, counts, logged = [], [], []
    for number in range(rollouts):
        stats, hyper = state.obs_stats(False), learner.hyper(state)
        collected = learner.collect_rollout(state, stats)
        gradient, count = compute(state.train, collected.rollout, stats, hyper)
        gradients.append(np.asarray(gradient, np.float64))
        counts.append(float(count))
        order = learner.minibatch_order(iterations + number, collected.rollout)
        logged.append(learner.update(state.train, collected.rollout, stats, hyper, order)[1].to_floats())
        counters = state.counters._replace(iteration=state.counters.iteration + 1)
        state = replace(state, collect_state=collected.collect_state, counters=counters)
    learner.close()
    parts = [independent(np.stack(gradients)[k::4], float(np.mean(counts))) for k in range(4)]
    signal, noise = (float(np.mean([one[f"policy_gradient_{name}"] for one in logged])) for name in ("signal", "noise"))
    whole = independent(np.stack(gradients), float(np.mean(counts)))
    return {
        "task": env,
        "rollout_transitions": made["rollout_transitions"],
        "rollouts": rollouts,
        "independent": round(whole) if whole > 0 else None,
        "quarters": [round(part) for part in parts],
        "logged": round(noise / signal) if signal > 0 else None,
        "ratio": round(noise / signal / whole, 2) if signal > 0 and whole > 0 else None,
    }


def independent(gradients: np.ndarray, transitions: float) -> float:
    """The noise scale by gradients [R, P] of independent rollouts of so many transitions."""
    variance = float(gradients.var(0, ddof=1).sum())
    signal = float(np.square(gradients.mean(0)).sum()) - variance / len(gradients)
    return transitions * variance / signal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=TASKS)
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--json", metavar="FILE", help="write the record there")
    stated = parser.parse_args()
    set_up_jax()
    rows = []
    for env, iterations in TASKS.items():
        if stated.only in (None, env):
            rows.append(measure(env, iterations, stated.rollouts))
            print(json.dumps(rows[-1]), flush=True)
    if stated.json:
        Path(stated.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
