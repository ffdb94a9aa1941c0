"""Advantages and returns against figures worked out by hand, for every way a step can end."""

# T steps, N environments, K reward components.

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.learn.returns import explained_variance, gae, normalise_advantages, running_returns

GAMMA, GAE_LAMBDA = 0.5, 0.5


def column(*numbers: float) -> np.ndarray:
    """[T, 1, 1]: one environment, one component."""
    return np.array(numbers, np.float32)[:, None, None]


def advantages(
    reward: Any, value: Any, terminated: Any, truncated: Any, gamma: float = GAMMA, gae_lambda: float = GAE_LAMBDA
) -> list[float]:
    """Advantages of one environment; `value` has one entry more, the one to bootstrap from."""
    ended = np.array(terminated, bool) | np.array(truncated, bool)
    found = gae(
        column(*reward),
        column(*value[:-1]),
        column(*value[1:]),
        np.array(terminated, bool)[:, None],
        ended[:, None],
        gamma,
        gae_lambda,
    )
    return [float(x) for x in np.asarray(found)[:, 0, 0]]


def test_without_an_end_every_step_bootstraps_and_is_traced_back() -> None:
    # delta = r + 0.5 V' - V:  1 + 0.5*4 - 2 = 1;  2 + 0.5*6 - 4 = 1;  3 + 0.5*8 - 6 = 1
    # A2 = 1;  A1 = 1 + 0.25*1 = 1.25;  A0 = 1 + 0.25*1.25 = 1.3125
    assert advantages([1, 2, 3], [2, 4, 6, 8], [0, 0, 0], [0, 0, 0]) == [1.3125, 1.25, 1.0]


def test_a_termination_has_no_future() -> None:
    # Step 1 terminates: delta1 = 2 - 4 = -2 (V' = 6 is not used), and nothing of step 2 flows back.
    # A2 = 3 + 0.5*8 - 6 = 1;  A1 = -2;  A0 = 1 + 0.25*(-2) = 0.5
    assert advantages([1, 2, 3], [2, 4, 6, 8], [0, 1, 0], [0, 0, 0]) == [0.5, -2.0, 1.0]


def test_a_time_limit_bootstraps_from_the_true_last_observation_and_is_cut() -> None:
    # Step 1 is truncated: delta1 = 2 + 0.5*6 - 4 = 1 with V(last observation) = 6; nothing of step 2 flows back.
    # A2 = 1;  A1 = 1;  A0 = 1 + 0.25*1 = 1.25
    assert advantages([1, 2, 3], [2, 4, 6, 8], [0, 0, 0], [0, 1, 0]) == [1.25, 1.0, 1.0]


def test_where_both_flags_are_set_the_termination_wins() -> None:
    both = advantages([1, 2, 3], [2, 4, 6, 8], [0, 1, 0], [0, 1, 0])
    assert both == advantages([1, 2, 3], [2, 4, 6, 8], [0, 1, 0], [0, 0, 0])


@pytest.mark.parametrize(("flags", "last"), [(((0, 1), (0, 0)), -2.0), (((0, 0), (0, 1)), 1.0)])
def test_an_end_in_the_last_row(flags: Any, last: float) -> None:
    # Terminated: 2 - 4 = -2;  truncated: 2 + 0.5*6 - 4 = 1.  A0 = 1 + 0.25*A1
    assert advantages([1, 2], [2, 4, 6], *flags) == [1 + 0.25 * last, last]


def test_the_reset_row_after_an_end_reaches_no_transition() -> None:
    """Next-step form: row 1 ends, row 2 is the reset. Whatever stands in row 2, rows 0, 1 and 3 stay as they are."""
    rows = [advantages([1, 2, junk, 3], [2, 4, 6, 8, 2], [0, 0, 0, 0], [0, 1, 0, 0]) for junk in (0, 1000)]
    # A3 = 3 + 0.5*2 - 8 = -4;  A1 = 2 + 0.5*6 - 4 = 1;  A0 = 1 + 0.25 = 1.25
    for row in rows:
        assert [row[0], row[1], row[3]] == [1.25, 1.0, -4.0]


def test_lambda_0_is_one_step_and_lambda_1_the_whole_return() -> None:
    one = advantages([1, 2, 3], [2, 4, 6, 8], [0, 0, 0], [0, 0, 0], gae_lambda=0.0)
    assert one == [1.0, 1.0, 1.0]
    # Returns with gamma 0.5: 3 + 0.5*8 = 7;  2 + 3.5 = 5.5;  1 + 2.75 = 3.75; minus values 6, 4, 2
    whole = advantages([1, 2, 3], [2, 4, 6, 8], [0, 0, 0], [0, 0, 0], gae_lambda=1.0)
    assert whole == [1.75, 1.5, 1.0]


compiled_gae = jax.jit(gae)


def sb3_advantages(
    rewards: Any, values: Any, episode_starts: Any, last_values: Any, dones: Any, gamma: float, gae_lambda: float
) -> Any:
    """Stable-Baselines3's RolloutBuffer.compute_returns_and_advantage, as published (2.x), on [T, N] arrays."""
    advantages = np.zeros_like(rewards)
    last_gae_lam = 0
    steps = len(rewards)
    for step in reversed(range(steps)):
        if step == steps - 1:
            next_non_terminal = 1.0 - dones.astype(np.float32)
            next_values = last_values
        else:
            next_non_terminal = 1.0 - episode_starts[step + 1]
            next_values = values[step + 1]
        delta = rewards[step] + gamma * next_values * next_non_terminal - values[step]
        last_gae_lam = delta + gamma * gae_lambda * next_non_terminal * last_gae_lam
        advantages[step] = last_gae_lam
    return advantages


@given(st.integers(0, 2**31), st.floats(0, 1), st.floats(0, 1))
def test_agrees_with_stable_baselines3(seed: int, gamma: float, gae_lambda: float) -> None:
    """Same-step form with time limits; SB3 adds gamma x V(last observation) to the reward where we bootstrap."""
    steps, envs = 37, 5
    draw = np.random.default_rng(seed)
    reward, value, final = (draw.normal(size=(steps, envs)).astype(np.float32) for _ in range(3))
    bootstrap = draw.normal(size=envs).astype(np.float32)
    terminated = draw.random((steps, envs)) < 0.15
    truncated = ~terminated & (draw.random((steps, envs)) < 0.15)
    ended = terminated | truncated
    starts = np.concatenate([np.zeros((1, envs), bool), ended[:-1]]).astype(np.float32)
    theirs = sb3_advantages(reward + gamma * final * truncated, value, starts, bootstrap, ended[-1], gamma, gae_lambda)
    successor = np.where(ended, final, np.concatenate([value[1:], bootstrap[None]]))
    ours = compiled_gae(reward[..., None], value[..., None], successor[..., None], terminated, ended, gamma, gae_lambda)
    np.testing.assert_allclose(np.asarray(ours)[..., 0], theirs, rtol=2e-4, atol=2e-4)


def test_components_and_environments_do_not_mix() -> None:
    draw = np.random.default_rng(0)
    reward, value, successor = (draw.normal(size=(6, 3, 2)).astype(np.float32) for _ in range(3))
    terminated, truncated = (draw.random((6, 3)) < 0.3 for _ in range(2))
    together = gae(reward, value, successor, terminated, terminated | truncated, 0.9, 0.8)
    assert together.shape == (6, 3, 2)
    for n in range(3):
        for k in range(2):
            alone = gae(
                *(x[:, n : n + 1, k : k + 1] for x in (reward, value, successor)),
                terminated[:, n : n + 1],
                (terminated | truncated)[:, n : n + 1],
                0.9,
                0.8,
            )
            np.testing.assert_allclose(together[:, n, k], alone[:, 0, 0], rtol=1e-5, atol=1e-6)


def test_running_returns_begin_anew_after_every_end_and_carry_over() -> None:
    # gamma 0.5, carried in: 4.  1 + 2 = 3;  2 + 1.5 = 3.5, ends;  4 + 0 = 4;  carried out: 4
    totals, last = running_returns(
        np.float32([[1], [2], [4]]), np.array([[False], [True], [False]]), np.float32([4]), 0.5
    )
    assert np.asarray(totals)[:, 0].tolist() == [3.0, 3.5, 4.0]
    assert np.asarray(last).tolist() == [4.0]


def test_running_returns_cut_between_two_rollouts_are_those_of_one() -> None:
    draw = np.random.default_rng(1)
    reward, ended = draw.normal(size=(10, 2)).astype(np.float32), draw.random((10, 2)) < 0.3
    whole, end = running_returns(reward, ended, np.zeros(2, np.float32), 0.9)
    first, middle = running_returns(reward[:4], ended[:4], np.zeros(2, np.float32), 0.9)
    second, last = running_returns(reward[4:], ended[4:], middle, 0.9)
    np.testing.assert_allclose(np.concatenate([first, second]), whole, rtol=1e-6)
    np.testing.assert_allclose(last, end, rtol=1e-6)


def test_normalised_advantages_have_mean_0_and_spread_1_over_the_valid_rows_alone() -> None:
    # Valid rows 1, 3: mean 2, spread 1.
    found = normalise_advantages(np.float32([1, 99, 3]), np.float32([1, 0, 1]))
    np.testing.assert_allclose(found, [-1, 0, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("advantage", "weight", "wanted"),
    [
        ([5, 9], [1, 0], [0, 0]),  # one row: centred, not divided by 0
        ([5, 9], [0, 0], [0, 0]),  # none
        ([4, 4, 4], [1, 1, 1], [0, 0, 0]),  # no spread
    ],
)
def test_too_few_rows_or_no_spread_are_only_centred(advantage: Any, weight: Any, wanted: Any) -> None:
    found = normalise_advantages(np.float32(advantage), np.float32(weight))
    assert np.asarray(found).tolist() == wanted


def test_explained_variance_by_hand() -> None:
    # Targets 1, 3 (variance 1), errors 0, 1 (variance 0.25): 0.75. The third row has no weight.
    found = explained_variance(np.float32([1, 2, 50]), np.float32([1, 3, 7]), np.float32([1, 1, 0]))
    assert float(found) == 0.75
    assert float(explained_variance(np.float32([1, 2]), np.float32([5, 5]), np.float32([1, 1]))) == 0.0
