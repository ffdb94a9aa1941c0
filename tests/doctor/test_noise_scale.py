"""The gradient noise scale: noise over signal, with its spread, and unknown where it cannot be told."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_runs import history

from batchwright.doctor.batch_findings import rollout_too_small
from batchwright.doctor.noise_scale import noise_scale

NOISY = {"policy_gradient_signal": 0.02, "policy_gradient_noise": 40.0}


def test_it_is_the_ratio_of_means_and_not_the_mean_of_ratios() -> None:
    """Signals of 0.01 and 0.03 with a noise of 40: 40 / 0.02 = 2000; the mean of the ratios would be 2667."""
    found = noise_scale(history(policy_gradient_signal=lambda k: 0.01 + 0.02 * (k % 2), policy_gradient_noise=40.0))
    assert found is not None
    assert found.transitions == pytest.approx(2000.0)
    assert found.low <= found.transitions <= found.high


def test_its_spread_covers_the_truth_in_most_runs() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        signal = 0.02 + 0.02 * rng.standard_normal(40)
        found = noise_scale(history(policy_gradient_signal=lambda k, s=signal: float(s[k]), policy_gradient_noise=40.0))
        covered += found is not None and found.low <= 2000.0 <= found.high
    assert covered >= 85


def test_a_signal_that_cannot_be_told_from_nothing_is_unknown() -> None:
    assert noise_scale(history(policy_gradient_signal=lambda k: 0.01 * (-1) ** k, policy_gradient_noise=40.0)) is None
    assert noise_scale(history(policy_gradient_signal=-0.01, policy_gradient_noise=40.0)) is None
    assert noise_scale(history(policy_gradient_signal=None, policy_gradient_noise=None)) is None


def test_iterations_that_a_stop_cut_short_count_for_nothing() -> None:
    whole = noise_scale(history(**NOISY))
    every_second = {name: lambda k, v=value: v if k % 2 else 0.0 for name, value in NOISY.items()}
    cut = noise_scale(history(**every_second))
    assert whole is not None and cut is not None
    assert cut.transitions == pytest.approx(whole.transitions)


def test_policy_and_value_have_their_own() -> None:
    run = history(value_gradient_signal_by_env=1e6, value_gradient_noise_by_env=1e7)
    policy, value = noise_scale(run), noise_scale(run, "value")
    assert policy is not None and value is not None
    assert value.transitions == pytest.approx(10.0)
    assert policy.transitions > 100.0


def test_what_was_measured_between_environments_counts_before_minibatches() -> None:
    between = {"policy_gradient_signal_by_env": 0.1, "policy_gradient_noise_by_env": 40.0}
    found = noise_scale(history(**NOISY, **between))
    assert found is not None
    assert found.transitions == pytest.approx(400.0)
    few = {name: lambda k, v=value: v if k in (7, 15) else None for name, value in between.items()}
    rarely = noise_scale(history(**NOISY, **few))
    assert rarely is not None
    assert rarely.transitions == pytest.approx(2000.0)


def test_of_the_values_minibatches_of_one_rollout_say_nothing() -> None:
    assert noise_scale(history(value_gradient_signal=1e6, value_gradient_noise=1e7), "value") is None


def test_advice_on_the_rollout_follows_the_policy_and_says_its_spread() -> None:
    small = {"rollout_transitions": 1024, "rollout_steps": 128}
    noisy = {"policy_gradient_signal": lambda k: 1e-4 + 1e-5 * (k % 3), "policy_gradient_noise": 50.0}
    found = rollout_too_small(history(small, **noisy))
    assert found is not None
    assert "noise scale of the policy's gradient is" in found.message and " to " in found.message
    assert rollout_too_small(history(small, value_gradient_signal=1e-4, value_gradient_noise=50.0)) is None
