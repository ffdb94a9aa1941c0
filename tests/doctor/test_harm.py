"""Which runs are harmed, and which findings are alarms in runs whose return is neither good nor bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from synthetic_runs import HEALTHY_FACTS, healthy, history

from batchwright.api import plan
from batchwright.doctor.harm import HARMED, HEALTHY, OPEN, SHORT, is_slow, verdict
from batchwright.doctor.reference_plan import KnownCurve, KnownResult, known_curve
from batchwright.doctor.run_history import Facts, RunHistory, facts_of
from batchwright.doctor.triage import examine

Returns = Callable[[int], float]


def soon(k: int) -> float:
    """All of the gain in the first half."""
    return 20.0 + 10.0 * min(k, 20)


def late(k: int) -> float:
    """Most of the gain at the end, where it goes on."""
    return 20.0 + 10.0 * max(0, k - 19)


def swinging(k: int) -> float:
    """Up, and halfway down again."""
    return 20.0 + 200.0 * (k / 20 if k < 20 else max(0.4, 2 - k / 20))


def alarms(run: RunHistory) -> list[str]:
    return [one.name for one in examine(run) if one.alarm]


def of_preset(algo: str, last: float, same_env: bool = True) -> RunHistory:
    """A return that rises steadily to `last`, beside a preset that reached 500 from 20."""
    facts = Facts(
        HEALTHY_FACTS | {"algo": algo},
        from_preset=frozenset({"learning_rate"}),
        known_result=KnownResult(f"{algo}-cartpole", 500.0, 80_000, same_env),
    )
    return RunHistory([healthy(k) | {"episode_return": 20.0 + (last - 20.0) * k / 39} for k in range(40)], facts)


@pytest.mark.parametrize(("returns", "slow"), [(soon, False), (late, True), (lambda k: 20.0 + 5.0 * k, True)])
def test_a_run_is_slow_where_its_return_rises_late_and_still(returns: Returns, slow: bool) -> None:
    assert is_slow(history(episode_return=returns)) is slow


def test_random_actions_at_first_make_no_run_slow() -> None:
    def returns(k: int) -> float:
        return 20.0 + 20.0 * min(max(0, k - 20), 8)

    assert is_slow(history(episode_return=returns))
    assert not is_slow(history({"warmup_steps": 20_000, "total_steps": 40_000}, episode_return=returns))


@pytest.mark.parametrize(("spread", "slow"), [(2.0, False), (40.0, True)])
def test_a_run_that_has_risen_by_less_than_its_first_episodes_differ_is_slow(spread: float, slow: bool) -> None:
    run = history(episode_return=lambda k: 20.0 + 10.0 * min(k, 4) / 4 + k / 10, episode_return_std=spread)
    assert is_slow(run) is slow


def test_a_task_that_is_known_needs_two_returns() -> None:
    made = plan("LunarLander-v3", algo="reinforce", preset="none", total_steps=4096)
    records = [healthy(k) | {"episode_return": -190.0 + k} for k in range(2)]
    assert verdict(RunHistory(records, facts_of(made))).state == SHORT


@pytest.mark.parametrize("returns", [soon, late])
def test_an_entropy_that_stays_at_its_highest_is_an_alarm_where_the_return_has_settled_too(returns: Returns) -> None:
    run = history({"entropy_start": 0.3}, entropy=0.69, entropy_coef=0.3, episode_return=returns)
    assert alarms(run) == ["entropy-coef-too-high"]


@pytest.mark.parametrize(("stated", "named"), [(True, ["entropy-coef-too-high"]), (False, [])])
def test_a_stated_bonus_that_holds_the_entropy_of_choices_at_four_fifths_is_an_alarm(
    stated: bool, named: list[str]
) -> None:
    facts = Facts(HEALTHY_FACTS | {"entropy_start": 0.3}, pinned=frozenset({"entropy_start"} if stated else ()))
    entropy = {"entropy": lambda k: 0.69 if k < 5 else 0.55, "entropy_coef": 0.3, "episode_return": soon}
    assert alarms(history(facts.values, **entropy) if not stated else _with(facts, **entropy)) == named


def _with(facts: Facts, **metrics: Any) -> RunHistory:
    """A healthy run with other facts and metrics."""
    made = history(facts.values, **metrics)
    return RunHistory(made.records, facts)


def test_a_high_kl_alone_is_no_alarm_while_the_return_rises() -> None:
    run = history(kl=0.5, clip_fraction=0.3, episode_return=late)
    assert "kl-too-high" in {one.name for one in examine(run)} and "kl-too-high" not in alarms(run)


@pytest.mark.parametrize("returns", [soon, late])
def test_a_number_that_makes_learning_slow_is_an_alarm_in_a_slow_run(returns: Returns) -> None:
    found = alarms(history({"rollout_transitions": 65_536, "iterations": 3}, episode_return=returns))
    assert found == (["rollout-too-large"] if returns is late else [])


def test_a_number_that_does_not_make_learning_slow_stays_a_note_in_a_slow_run() -> None:
    run = history({"clip_range": 2.0}, episode_return=late)
    assert "clip-range-too-large" in {one.name for one in examine(run)} and alarms(run) == []


def test_a_run_whose_last_episodes_are_all_its_best_is_not_slow() -> None:
    longer = {"episode_return": lambda k: min(200.0, late(k)), "episode_length": lambda k: min(500.0, 20.0 + 25 * k)}
    assert not is_slow(history(**longer, episode_return_std=0.0))
    assert is_slow(history(**longer, episode_return_std=40.0))


@pytest.mark.parametrize(("kl", "named"), [(4.0, ["clip-range-too-large"]), (0.01, [])])
def test_a_number_whose_consequence_is_recorded_is_an_alarm_where_the_return_falls(kl: float, named: list[str]) -> None:
    falling = history({"clip_range": 1.0}, kl=kl, episode_return=lambda k: 20.0 + 10.0 * min(k, 30 - 0.4 * k))
    assert verdict(falling).state == OPEN
    assert [name for name in alarms(falling) if name != "kl-too-high"] == named


CURVE = KnownCurve("preset ppo-cartpole", (2_000, 82_000, 400_000), (20.0, 300.0, 500.0))


@pytest.mark.parametrize(("last", "state"), [(310.0, HEALTHY), (245.0, OPEN), (180.0, HARMED)])
def test_a_return_is_compared_with_healthy_runs_after_as_many_steps(last: float, state: str) -> None:
    run = RunHistory(of_preset("ppo", last).records, Facts(HEALTHY_FACTS, known_curve=CURVE))
    assert run.highest("env_steps") == 81_920
    assert verdict(run).state == state
    assert "preset ppo-cartpole had at least 300 after as many" in verdict(run).message


def test_a_run_below_others_of_its_kind_is_an_alarm_without_any_other_finding() -> None:
    run = RunHistory(of_preset("ppo", 80.0).records, Facts(HEALTHY_FACTS, known_curve=CURVE))
    assert alarms(run) == ["below-preset"]


def test_known_curves_are_those_of_the_same_environment_algorithm_and_preset() -> None:
    found = known_curve(plan("CartPole-v1", total_steps=40_000))
    assert found is not None and found.source == "preset ppo-cartpole"
    assert found.lowest_after(1) is None and 300 < (found.lowest_after(60_000) or 0) <= 500
    bare = known_curve(plan("CartPole-v1", preset="none", total_steps=40_000))
    assert bare is not None and bare.source == "the default"
    assert known_curve(plan("IdentityDiscrete-v0", preset="none", total_steps=40_000)) is None
    shorter = plan(obs_shape=4, action_size=2, preset="ppo-cartpole", total_steps=40_000)
    assert known_curve(shorter) is None  # no environment is named


@pytest.mark.parametrize(("algo", "state"), [("ppo", HARMED), ("sac", HARMED), ("dqn", OPEN)])
def test_unlucky_seeds_of_algorithms_whose_seeds_differ_are_not_harmed(algo: str, state: str) -> None:
    assert verdict(of_preset(algo, 270.0)).state == state
    assert verdict(of_preset(algo, 120.0)).state == HARMED
    assert verdict(of_preset(algo, 450.0)).state == HEALTHY


def test_a_return_that_falls_is_no_harm_where_it_is_as_good_as_that_of_unlucky_seeds() -> None:
    facts = HEALTHY_FACTS | {"algo": "dqn"}
    records = [healthy(k) | {"episode_return": 2.5 * swinging(k)} for k in range(40)]
    known = Facts(facts, known_result=KnownResult("dqn-cartpole", 500.0, 80_000, same_env=True))
    assert verdict(RunHistory(records, known)).state == OPEN
    assert verdict(RunHistory(records, Facts(facts))).state == HARMED


def test_an_explained_variance_alone_makes_a_long_horizon_no_alarm() -> None:
    run = history({"gamma": 0.99999}, explained_variance=0.1, episode_return=soon)
    assert "gamma-too-long" in {one.name for one in examine(run)} and alarms(run) == []


def test_a_deterministic_policy_is_no_alarm_where_the_return_stays_at_its_best() -> None:
    entropy = {"entropy": lambda k: 0.69 if k < 8 else 0.001}
    settled = history(episode_return=lambda k: 20.0 + 20.0 * min(k, 8), **entropy)
    assert "entropy-collapse" in {one.name for one in examine(settled)} and alarms(settled) == []


@pytest.mark.parametrize(("returns", "named"), [(soon, []), (late, ["learning-rate-too-high"])])
def test_a_huge_learning_rate_is_an_alarm_while_the_return_moves(returns: Returns, named: list[str]) -> None:
    run = history({"learning_rate": 0.03}, learning_rate=0.03, kl=0.1, clip_fraction=0.4, episode_return=returns)
    assert alarms(run) == named


def test_a_target_is_not_blamed_for_updates_that_the_user_made_few() -> None:
    metrics: dict[str, Any] = {"q_mean": 5.0, "updates_total": 300.0, "terminated_share": 1.0, "episode_length": 100.0}
    records = [
        {"iteration": k, "env_steps": 1000 * (k + 1), "episode_return": 100.0 + k % 3} | metrics for k in range(40)
    ]
    named = []
    for updates in ({}, {"updates_per_iteration": 8}):
        run = {"algo": "dqn", "preset": "none", "total_steps": 40_000, "rollout_steps": 1000}
        made = plan("LunarLander-v3", **run | updates)
        named.append([one.name for one in examine(RunHistory(records, facts_of(made)))])
    assert "target-too-slow" in named[0] and "target-too-slow" not in named[1] and "replay-ratio" in named[1]


@pytest.mark.parametrize(
    ("spread", "length", "state"),
    [
        (0.0, lambda k: min(500.0, 20.0 + 50 * k), HEALTHY),
        (40.0, lambda k: min(500.0, 20.0 + 50 * k), OPEN),
        (0.0, lambda k: 500.0, OPEN),  # a policy that always does the same, in a task of one length
        (0.0, lambda k: 50.0, OPEN),
    ],
)
def test_a_run_of_an_unknown_task_that_has_learned_to_survive_is_healthy(
    spread: float, length: Returns, state: str
) -> None:
    assert verdict(history(episode_return=soon, episode_return_std=spread, episode_length=length)).state == state


def test_a_delay_that_an_action_needs_is_an_alarm_while_the_return_moves_and_a_note_once_it_has_settled() -> None:
    effects = {"action_effect_0": 0.01, "action_effect_1": 0.02, "action_effect_2": 0.9, "action_effect_3": 0.01}
    assert alarms(history(episode_return=late, **effects)) == ["delayed-actions"]
    assert alarms(history(episode_return=soon, **effects)) == []


def test_observations_that_stand_still_are_an_alarm_where_the_return_has_settled_too() -> None:
    assert alarms(history(episode_return=soon, obs_repeat_fraction=0.7)) == ["repeated-observations"]
    assert alarms(history(episode_return=soon, obs_repeat_fraction=0.2)) == []
