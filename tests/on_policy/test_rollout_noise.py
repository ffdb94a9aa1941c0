"""The gradient's noise between environments: by hand, without bias, in which runs it is measured."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import batchwright
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.on_policy.rollout_noise import between_groups, groups_of, measures_noise
from small_runs import record, start

NAMES = {f"{role}_gradient_{name}_by_env" for role in ("policy", "value") for name in ("signal", "noise")}


def test_two_groups_by_hand() -> None:
    """Gradients 3 and 1 of groups of 50 rows: mean 2, variance of a group 2. Signal 4 - 2 / 2, noise 50 x 2."""
    squares_GR = jnp.array([[9.0, 9.0], [1.0, 1.0]])
    found = between_groups(squares_GR, jnp.array([4.0, 4.0]), 100.0)
    assert float(found["policy_gradient_signal_by_env"]) == pytest.approx(3.0)
    assert float(found["value_gradient_noise_by_env"]) == pytest.approx(100.0)


def test_it_is_unbiased_over_many_rollouts() -> None:
    """20 numbers with a mean of 0.5, and a variance of 6 in a group of 32 rows: signal 20 x 0.25, noise 20 x 6 x 32."""
    rng, found = np.random.default_rng(0), []
    for _ in range(4000):
        groups_GP = 0.5 + 6**0.5 * rng.standard_normal((8, 20))
        squares = np.square(groups_GP).sum(1)
        mean = np.square(groups_GP.mean(0)).sum()
        found.append(between_groups(np.stack([squares, squares], 1), np.array([mean, mean]), 8 * 32))
    names = [f"policy_gradient_{name}_by_env" for name in ("signal", "noise")]
    signal, noise = (np.mean([float(one[name]) for one in found]) for name in names)
    assert signal == pytest.approx(5.0, rel=0.05)
    assert noise == pytest.approx(20 * 6 * 32, rel=0.02)


def test_groups_are_equal_and_at_most_eight() -> None:
    assert [groups_of(rows) for rows in (2048, 7 * 11, 100, 13, 9)] == [8, 7, 5, 1, 3]


def test_nothing_is_said_of_a_single_group() -> None:
    assert between_groups(jnp.ones((1, 2)), jnp.ones(2), 13.0) == {}


@pytest.mark.parametrize(
    ("measured", "settings"),
    [
        (True, {"total_steps": 2048 * 100}),
        (False, {"total_steps": 2048 * 99}),
        (False, {"total_steps": 2048 * 200, "memory": "gru"}),
        (False, {"total_episodes": 10_000, "rollout_episodes": 10}),
    ],
)
def test_long_runs_of_single_transitions_measure_it(measured: bool, settings: dict[str, object]) -> None:
    planned = batchwright.plan("CartPole-v1", preset="none", num_envs=8, **settings)
    assert measures_noise(OnPolicySettings.from_plan(planned)) is measured


def test_every_eighth_record_of_a_long_run_has_it_and_it_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {"total_steps": 64 * 100, "preset": "none"}
    start(tmp_path / "measured", **long)
    with_it = record(tmp_path / "measured")
    assert [r["iteration"] for r in with_it if set(r) >= NAMES] == list(range(7, 100, 8))
    monkeypatch.setattr("batchwright.on_policy.rollout_noise.measures_noise", lambda settings: False)
    start(tmp_path / "plain", **long)
    without = record(tmp_path / "plain")
    assert not any(NAMES & set(r) for r in without)
    assert [r["parameters_digest"] for r in with_it] == [r["parameters_digest"] for r in without]
