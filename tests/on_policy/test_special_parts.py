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
    return ComponentTracker.make(OnPolicySettings.from_plan(plan(env="TwoObjectives-v0", **SMALL, **changes)))


def met(record: dict[str, Any]) -> tuple[float, float]:
    """Targets met per episode in the large and in the small objective."""
    return record["component/large/return"] / 1000, record["component/small/return"]


def test_with_one_component_a_thousand_times_the_other_balance_learns_both_and_the_plain_sum_does_not() -> None:
    balanced = met(records("TwoObjectives-v0", 20, gamma=0.5)[-1])
    plain = met(records("TwoObjectives-v0", 20, gamma=0.5, component_norm="none", component_balance=False)[-1])
    assert min(balanced) > CLOSE
    assert min(plain) < 8


def test_weights_that_are_learned_recover_from_a_wrong_start() -> None:
    wrong = {"component_weights": ("0.98", "0.02"), "gamma": 0.5}
    stays = records("TwoObjectives-v0", 40, **wrong)
    learned = records("TwoObjectives-v0", 40, component_weighting="learned", **wrong)
    share = [record["component/small/weight"] for record in learned]
    assert share[0] < 0.06 and max(share) > 0.2
    assert stays[-1]["component/small/weight"] == pytest.approx(0.02)
    assert met(learned[-1])[1] > met(stays[-1])[1] + 2
    assert min(share) >= 0.02


def test_an_entropy_floor_keeps_a_policy_from_settling_for_the_reward_at_hand() -> None:
    wishes = {"learning_rate": 0.03, "entropy_start": 0.0}
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
    stats = start_component_stats(4, 2)._replace(low=np.zeros(2), high=np.ones(2))
    stats, messages = components.warnings(stats, rollout, episodes, 0)
    assert len(messages) == 1 and "counted twice" in messages[0]
    assert components.warnings(stats, rollout, episodes, 1)[1] == ()
    with pytest.raises(UserError, match="counted twice"):
        tracker(component_weighting="learned").warnings(start_component_stats(4, 2), rollout, episodes, 0)


def test_a_constant_component_is_masked_and_warned_of_once() -> None:
    components = tracker()
    reward = np.random.default_rng(0).normal(size=(8, 4, 2)).astype(np.float32)
    reward[..., 1] = 0
    flags = np.zeros((8, 4), bool)
    rollout = Rollout(None, None, reward, flags, flags, ~flags)
    stats, scales = components.update(start_component_stats(4, 2), rollout)
    assert scales.varies.tolist() == [1, 0]
    stats, messages = components.warnings(stats, rollout, Episodes(flags, flags, flags), 1)
    assert ["small is always 0" in text for text in messages] == [True]
    assert components.warnings(stats, rollout, Episodes(flags, flags, flags), 2)[1] == ()
