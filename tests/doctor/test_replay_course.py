"""Values, rewards and returns of replay runs: what the record shows of a number that is off."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic_runs import healthy

from batchwright.api import plan
from batchwright.doctor.harm import HEALTHY, OPEN, SHORT, verdict
from batchwright.doctor.known_returns import return_scale
from batchwright.doctor.levers import stated_numbers
from batchwright.doctor.replay_findings import scale_of_replayed_rewards, target_lag
from batchwright.doctor.run_history import RunHistory, facts_of
from batchwright.doctor.triage import examine
from batchwright.doctor.value_level import value_level

GAMMA = 0.99


def replay_run(env: str = "CartPole-v1", returns: Any = lambda k: 20.0 + 5.0 * k, **more: Any) -> RunHistory:
    """40 records of DQN or SAC whose episodes last as long as they return, with Q values `q`."""
    metrics = more.pop("metrics", {})
    made = plan(env, **{"algo": "dqn", "preset": "none", "total_steps": 1_280} | more)
    records = [
        {name: healthy(k)[name] for name in ("iteration", "env_steps", "episode_return_std")}
        | {"episode_return": returns(k), "episode_length": abs(returns(k)), "terminated_share": 1.0, **metrics}
        for k in range(40)
    ]
    return RunHistory(records, facts_of(made))


def test_values_are_worth_the_discounted_rest_of_an_episode() -> None:
    # Episodes of 100 rewards of 1: the mean over steps of (1 - 0.99^k) / 0.01, k = 1..100.
    by_hand = sum((1 - GAMMA**k) / (1 - GAMMA) for k in range(1, 101)) / 100
    level = value_level(replay_run(returns=lambda k: 100.0, metrics={"q_mean": 20.0}))
    assert level is not None and level.expected == pytest.approx(by_hand, rel=0.02)
    assert level.ratio == pytest.approx(20.0 / by_hand, rel=0.02)


def test_values_of_learned_rewards_are_not_compared_with_returns_of_the_environment() -> None:
    history = replay_run(redistribute="rrd", metrics={"q_mean": 20.0})
    assert history.facts.get("redistribute") == "rrd" and value_level(history) is None


def test_the_entropy_bonus_belongs_to_what_values_of_sac_are_worth() -> None:
    plain = value_level(replay_run(returns=lambda k: 100.0, metrics={"q_mean": 20.0}))
    soft = value_level(
        replay_run(returns=lambda k: 100.0, metrics={"q_mean": 20.0, "temperature": 0.5, "entropy": 2.0})
    )
    assert plain is not None and soft is not None and soft.expected == pytest.approx(2 * plain.expected)


@pytest.mark.parametrize(("q", "seen"), [(5.0, True), (50.0, False)])
def test_a_slow_target_is_seen_where_values_lag_behind_returns(q: float, seen: bool) -> None:
    found = {one.name: one for one in stated_numbers(replay_run(updates_per_target=5000, metrics={"q_mean": q}))}
    assert found["target-too-slow"].seen is seen
    assert ("recent returns are worth" in found["target-too-slow"].message) is seen


@pytest.mark.parametrize(
    ("last", "state"), [(190.0, HEALTHY), (40.0, OPEN), (-110.0, SHORT)], ids=["solved", "between", "far"]
)
def test_a_task_that_is_known_says_how_far_a_return_has_come(last: float, state: str) -> None:
    history = replay_run("LunarLander-v3", lambda k: -190.0 + (last + 190.0) * k / 39)
    scale = return_scale("LunarLander-v3")
    assert scale is not None and scale.share(200.0) == 1.0 and scale.share(-192.0) == 0.0
    assert verdict(history).state == state


def test_a_task_of_unknown_name_has_no_scale() -> None:
    assert return_scale("Unknown-v1") is None and return_scale("sick_envs.py:planted") is None
    assert return_scale("CartPole-v0") is None and return_scale("Ant-v4") == return_scale("Ant-v5") is not None


@pytest.mark.parametrize(("factor", "named"), [(1.0, False), (300.0, True), (1e-3, True)])
def test_rewards_far_from_one_are_named_in_replay(factor: float, named: bool) -> None:
    history = replay_run(returns=lambda k: 100.0)
    records = [record | {"episode_return": 100.0 * factor} for record in history.records]
    found = scale_of_replayed_rewards(RunHistory(records, history.facts))
    assert (found is not None) is named


def test_a_number_that_is_clearly_off_is_an_alarm_far_from_a_solved_task_and_a_note_near_one() -> None:
    far = replay_run("LunarLander-v3", lambda k: -190.0 + 2.0 * k, learning_rate=1e-6)
    near = replay_run("LunarLander-v3", lambda k: -190.0 + 9.5 * k, learning_rate=1e-6)
    alarms = [[one.name for one in examine(history) if one.alarm] for history in (far, near)]
    assert alarms[0] == ["learning-rate-too-low"] and alarms[1] == []


@pytest.mark.parametrize(("q", "updates", "named"), [(5.0, 4000, True), (50.0, 4000, False), (5.0, 40_000, False)])
def test_a_target_that_nobody_stated_is_named_where_it_followed_rarely(q: float, updates: int, named: bool) -> None:
    history = replay_run(returns=lambda k: 100.0, metrics={"q_mean": q, "updates_total": updates})
    found = target_lag(history)
    assert (found is not None) is named
    if found is not None:
        assert found.flags == ("--updates-per-target 80",)  # 4000 updates / 50
