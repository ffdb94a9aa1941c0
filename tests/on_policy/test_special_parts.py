"""What components, weights that are learned and entropy floors are for, on small real runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.data.rollout import Episodes, Rollout
from batchwright.on_policy.component_stats import ComponentTracker, start_component_stats
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.on_policy.on_policy_state import ComponentScales
from batchwright.runs.shared_programs import SharedPrograms
from run_batchwright import plan

SMALL: dict[str, Any] = {
    "engine": "jax",
    "num_envs": 16,
    "rollout_steps": 64,
    "minibatches": 4,
    "epochs": 4,
    "hidden": (32,),
    "learning_rate": 0.003,
}
CLOSE = 14.0
"""Of 16 targets met in an episode: learned. By chance it is 4."""


def records(env: str, iterations: int, **wishes: Any) -> list[dict[str, Any]]:
    """What a run of so many iterations logs."""
    made = plan(env=env, total_steps=1024 * iterations, **(SMALL | wishes))
    learner = make_on_policy_learner(made, env)
    state, found = learner.start(), []
    for _ in range(iterations):
        state, result = learner.iterate(state)
        found.append(learner.record(state, result, 1.0))
    learner.close()
    return found


def tracker(**changes: Any) -> ComponentTracker:
    settings = OnPolicySettings.from_plan(plan(env="TwoObjectives-v0", **SMALL, **changes))
    return ComponentTracker.make(settings, SharedPrograms())


def met(record: dict[str, Any]) -> tuple[float, float]:
    """Targets met per episode in the large and in the small objective."""
    return record["component/large/return"] / 1000, record["component/small/return"]


def test_with_one_component_a_thousand_times_the_other_balance_learns_both_and_the_default_what_the_sum_pays() -> None:
    balanced = met(records("TwoObjectives-v0", 20, gamma=0.5, component_balance=True)[-1])
    default = met(records("TwoObjectives-v0", 20, gamma=0.5)[-1])
    assert min(balanced) > CLOSE
    # The small one is a thousandth of the sum: the default keeps that trade-off, and learns the large one.
    assert default[0] > CLOSE and default[1] < 8


def test_weights_learned_towards_a_component_lift_it_and_stay_where_the_total_is_the_target() -> None:
    towards = {"component_weighting": "learned", "gamma": 0.5, "component_balance": False}
    small = records("TwoObjectives-v0", 40, component_target="small", **towards)
    total = records("TwoObjectives-v0", 5, component_target="total", **towards)
    share = [record["component/small/product"] for record in small]
    # By the reward's own units its share is about 0.001; a fifth of the large one's share stays.
    assert share[0] < 0.01 and 0.79 < max(share) < 0.81
    assert met(small[-1])[1] > CLOSE
    assert total[-1]["component/small/weight"] == pytest.approx(0.5, abs=0.01)
    assert small[-1]["component/small/base"] > 0.3 and small[-1]["component/small/attention"] > 0.6


def test_weights_stay_as_stated_until_something_of_the_target_has_been_seen() -> None:
    # Of 16 targets 4 are met by chance, and a success needs 12 of both: none is seen in the first rollouts.
    wishes = {"component_weighting": "learned", "component_target": "success", "gamma": 0.5}
    found = records("TwoObjectives-v0", 2, **wishes)
    assert [record["success_rate"] for record in found] == [0, 0]
    assert found[-1]["component/large/product"] == pytest.approx(0.5, abs=0.02)


def test_a_target_of_success_without_a_success_signal_is_refused_when_episodes_end() -> None:
    components = tracker(component_weighting="learned", component_target="success")
    flags = np.zeros((8, 4), bool)
    rollout = Rollout(None, None, np.ones((8, 4, 2), np.float32), flags, flags, ~flags)
    assert components.with_success(rollout, Episodes(flags, flags, flags)).success.sum() == 0
    ended = rollout._replace(terminated=~flags)
    with pytest.raises(UserError, match="neither 'is_success' nor 'success'"):
        components.with_success(ended, Episodes(~flags, flags, flags))
    told = np.where(np.arange(4) < 2, 1.0, 0.0) * np.ones((8, 1))
    assert components.with_success(ended, Episodes(~flags, flags, flags, None, told)).success.sum() == 16


def test_balancing_reports_what_one_unit_counts_as_and_again_when_it_has_doubled() -> None:
    components = tracker(component_balance=True)
    stats, ones = start_component_stats(4, 2, 2), np.ones(2, np.float32)

    def scales(*factor: float) -> ComponentScales:
        return ComponentScales(0 * ones, np.float32(factor), ones, ones, ones, 0 * ones, ones)

    stats, messages = components.reweighting(stats, scales(0.5, 35.0))
    assert messages == ("balanced components: 1 unit of small counts as 70 of large; by the stated weights as 1.",)
    stats, messages = components.reweighting(stats, scales(0.4, 35.0))
    assert messages == ()
    assert len(components.reweighting(stats, scales(0.2, 35.0))[1]) == 1
    assert tracker().reweighting(stats, scales(0.5, 35.0))[1] == ()


def test_an_entropy_floor_keeps_a_policy_from_settling_for_the_reward_at_hand() -> None:
    wishes: dict[str, Any] = {"learning_rate": 0.03, "entropy_start": 0.0}
    wishes |= {"normalize_obs": False, "normalize_rewards": False}
    collapsed = records("Deceptive-v0", 20, **wishes)[-1]
    kept = records("Deceptive-v0", 20, **wishes, entropy_floor_discrete=0.4, entropy_floor_weight=1.0)[-1]
    assert collapsed["success_rate"] < 0.05 and collapsed["entropy"] < 0.05
    assert kept["success_rate"] > 0.15 and kept["entropy"] > 0.3


def test_a_component_that_is_the_sum_of_others_is_warned_of_and_refused_for_learned_weights() -> None:
    components = tracker()
    draw = np.random.default_rng(0).normal(size=(8, 4, 2)).astype(np.float32)
    reward = np.concatenate([draw[..., :1], 2 * draw[..., :1]], -1)
    flags, ones = np.zeros((8, 4), bool), np.ones((8, 4), bool)
    rollout = Rollout(None, None, reward, flags, flags, ones)
    episodes = Episodes(flags, flags, flags)
    stats = start_component_stats(4, 2, 2)._replace(low=np.zeros(2), high=np.ones(2))
    stats, messages = components.warnings(stats, rollout, episodes, 0)
    assert len(messages) == 1 and "counted twice" in messages[0]
    assert components.warnings(stats, rollout, episodes, 1)[1] == ()
    with pytest.raises(UserError, match="counted twice"):
        tracker(component_weighting="learned").warnings(start_component_stats(4, 2, 2), rollout, episodes, 0)


def test_a_constant_component_is_masked_and_warned_of_once() -> None:
    components = tracker()
    reward = np.random.default_rng(0).normal(size=(8, 4, 2)).astype(np.float32)
    reward[..., 1] = 0
    flags = np.zeros((8, 4), bool)
    rollout = Rollout(None, None, reward, flags, flags, ~flags)
    stats, scales = components.update(start_component_stats(4, 2, 2), rollout)
    assert scales.varies.tolist() == [1, 0]
    stats, messages = components.warnings(stats, rollout, Episodes(flags, flags, flags), 1)
    assert ["small is always 0" in text for text in messages] == [True]
    assert components.warnings(stats, rollout, Episodes(flags, flags, flags), 2)[1] == ()
