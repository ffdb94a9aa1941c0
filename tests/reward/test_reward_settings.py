"""Reading a plan into the settings of a reward model's run."""

from __future__ import annotations

from dataclasses import replace

import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.reward.reward_settings import RewardSettings


def test_a_plan_whose_iterations_are_no_number_is_damaged() -> None:
    plan = batchwright.plan("CartPole-v1")
    lost = replace(plan.quantities["iterations"], value=None)
    with pytest.raises(UserError, match="iterations is None, not a number"):
        RewardSettings.from_plan(replace(plan, quantities={**plan.quantities, "iterations": lost}))
