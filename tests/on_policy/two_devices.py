"""Makes the same iterations on one device and on two, and prints how far they come apart.

python two_devices.py CASE, with XLA_FLAGS=--xla_force_host_platform_device_count=2
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

import batchwright
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.shards import shard_layouts

BASE: dict[str, Any] = {
    "num_envs": 6,
    "rollout_steps": 12,
    "epochs": 2,
    "minibatches": 5,
    "hidden": "8",
    "engine": "jax",
}
CASES: dict[str, dict[str, Any]] = {
    "uneven minibatches": {
        "env": "CartPole-v1",
        "rollout_steps": 11,
        "normalize_obs": True,
        "normalize_rewards": True,
        "kl_stop": 0.002,
        "value_clip": 0.2,
    },
    "one update": {"env": "Pendulum-v1", "algo": "a2c", "minibatches": 1, "epochs": 1, "popart": True},
    "hybrid": {
        "env": "IdentityHybrid-v0",
        "entropy_floor_discrete": 1.5,
        "entropy_floor_weight": 1.0,
        "entropy_weight_continuous": 0.5,
        "learning_rate_schedule": "kl-adaptive",
        "advantage_norm": "minibatch",
    },
    "components": {"env": "TwoObjectives-v0", "component_weighting": "learned", "component_balance": True},
    "memory": {"env": "CartPole-v1", "memory": "gru", "memory_size": 8, "seq_length": 4},
}
ITERATIONS = 2


def order_of_one(order_DER: np.ndarray, parts: int, num_envs: int) -> np.ndarray:
    """The order of one device that makes the minibatches of two; a row or a sequence is (time, environment)."""
    devices, epochs, rows = order_DER.shape
    position, inside = shard_layouts(rows, parts, devices)
    each = num_envs // devices
    orders = []
    for epoch in range(epochs):
        order: list[int] = []
        for part in range(parts):
            for device in range(devices):
                taken = order_DER[device, epoch][position[device, part][inside[device, part] > 0]]
                order += [row // each * num_envs + device * each + row % each for row in taken.tolist()]
        assert sorted(order) == list(range(rows * devices))
        orders.append(order)
    return np.array(orders, np.int32)


def compare(case: dict[str, Any]) -> dict[str, float]:
    """The largest differences after each of a few iterations, over numbers of like kind."""
    settings = BASE | case
    env = settings.pop("env")
    plan_one, plan_two = (batchwright.plan(env, **settings, **more) for more in ({}, {"devices": 2}))
    one, two = make_on_policy_learner(plan_one, env), make_on_policy_learner(plan_two, env)
    a, b = one.start(), two.start()
    apart = {"parameters": 0.0, "optimiser": 0.0, "metrics": 0.0, "statistics": 0.0}
    for iteration in range(ITERATIONS):
        order = order_of_one(two.minibatch_order(iteration, None), plan_one["minibatches"], settings["num_envs"])  # type: ignore[arg-type]
        one.minibatch_order = lambda number, rollout, order=order: order  # type: ignore[method-assign, misc]
        a, found = one.iterate(a)
        b, sharded = two.iterate(b)
        names = found.metrics.keys() - {
            "first_ratio_error",
            "obs_widest_entry",
        }  # rounding, and a choice between equals
        assert names <= sharded.metrics.keys()
        pairs = {
            "parameters": (a.train.params, b.train.params),
            "optimiser": (a.train.opt_state, b.train.opt_state),
            "metrics": tuple([metrics[name] for name in sorted(names)] for metrics in (found.metrics, sharded.metrics)),
            "statistics": tuple((s.obs, s.rewards, s.targets, s.components, s.counters) for s in (a, b)),
        }
        for name, (left, right) in pairs.items():
            apart[name] = max(apart[name], _apart(left, right))
    return apart


def _apart(left: Any, right: Any) -> float:
    """The largest difference, of numbers above 1 as a share of them."""
    worst = 0.0
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        x, y = np.asarray(one, np.float64), np.asarray(other, np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        worst = max(worst, float(np.max(np.where(same, 0.0, np.abs(x - y) / np.maximum(1.0, np.abs(x))), initial=0.0)))
    return worst


if __name__ == "__main__":
    assert jax.device_count() == 2
    print(json.dumps(compare(CASES[sys.argv[1]])))
