"""The public buffer: statistics and sizes by hand, advantages by hand, components, and misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import batchwright
from batchwright import TrajectoryBuffer, UserError
from batchwright.store.trajectory_buffer import KEYS


def filled(episodes: int = 3, steps: int = 5, **ends: Any) -> TrajectoryBuffer:
    """Steps that are numbered through, with reward 1."""
    buffer = TrajectoryBuffer()
    number = 0
    for _ in range(episodes):
        buffer.start_episode()
        for _ in range(steps):
            buffer.add_step(np.full(2, number), number, 1.0, 0.5, -0.1)
            number += 1
        buffer.finish_episode(**({"final_values": 0.0, "terminated": True, "success": True} | ends))
    return buffer


def test_three_episodes_of_five_steps_give_the_figures_of_the_seed() -> None:
    buffer = filled()
    assert buffer.stats() == {
        "num_episodes": 3,
        "avg_reward": 1.0,
        "avg_length": 5.0,
        "success_rate": 1.0,
        "total_steps": 15,
    }
    buffer.compute_returns_and_advantages_for_all_episodes(gamma=0.99, gae_lambda=0.95)
    minibatches = buffer.create_minibatches(8)
    assert [len(minibatch["states"]) for minibatch in minibatches] == [8, 7]
    assert tuple(minibatches[0]) == KEYS
    assert KEYS == ("states", "actions", "rewards", "values", "log_probs", "returns", "advantages")


def test_an_episode_is_added_as_one_tuple_as_by_its_parts() -> None:
    """`episode_data = collect_episode(); buffer.add_episode(episode_data)`: a cut episode keeps its final value."""
    episode = (np.zeros((3, 2)), [0, 1, 0], [1.0, 1.0, 1.0], [0.5, 0.5, 0.5], [-0.1] * 3, 2.0, False, True)
    whole, parts = TrajectoryBuffer(), TrajectoryBuffer()
    whole.add_episode(episode)
    parts.add_episode(*episode)
    assert whole.stats() == parts.stats()
    assert whole.stats()["success_rate"] == 1.0
    for buffer in (whole, parts):
        buffer.compute_returns_and_advantages_for_all_episodes(gamma=0.5, gae_lambda=1.0)
        # 1 + 0.5 (1 + 0.5 (1 + 0.5 x 2)) = 2: the value behind the cut counts.
        assert buffer.data()["returns"][0] == pytest.approx(2.0)


@pytest.mark.parametrize("given", [((np.zeros(3), [0, 1, 0], [1.0, 1.0, 1.0]),), (np.zeros(3),), ({"states": [1]},)])
def test_an_episode_in_another_form_is_refused_with_the_eight_parts(given: Any) -> None:
    with pytest.raises(UserError, match="one tuple of 8 parts"):
        TrajectoryBuffer().add_episode(*given)
    with pytest.raises(UserError, match="no values and no log_probs"):
        TrajectoryBuffer().add_episode([1], [2], [3.0])


@pytest.mark.parametrize(
    ("size", "sizes"), [(64, [15]), (999_999, [15]), (4, [4, 4, 4, 3]), (1, [3, 2, 2, 2, 2, 2, 2])]
)
def test_every_step_is_in_one_minibatch_and_sizes_differ_by_at_most_one(size: int, sizes: list[int]) -> None:
    buffer = filled()
    buffer.compute_returns_and_advantages_for_all_episodes()
    for _ in range(2):
        minibatches = buffer.create_minibatches(size)
        assert [len(minibatch["actions"]) for minibatch in minibatches] == sizes
        actions = np.concatenate([minibatch["actions"] for minibatch in minibatches])
        assert sorted(actions.tolist()) == list(range(15))
        states = np.concatenate([minibatch["states"] for minibatch in minibatches])
        np.testing.assert_array_equal(states[:, 0], actions)


def test_minibatches_come_in_a_fresh_order_that_the_seed_repeats() -> None:
    one, same = filled(), filled()
    for buffer in (one, same):
        buffer.compute_returns_and_advantages_for_all_episodes()
    first, second = (one.create_minibatches(15)[0]["actions"].tolist() for _ in range(2))
    assert first != second
    assert same.create_minibatches(15)[0]["actions"].tolist() == first


@pytest.mark.parametrize(("terminated", "last"), [(True, 3.0 - 2.0), (False, 3.0 + 0.5 * 4.0 - 2.0)])
def test_a_cut_episode_bootstraps_and_a_terminated_one_does_not(terminated: bool, last: float) -> None:
    """Rewards 1, 3, values 1, 2, gamma 0.5, lambda 0.5, final value 4; the first delta is 1 + 0.5 x 2 - 1 = 1."""
    buffer = TrajectoryBuffer()
    buffer.add_episode([0, 1], [0, 0], [1.0, 3.0], [1.0, 2.0], [0, 0], final_values=4.0, terminated=terminated)
    buffer.compute_returns_and_advantages_for_all_episodes(gamma=0.5, gae_lambda=0.5)
    found = buffer.data()
    np.testing.assert_allclose(found["advantages"], [1.0 + 0.25 * last, last])
    np.testing.assert_allclose(found["returns"], found["advantages"] + found["values"])


def test_advantages_do_not_cross_from_one_episode_into_the_next() -> None:
    alone, together = TrajectoryBuffer(), TrajectoryBuffer()
    alone.add_episode([0], [0], [1.0], [0.0], [0.0])
    for reward in (1.0, 100.0):
        together.add_episode([0], [0], [reward], [0.0], [0.0])
    for buffer in (alone, together):
        buffer.compute_returns_and_advantages_for_all_episodes()
    assert together.data()["advantages"][0] == alone.data()["advantages"][0] == 1.0


@pytest.mark.parametrize("as_dict", [True, False])
def test_components_are_kept_apart_under_their_names_or_as_a_vector(as_dict: bool) -> None:
    """Component by component the figures are those of two buffers of plain numbers."""
    rewards, values, final = [(1.0, 10.0), (2.0, 20.0)], [(0.5, 5.0), (0.25, 2.5)], (3.0, 30.0)
    form: Callable[[Any], Any] = (lambda pair: dict(zip(("near", "far"), pair, strict=True))) if as_dict else np.array
    buffer = TrajectoryBuffer()
    buffer.add_episode([0, 1], [0, 1], [*map(form, rewards)], [*map(form, values)], [0, 0], form(final), False)
    buffer.compute_returns_and_advantages_for_all_episodes(0.9, 0.8)
    for k, name in enumerate(("near", "far")):
        plain = TrajectoryBuffer()
        column = [[pair[k] for pair in pairs] for pairs in (rewards, values)]
        plain.add_episode([0, 1], [0, 1], *column, [0, 0], final[k], False)
        plain.compute_returns_and_advantages_for_all_episodes(0.9, 0.8)
        for key in ("rewards", "values", "returns", "advantages"):
            found = buffer.data()[key][name] if as_dict else buffer.data()[key][:, k]
            np.testing.assert_allclose(found, plain.data()[key])
    # (1 + 10 + 2 + 20) / 2 steps.
    assert buffer.stats()["avg_reward"] == 16.5


def test_empty_and_one_step_episodes_are_counted_and_leave_nothing_odd() -> None:
    buffer = filled(episodes=1, steps=0)
    buffer.add_episode([0], [0], [2.0], [0.5], [0.0], success=False)
    assert buffer.stats() == {
        "num_episodes": 2,
        "avg_reward": 2.0,
        "avg_length": 0.5,
        "success_rate": 0.5,
        "total_steps": 1,
    }
    buffer.compute_returns_and_advantages_for_all_episodes()
    (minibatch,) = buffer.create_minibatches(8)
    assert minibatch["advantages"].tolist() == [1.5]
    assert set(TrajectoryBuffer().stats().values()) == {0}


def test_states_and_actions_may_be_dicts_and_are_copies() -> None:
    buffer, state = TrajectoryBuffer(), {"arm": np.zeros(2), "eye": np.zeros((2, 2), np.uint8)}
    buffer.start_episode()
    for number in range(3):
        state["arm"][:] = number
        buffer.add_step(state, {"go": number}, 0.0, 0.0, 0.0)
    buffer.finish_episode()
    buffer.compute_returns_and_advantages_for_all_episodes()
    found = buffer.data()
    assert found["states"]["arm"][:, 0].tolist() == [0, 1, 2]
    assert found["states"]["eye"].dtype == np.uint8
    assert found["actions"]["go"].tolist() == [0, 1, 2]


def test_clear_forgets_everything() -> None:
    buffer = filled()
    buffer.start_episode()
    buffer.clear()
    assert buffer.stats()["num_episodes"] == 0
    buffer.start_episode()


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda b: b.add_step(0, 0, 0, 0, 0), "no episode was started"),
        (lambda b: b.finish_episode(0, True, True), "no episode was started"),
        (lambda b: [b.start_episode(), b.start_episode()], "is not finished"),
        (lambda b: b.create_minibatches(8), "are not computed"),
        (lambda b: b.compute_returns_and_advantages_for_all_episodes(), "has no steps"),
        (lambda b: b.compute_returns_and_advantages_for_all_episodes(gamma=1.5), "not between 0 and 1"),
        (lambda b: b.add_episode([0], [0, 1], [0], [0], [0]), "differ in length"),
        (lambda b: b.create_minibatches(0), "is empty"),
        (lambda b: [b.add_episode([0], [0], [np.nan], [0], [0]), _compute(b)], "not finite"),
        (lambda b: [b.add_episode([0], [0], [{"a": 1}], [{"b": 1}], [0]), _compute(b)], "'a' is missing"),
        (lambda b: [b.add_episode([0], [0], [np.ones(2)], [1.0], [0]), _compute(b)], "one value per component"),
    ],
)
def test_misuse_is_one_clear_message(misuse: Callable[[TrajectoryBuffer], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        misuse(TrajectoryBuffer())


def test_new_episodes_after_a_computation_ask_for_a_new_one() -> None:
    buffer = filled()
    buffer.compute_returns_and_advantages_for_all_episodes()
    buffer.add_episode([np.zeros(2)], [0], [1.0], [0.0], [0.0])
    with pytest.raises(UserError, match="not computed"):
        buffer.create_minibatches(8)
    assert "TrajectoryBuffer" in batchwright.__all__


def _compute(buffer: TrajectoryBuffer) -> None:
    buffer.compute_returns_and_advantages_for_all_episodes()
