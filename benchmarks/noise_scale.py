"""The gradient noise scale that runs log, against gradients of independent rollouts at the same parameters.

python benchmarks/noise_scale.py [--only CartPole-v1] [--rollouts 96] [--minibatch 64]
    [--json benchmarks/results/noise_scale.json]

PPO is trained for some iterations, then kept as it is. Between two rollouts that count lie others that do not, so that
they share few episodes. Of each the gradients of the policy's part of the loss and of the value's are taken over all of
its transitions, once for the layers that only that part uses (as runs log it) and once for all layers. Their
variance x transitions over the squared norm of their mean is the truth. What the run would log comes from the same
rollouts, always with the same parameters: groups of environments, and single minibatches of the first epoch, which were
all that runs logged before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.api import plan, set_up_jax
from batchwright.doctor.noise_scale import noise_scale
from batchwright.doctor.run_history import Facts, RunHistory

TASKS = {
    "CartPole-v1": ("jax", 5),
    "Acrobot-v1": ("jax", 10),
    "Pendulum-v1": ("jax", 20),
    "MountainCarContinuous-v0": ("envpool", 10),
    "LunarLander-v3": ("envpool", 20),
    "HalfCheetah-v5": ("envpool", 20),
}
"""Engine, and iterations of training before the measurement. The last three were not looked at while it was built."""
SKIPPED = 3
"""Rollouts between two that count."""
ROLES = ("policy", "value")


class Gradients:
    """The compiled gradients of both parts of the loss over a whole rollout."""

    def __init__(self, learner: Any) -> None:
        import jax

        from batchwright.nets.param_roles import param_roles
        from batchwright.on_policy.on_policy_update import make_loss, prepare_rollout

        policy, settings = learner.policy, learner.on_policy_settings.update
        loss = make_loss(policy, settings)

        def gradients(train: Any, rollout: Any, stats: Any, hyper: Any) -> Any:
            rows = prepare_rollout(policy, settings, train, rollout, stats, hyper).rows

            def part(flat: Any, which: str) -> Any:
                total, metrics = loss(policy.unravel(flat), rows, rows.weight.sum(), hyper)
                value = hyper.value_weight * metrics["value_loss"]
                return value if which == "value" else total - value

            return [jax.grad(part)(train.params, role) for role in ROLES], rows.weight.sum()

        self.compute = jax.jit(gradients)
        masks = {}
        for role, ranges in zip(ROLES, param_roles(policy), strict=True):
            masks[role] = np.zeros(policy.num_params, bool)
            for begin, end in ranges:
                masks[role][begin:end] = True
        self.own = masks


def measure(env: str, rollouts: int, minibatch: int) -> dict[str, Any]:
    """The noise scales of one task both ways, in transitions."""
    import jax

    from batchwright.on_policy.on_policy_learner import OnPolicyLearner
    from batchwright.on_policy.rollout_noise import make_rollout_noise
    from batchwright.regimes import make_learner

    engine, iterations = TASKS[env]
    sizes = {"num_envs": 8, "rollout_steps": 256, "minibatch_transitions": minibatch}
    made = plan(env, algo="ppo", preset="none", engine=engine, eval_every=0, **sizes)
    learner = make_learner(made, env)
    assert isinstance(learner, OnPolicyLearner)
    gradients = Gradients(learner)
    by_env = jax.jit(make_rollout_noise(learner.policy, learner.on_policy_settings.update))
    state = learner.start()
    for _ in range(iterations):
        state, _ = learner.iterate(state)
    taken: dict[str, list[np.ndarray]] = {role: [] for role in ROLES}
    counts, logged = [], []
    for number in range(rollouts * (1 + SKIPPED)):
        stats, hyper = state.obs_stats(learner.normalize_obs), learner.hyper(state)
        collected = learner.collect_rollout(state, stats)
        counters = state.counters._replace(iteration=state.counters.iteration + 1)
        after = replace(state, collect_state=collected.collect_state, counters=counters)
        if number % (1 + SKIPPED) == 0:
            both, count = gradients.compute(state.train, collected.rollout, stats, hyper)
            counts.append(float(count))
            for role, gradient in zip(ROLES, both, strict=True):
                taken[role].append(np.asarray(gradient, np.float64))
            order = learner.minibatch_order(iterations + number, collected.rollout)
            updated = learner.update(state.train, collected.rollout, stats, hyper, order)[1].to_floats()
            logged.append(updated | by_env(state.train, collected.rollout, stats, hyper).to_floats())
        state = after
    learner.close()
    row = {"task": env, "iterations": iterations, "minibatch_transitions": minibatch, "rollouts": rollouts}
    row |= {"rollout_transitions": made["rollout_transitions"]}
    for role in ROLES:
        row[role] = compare(np.stack(taken[role]), gradients.own[role], float(np.mean(counts)), logged, role)
    return row


def compare(
    gradients: np.ndarray, own: np.ndarray, transitions: float, logged: list[dict[str, float]], role: str
) -> dict[str, Any]:
    """The truth with its spread, beside what the doctor reads in the record."""
    truth, low, high = independent(gradients[:, own], transitions)
    everything, _, _ = independent(gradients, transitions)
    found = noise_scale(RunHistory(logged, Facts({})), role)
    minibatches = [float(np.mean([one[f"{role}_gradient_{name}"] for one in logged])) for name in ("signal", "noise")]
    known = truth is not None and found is not None
    return {
        "independent": truth,
        "independent_low": low,
        "independent_high": high,
        "all_layers": everything,
        "logged": None if found is None else round(found.transitions),
        "logged_low": None if found is None else round(found.low),
        "logged_high": None if found is None else round(found.high),
        "minibatches": round(minibatches[1] / minibatches[0]) if minibatches[0] > 0 else None,
        "ratio": round(found.transitions / truth, 2) if known and found is not None and truth is not None else None,
    }


def independent(gradients: np.ndarray, transitions: float) -> tuple[int | None, int | None, int | None]:
    """The noise scale by gradients [R, P] of independent rollouts of so many transitions, and its spread.

    The spread is two standard errors by the jackknife, in the logarithm. None where the signal is not above 0.
    """
    whole = _scale(gradients, transitions)
    parts = [_scale(np.delete(gradients, np.s_[k::12], 0), transitions) for k in range(12)]
    if whole <= 0 or min(parts) <= 0:
        return None, None, None
    logs = np.log(parts)
    error = 2 * float(np.sqrt(11 / 12 * np.square(logs - logs.mean()).sum()))
    return round(whole), round(whole * np.exp(-error)), round(whole * np.exp(error))


def _scale(gradients: np.ndarray, transitions: float) -> float:
    variance = float(gradients.var(0, ddof=1).sum())
    signal = float(np.square(gradients.mean(0)).sum()) - variance / len(gradients)
    return transitions * variance / signal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=TASKS)
    parser.add_argument("--rollouts", type=int, default=96)
    parser.add_argument("--minibatch", type=int, default=64)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the record there; other rows in it stay")
    stated = parser.parse_args()
    set_up_jax()
    record = json.loads(stated.json.read_text()) if stated.json and stated.json.exists() else {"rows": []}
    record["machine"] = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()}
    for env in TASKS if stated.only is None else [stated.only]:
        row = measure(env, stated.rollouts, stated.minibatch)
        print(json.dumps(row), flush=True)
        same = [row["task"], row["minibatch_transitions"]]
        record["rows"] = [r for r in record["rows"] if [r["task"], r["minibatch_transitions"]] != same] + [row]
        if stated.json:
            stated.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
