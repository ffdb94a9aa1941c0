"""TD3: its losses by hand figures, noise inside its limits, an actor that waits for its turn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.envs.spaces import Box
from batchwright.replay.replay_learner import ReplayLearner, make_replay_learner
from batchwright.replay.replay_state import ReplayState
from batchwright.replay.td3 import (
    actor_loss,
    clipped_double_q_target,
    critic_loss,
    make_deterministic_heads,
    smoothed_action,
)
from run_batchwright import plan, refusal

SMALL: dict[str, Any] = {
    "env": "Pendulum-v1",
    "engine": "jax",
    "algo": "td3",
    "preset": "none",
    "hidden": "8",
    "num_envs": 2,
    "rollout_steps": 10,
    "updates_per_iteration": 1,
    "transitions_per_update": 16,
    "replay_transitions": 150,
    "warmup_steps": 20,
    "total_steps": 2000,
}


def test_the_target_takes_the_smaller_critic_and_ends_at_a_termination() -> None:
    value = jnp.asarray([[10.0, 10.0], [8.0, 12.0]])
    found = clipped_double_q_target(jnp.asarray([1.0, 1.0]), jnp.asarray([False, True]), value, 0.9)
    # 1 + 0.9 min(10, 8) = 8.2; the second row terminated.
    assert found.tolist() == pytest.approx([8.2, 1.0])


def test_no_gradient_flows_through_the_target() -> None:
    def loss(value: jax.Array) -> jax.Array:
        return clipped_double_q_target(jnp.ones(1), jnp.zeros(1, bool), value, 0.9).sum()

    assert jax.grad(loss)(jnp.ones((2, 1))).tolist() == [[0.0], [0.0]]


def test_the_critic_loss_is_the_squares_of_both() -> None:
    # Errors (1, -1) and (3, 1): mean(1 + 9, 1 + 1) = 6.
    assert float(critic_loss(jnp.asarray([[2.0, 0.0], [4.0, 2.0]]), jnp.asarray([1.0, 1.0]))) == pytest.approx(6.0)


def test_the_actor_follows_the_first_critic_alone() -> None:
    value = jnp.asarray([[5.0, 2.0], [3.0, 4.0]])
    assert float(actor_loss(value)) == pytest.approx(-3.5)
    assert jax.grad(actor_loss)(value).tolist() == [[-0.5, -0.5], [0.0, 0.0]]


def test_smoothing_is_clipped_twice() -> None:
    action = jnp.asarray([[0.0], [0.0], [0.9], [-0.9]])
    found = smoothed_action(action, jnp.asarray([[1.0], [-10.0], [1.0], [-10.0]]), 0.2, 0.5)
    # 0.2; -2 cut to -0.5; 0.9 + 0.2 and -0.9 - 0.5 cut to the bounds.
    assert found[:, 0].tolist() == pytest.approx([0.2, -0.5, 1.0, -1.0])


def test_exploration_noise_has_its_spread_and_stays_inside_the_bounds() -> None:
    heads = make_deterministic_heads(Box((2,), np.dtype("float32"), np.float32([-2, 0]), np.float32([2, 4])), 0.1)
    noise = heads.noise(3, (4000,))
    raw = jnp.broadcast_to(jnp.asarray([0.0, 5.0]), (4000, 2))
    sampled = np.asarray(heads.sample(None, raw, noise))
    assert sampled[:, 0].std() == pytest.approx(0.1, rel=0.05)
    assert sampled.max() == 1.0
    greedy = np.asarray(heads.sample(None, raw, heads.no_noise((4000,))))
    assert np.unique(greedy, axis=0).tolist() == [pytest.approx([0.0, np.tanh(5.0)])]
    random = np.asarray(heads.sample(None, raw, heads.random(3, (4000,))))
    assert random.min() < -0.99
    assert abs(random.mean()) < 0.05  # whatever the actor says


def iterated(learner: ReplayLearner, iterations: int) -> list[ReplayState]:
    states = [learner.start()]
    for _ in range(iterations):
        states.append(learner.iterate(states[-1])[0])
    return states


def changes(states: list[ReplayState], name: str) -> list[bool]:
    values = [np.asarray(jax.tree.leaves(getattr(state.train, name))[0]) for state in states]
    return [not np.array_equal(one, other) for one, other in pairwise(values)]


def test_the_actor_and_the_targets_move_at_every_third_update_and_the_critics_at_each() -> None:
    learner = make_replay_learner(plan(**SMALL, policy_delay=3), "Pendulum-v1")
    states = iterated(learner, 8)
    # One warm-up iteration, then one update each: the third and the sixth are the actor's.
    assert changes(states, "critics") == [False, *[True] * 7]
    turns = [False, False, False, True, False, False, True, False]
    for name in ("params", "opt_state", "target_actor", "target_critics"):
        assert changes(states, name) == turns, name


def test_the_turn_of_the_actor_goes_on_from_one_iteration_to_the_next() -> None:
    """Three updates an iteration, a delay of two: the actor has learned 1 time, then 3 times, then 4."""
    learner = make_replay_learner(plan(**(SMALL | {"updates_per_iteration": 3})), "Pendulum-v1")
    counts = [int(state.train.opt_state.count) for state in iterated(learner, 4)]
    assert counts == [0, 0, 1, 3, 4]


def test_targets_move_with_the_actor_unless_stated() -> None:
    assert plan(**SMALL, policy_delay=5)["updates_per_target"] == 5
    assert plan(**SMALL, policy_delay=5, updates_per_target=1)["updates_per_target"] == 1


@pytest.mark.parametrize(
    ("line", "message", "fix"),
    [
        ("plan CartPole-v1 --algo td3", "td3 is for continuous actions", "--algo dqn"),
        ("plan Pendulum-v1 --algo sac --policy-delay 2", "is a setting of td3", "--algo td3"),
        ("plan Pendulum-v1 --algo td3 --temperature-start 0.1", "is a setting of sac", "--algo sac"),
        (
            "plan Pendulum-v1 --algo td3 --for sb3",
            "a plan of td3 cannot be written for Stable-Baselines3",
            "--algo ppo",
        ),
        ("plan Pendulum-v1 --algo td3 --for rl_games", "not td3", "--algo ppo"),
    ],
)
def test_numbers_and_trainers_that_do_not_fit_are_refused(line: str, message: str, fix: str) -> None:
    answer = refusal(line)
    assert message in answer.err
    assert fix in answer.err
