"""Stated numbers against the reference plan: which is off, by how much, and the flags that put it back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from synthetic_runs import HEALTHY_FACTS, healthy

from batchwright.api import plan
from batchwright.doctor.harm import HARMED, HEALTHY, OPEN, verdict
from batchwright.doctor.levers import LEVER_FINDINGS, stated_numbers
from batchwright.doctor.outcome_findings import general_remedies
from batchwright.doctor.reference_plan import KnownResult
from batchwright.doctor.run_history import Facts, RunHistory, facts_of
from batchwright.doctor.triage import examine


def records(returns: Any = lambda k: 20.0 + 5.0 * k) -> list[dict[str, Any]]:
    return [healthy(k) | {"episode_return": returns(k)} for k in range(40)]


def stands_still(k: int) -> float:
    return -490.0 + k % 3


def run_of(returns: Any = stands_still, **settings: Any) -> RunHistory:
    made = plan("Acrobot-v1", **{"preset": "none", "total_steps": 80_000} | settings)
    return RunHistory(records(returns), facts_of(made))


@pytest.mark.parametrize(
    ("settings", "finding", "flags"),
    [
        ({"learning_rate": 0.003}, "learning-rate-too-high", "--learning-rate 0.0003"),
        ({"learning_rate": 3e-5}, "learning-rate-too-low", "--learning-rate 0.0003"),
        ({"gamma": 0.7}, "gamma-too-myopic", "--gamma 0.99"),
        ({"gae_lambda": 0.0}, "gae-lambda-too-low", "--gae-lambda 0.95"),
        ({"clip_range": 0.02}, "clip-range-too-small", "--clip-range 0.2"),
        ({"epochs": 1}, "too-few-updates", "--epochs 10"),
        ({"minibatch_transitions": 4}, "minibatch-too-small", "--minibatch-transitions 64"),
        ({"algo": "dqn", "updates_per_target": 1}, "target-too-fast", "--updates-per-target 1000"),
        ({"algo": "dqn", "epsilon_end": 0.5}, "epsilon-too-high", "--epsilon-end 0.05"),
        ({"algo": "dqn", "huber_limit": 0.01}, "huber-limit-too-small", "--huber-limit 1"),
        ({"algo": "dqn", "epsilon_share": 1.0}, "epsilon-too-high", "--epsilon-share 0.1"),
        ({"algo": "dqn", "max_grad_norm": 0.01}, "gradient-clip-too-tight", "--max-grad-norm 10"),
    ],
)
def test_a_stated_number_far_from_its_reference_is_put_back(settings: dict[str, Any], finding: str, flags: str) -> None:
    found = {one.name: one for one in stated_numbers(run_of(**settings))}
    assert finding in found and found[finding].flags == (flags,)


@pytest.mark.parametrize(
    ("settings", "finding", "flags"),
    [
        ({"target_entropy": 0.6}, "target-entropy-too-high", "--target-entropy -1"),
        ({"target_entropy": -6.0}, "target-entropy-too-low", "--target-entropy -1"),
        ({"num_envs": 16}, "rollout-too-large", "--num-envs 1 --updates-per-iteration 32"),
        ({"algo": "td3", "exploration_noise": 1.0}, "exploration-noise-too-high", "--exploration-noise 0.1"),
    ],
)
def test_a_number_of_continuous_replay_is_put_back(settings: dict[str, Any], finding: str, flags: str) -> None:
    made = plan(
        "Pendulum-v1", **{"algo": "sac", "preset": "none", "total_steps": 80_000, "rollout_steps": 32} | settings
    )
    found = {one.name: one for one in stated_numbers(RunHistory(records(stands_still), facts_of(made)))}
    assert finding in found and found[finding].flags == (flags,)


def test_a_low_learning_rate_is_meant_where_a_run_starts_from_another_one() -> None:
    history = run_of(learning_rate=3e-5, normalize_obs=False)
    tuned = RunHistory(records(), replace(history.facts, values={**history.facts.values, "init_from": "runs/pole"}))
    assert "learning-rate-too-low" in {one.name for one in examine(history)}
    assert "learning-rate-too-low" not in {one.name for one in examine(tuned)}
    assert any("--normalize-obs" in flags for flags in general_remedies(history))
    assert not any("--normalize-obs" in flags for flags in general_remedies(tuned))


def test_numbers_that_nobody_stated_are_no_suspects() -> None:
    assert stated_numbers(run_of()) == []


def test_a_learning_rate_ten_times_too_high_is_named_first_in_a_run_that_stands_still() -> None:
    first = next(one for one in examine(run_of(learning_rate=0.003)) if one.alarm)
    assert first.name == "learning-rate-too-high"


def test_the_same_learning_rate_is_a_note_while_the_return_rises() -> None:
    rising = run_of(lambda k: -490.0 + 5.0 * k, learning_rate=0.003)
    found = examine(RunHistory(rising.records, replace(rising.facts, known_curve=None)))
    assert not [one.name for one in found if one.alarm]
    assert "learning-rate-too-high" in {one.name for one in found}


def test_it_is_an_alarm_where_the_default_is_known_to_rise_faster() -> None:
    rising = run_of(lambda k: -490.0 + 5.0 * k, learning_rate=0.003)
    assert rising.facts.known_curve is not None and rising.facts.known_curve.source == "the default"
    assert "learning-rate-too-high" in {one.name for one in examine(rising) if one.alarm}


@pytest.mark.parametrize(("last", "state"), [(460.0, HEALTHY), (60.0, HARMED)])
def test_a_preset_says_whether_a_return_is_good(last: float, state: str) -> None:
    facts = Facts(HEALTHY_FACTS, known_result=KnownResult("ppo-cartpole", 500.0, 80_000, same_env=True))
    history = RunHistory(records(lambda k: 20.0 + (last - 20.0) * k / 39), facts)
    assert verdict(history).state == state
    assert "ppo-cartpole" in verdict(history).message


@pytest.mark.parametrize(
    ("algo", "rate", "last", "alarms"),
    [
        ("dqn", 2.3e-5, 150.0, []),  # a factor of 100, and what unlucky seeds have
        ("dqn", 2.3e-4, 60.0, ["learning-rate-too-low"]),  # less than those
    ],
)
def test_a_number_is_an_alarm_only_below_what_unlucky_seeds_of_the_preset_reach(
    algo: str, rate: float, last: float, alarms: list[str]
) -> None:
    made = plan("CartPole-v1", algo=algo, preset="dqn-cartpole", learning_rate=rate)
    rising = [one | {"env_steps": 2000 * (k + 1)} for k, one in enumerate(records(lambda k: 20 + (last - 20) * k / 39))]
    facts = replace(facts_of(made), known_curve=None)
    found = examine(RunHistory([{**one, "kl": None, "entropy": None} for one in rising], facts))
    assert [one.name for one in found if one.alarm and one.name in LEVER_FINDINGS] == alarms


@pytest.mark.parametrize(("last", "alarms"), [(150.0, []), (120.0, ["constant-observation"])])
def test_a_sensor_that_never_changes_is_an_alarm_below_what_unlucky_seeds_reach(last: float, alarms: list[str]) -> None:
    made = plan("CartPole-v1", algo="dqn", preset="dqn-cartpole")
    dead = {"kl": None, "entropy": None, "obs_constant_entries": 1.0, "obs_constant_entry": 1.0}
    rising = records(lambda k: 20 + (last - 20) * k / 39)
    rising = [one | dead | {"env_steps": 2000 * (k + 1)} for k, one in enumerate(rising)]
    found = examine(RunHistory(rising, replace(facts_of(made), known_curve=None)))
    assert [one.name for one in found if one.alarm] == alarms


@pytest.mark.parametrize(("last", "state"), [(4000.0, OPEN), (480.0, HEALTHY)])
def test_in_another_environment_only_returns_of_the_same_size_are_as_good_as_the_preset(
    last: float, state: str
) -> None:
    facts = Facts(HEALTHY_FACTS, known_result=KnownResult("ppo-cartpole", 500.0, 80_000, same_env=False))
    assert verdict(RunHistory(records(lambda k: 20.0 + (last - 20) * k / 39), facts)).state == state


def test_the_reference_of_a_run_with_a_preset_is_that_preset() -> None:
    facts = facts_of(plan("CartPole-v1", learning_rate=0.01))
    assert facts.reference["learning_rate"] == 0.001 and facts.pinned == {"learning_rate"}
    assert facts.known_result is not None and facts.known_result.reached == 500.0


def test_every_finding_of_a_stated_number_has_its_row_in_the_documentation() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    assert [name for name in sorted(LEVER_FINDINGS) if f"`{name}`" not in page] == []
