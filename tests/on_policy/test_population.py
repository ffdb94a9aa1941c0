"""The pure part of an iteration, collect and update, runs for a population in one program."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from batchwright.core.streams import Streams
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.on_policy.on_policy_state import OnPolicyState
from run_batchwright import plan

RATES = (1e-4, 1e-3, 3e-3, 1e-2)
SETTINGS = {"num_envs": 4, "rollout_steps": 16, "minibatches": 2, "epochs": 2, "hidden": (8,), "total_steps": 640}


def host_inputs(learner: OnPolicyLearner, state: OnPolicyState, learning_rate: float) -> tuple[Any, ...]:
    """What the host prepares for the first iteration: arrays only."""
    hyper = learner.hyper(state)._replace(learning_rate=np.float32(learning_rate))
    rows = SETTINGS["num_envs"] * SETTINGS["rollout_steps"]  # type: ignore[operator]
    order = learner.minibatch_order(0, None)  # type: ignore[arg-type]
    assert order.shape == (2, rows)
    return state.train, state.collect_state, state.obs_stats(False), learner.noise(0), hyper, order


def test_collect_and_update_vmap_over_learning_rates_and_seeds() -> None:
    learner = make_on_policy_learner(plan(env="CartPole-v1", engine="jax", **SETTINGS), "CartPole-v1")

    def iteration(train: Any, collect_state: Any, stats: Any, noise: Any, hyper: Any, order: Any) -> Any:
        collect_state, rollout, episodes = learner.session.collect(train.params, stats, collect_state, noise)
        return *learner.update(train, rollout, stats, hyper, order), collect_state, episodes

    members = []
    for seed, rate in enumerate(RATES):
        learner.streams = Streams(seed)
        members.append(host_inputs(learner, learner.start(), rate))
    alone = [iteration(*member) for member in members]
    together = jax.jit(jax.vmap(iteration))(*jax.tree.map(lambda *leaves: np.stack(leaves), *members))
    for number, (train, metrics, collect_state, episodes) in enumerate(alone):
        member = jax.tree.map(lambda leaf, at=number: leaf[at], together)
        # A batched product rounds differently: close, not equal to the bit.
        np.testing.assert_allclose(member[0].params, train.params, rtol=2e-4, atol=2e-5)
        assert member[1].names == metrics.names
        np.testing.assert_allclose(member[1].to_floats()["learning_rate"], RATES[number], rtol=1e-6)
        np.testing.assert_allclose(member[2].obs, collect_state.obs, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(member[3].ended, episodes.ended)
    moved = [
        float(np.abs(train.params - member[0].params).max()) for (train, *_), member in zip(alone, members, strict=True)
    ]
    assert moved == sorted(moved) and moved[0] < moved[-1] / 10
