"""What runs with memory say of the time before their sequences, against policies stepped by hand."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import batchwright
from batchwright.data.rollout import Rollout
from batchwright.nets.recurrent_policy import RecurrentPolicy
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.recurrent_metrics import begins_episode, measure_memory

LENGTH = 4


@pytest.fixture(scope="module")
def collected() -> tuple[RecurrentPolicy, Any, Any, Rollout, Any]:
    """(policy, loud parameters, others, a rollout of 48 steps with ends of episodes in it, observation statistics)."""
    wishes = {"memory": "gru", "memory_size": 8, "hidden": "8,8", "num_envs": 2, "rollout_steps": 48, "seq_length": 4}
    learner = make_on_policy_learner(
        batchwright.plan("CartPole-v1", engine="jax", preset="none", **wishes), "CartPole-v1"
    )
    state, policy = learner.start(), learner.policy
    assert isinstance(policy, RecurrentPolicy)
    noise = np.random.default_rng(1).standard_normal((2, policy.num_params)).astype(np.float32)
    stats, loud = state.obs_stats(False), state.train.params + 0.7 * noise[0]
    _, rollout, _ = learner.session.collect(loud, stats, state.collect_state, learner.noise(0))
    learner.close()
    assert np.asarray(rollout.resets)[:, 0].sum() > 1, "no episode ended: nothing is tested"
    return policy, loud, loud + 0.1 * noise[1], rollout, stats


def by_hand(collected: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    """(log-probs with the memory, log-probs with it emptied at the start) [LENGTH] of a sequence of environment 0."""
    policy, flat, _, rollout, stats = collected
    inputs = policy.preprocess(np.asarray(rollout.obs)[:-1, :1], stats)
    fresh, action = np.asarray(begins_episode(rollout)), np.asarray(rollout.action)
    found: list[list[float]] = [[], []]
    memory, empty = jnp.asarray(rollout.memory)[:1], jnp.zeros_like(jnp.asarray(rollout.memory)[:1])
    for t in range((number + 1) * LENGTH):
        memory = jnp.zeros_like(memory) if fresh[t, 0] else memory
        empty = jnp.zeros_like(empty) if fresh[t, 0] or t == number * LENGTH else empty
        after = [policy.step(flat, inputs[t], state) for state in (memory, empty)]
        memory, empty = (state for _, state in after)
        if t >= number * LENGTH:
            for place, (out, _) in enumerate(after):
                log_prob = policy.heads.log_prob(out.params, out.raw, action[t, :1], None)
                found[place].append(float(log_prob.sum()))
    return np.array(found[0]), np.array(found[1])


def test_the_effect_of_what_was_before_a_sequence_is_that_of_steps_taken_by_hand(collected: Any) -> None:
    policy, loud, _, rollout, stats = collected
    found = measure_memory(policy, LENGTH, (loud, loud), rollout, stats)
    fresh, valid = np.asarray(begins_episode(rollout))[:-1, 0], np.asarray(rollout.valid)[:, 0]
    first, last, carried = [], [], []
    for number in range(48 // LENGTH):
        kept, emptied = by_hand(collected, number)
        change = np.minimum(1.0, 0.5 * np.abs(np.expm1(emptied - kept)))
        steps = slice(number * LENGTH, (number + 1) * LENGTH)
        first += [change[0]] if valid[steps][0] and not fresh[steps][0] else []
        last += [change[-1]] if valid[steps][-1] and not fresh[steps].any() else []
        carried += [not fresh[steps].any()] if valid[steps][-1] else []
    assert 0 < sum(carried) < len(carried)
    assert float(found["memory_effect_start"]) == pytest.approx(np.mean(first), rel=1e-3) and np.mean(first) > 0.02
    assert float(found["memory_effect_end"]) == pytest.approx(np.mean(last), rel=1e-3, abs=1e-6)
    assert float(found["memory_carried"]) == pytest.approx(np.mean(carried))


def test_states_are_stale_only_where_the_parameters_have_moved(collected: Any) -> None:
    policy, loud, other, rollout, stats = collected
    still = measure_memory(policy, LENGTH, (loud, loud), rollout, stats)
    moved = measure_memory(policy, LENGTH, (loud, other), rollout, stats)
    assert float(still["memory_stale"]) < 1e-6 and float(still["memory_moved"]) < 1e-6
    assert float(moved["memory_stale"]) > 1e-3 and float(moved["memory_moved"]) > 1e-3
    whole = measure_memory(policy, 48, (loud, other), rollout, stats)
    assert float(whole["memory_stale"]) < 1e-6  # one sequence is the whole rollout: it begins with the same state


def test_runs_with_memory_log_what_the_doctor_needs_and_others_do_not() -> None:
    names = {"memory_effect_start", "memory_effect_end", "memory_carried", "memory_stale", "memory_moved"}
    for memory in ("gru", None):
        learner = make_on_policy_learner(
            batchwright.plan("CartPole-v1", engine="jax", preset="none", memory=memory, num_envs=2, rollout_steps=16),
            "CartPole-v1",
        )
        _, result = learner.iterate(learner.start())
        assert names & set(result.metrics) == (names if memory else set())
        learner.close()
