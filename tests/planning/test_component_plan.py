"""What a plan says of reward components: their weights, what balancing makes of them, the target of learned weights."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.config.load import resolve
from batchwright.core.errors import UserError
from batchwright.planning.component_plan import SUCCESS, TOTAL, component_target, reweighting
from batchwright.planning.make import make_plan
from batchwright.planning.plan import Plan, TaskFacts
from run_batchwright import LAPTOP, plan

TWO = {"components": ("speed", "energy")}
LEARNED = {**TWO, "component_weighting": "learned"}


def planned(facts: dict[str, Any], **settings: Any) -> Plan:
    """A plan of an environment that was tried with random actions."""
    task = TaskFacts(name="Own", discrete=False, action_size=2, obs_shape=(4,), obs_dtype="float32", **facts)
    return make_plan(resolve(settings, None, None), LAPTOP, task)


def test_components_keep_the_environments_trade_off_unless_balance_is_asked_for() -> None:
    found = plan(**TWO)
    assert found["component_balance"] is False and "component_norm" not in found.quantities
    assert plan(**TWO, component_balance=True)["component_norm"] == "scale"


def test_a_first_tier_without_balancing_is_refused_with_the_flag_that_turns_it_on() -> None:
    with pytest.raises(UserError) as raised:
        plan(**TWO, component_norm="z-score")
    assert "--component-balance" in raised.value.fixes


def test_the_plan_says_what_balancing_makes_of_one_unit() -> None:
    # Spreads 14 and 0.2: one unit of energy counts as 14 / 0.2 = 70 of speed.
    probed = {"probed_components": ("speed", "energy"), "component_spreads": (14.0, 0.2), "probed_steps": 1000}
    remarks = " ".join(planned(probed, **TWO, component_balance=True).remarks)
    assert "by 1,000 random steps: 1 unit of energy counts as 70 of speed" in remarks
    assert "counts as" not in " ".join(planned(probed, **TWO).remarks)


def test_reweighting_names_the_extremes() -> None:
    assert reweighting(("a", "b", "c"), [2.0, 0.5, 1.0]) == "1 unit of a counts as 4 of b"
    assert reweighting(("a", "b"), [2.0, 0.0]) is None


def test_what_named_keys_leave_out_of_the_reward_is_trained_on_as_rest() -> None:
    probed = {"probed_components": ("speed", "energy", "rest"), "component_spreads": (1.0, 1.0, 1.0)}
    found = planned(probed, **TWO, component_weights=("2", "3"))
    assert found["components"] == "speed,energy,rest" and found["component_weights"] == "2,3,1"
    left_out = planned(probed, **TWO, component_weights=("rest=0",))
    assert left_out["component_weights"] == "1,1,0"


@pytest.mark.parametrize(
    ("stated", "wanted", "balanced"), [(None, TOTAL, False), ("success", SUCCESS, True), ("energy", "energy", True)]
)
def test_learned_weights_have_a_target_and_begin_balanced_where_it_is_not_the_total(
    stated: str | None, wanted: str, balanced: bool
) -> None:
    found = plan(**LEARNED, component_target=stated)
    assert component_target(found) == wanted
    assert found["component_balance"] is balanced
    assert component_target(plan(**TWO)) == ""


def test_a_component_named_success_is_meant_by_its_name() -> None:
    found = plan(components=("speed", "success"), component_weighting="learned", component_target="success")
    assert component_target(found) == "success"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**LEARNED, "component_target": "sped"}, "speed"),
        ({**TWO, "component_target": "total"}, "weights are fixed"),
        ({"env": "Colony-v0", "components": ("growth", "upkeep"), "component_weighting": "learned"}, "migration"),
        ({**LEARNED, "component_weights": ("1", "-1")}, "none is negative"),
        ({**TWO, "component_balance": True, "normalize_rewards": True}, "use one of them"),
    ],
)
def test_contradictions_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        plan(**settings)


def test_components_may_be_trained_with_normalised_rewards_like_their_sum() -> None:
    assert plan(**TWO, normalize_rewards=True)["normalize_rewards"] is True
