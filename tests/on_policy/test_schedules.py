"""Numbers that move over a run, by the share of the planned run that is done."""

from __future__ import annotations

from typing import Any

import pytest

from batchwright.on_policy.on_policy_learner import scheduled_hyper
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from run_batchwright import plan


def hyper(progress: float, **changes: Any) -> Any:
    settings = OnPolicySettings.from_plan(plan(env="IdentityDiscrete-v0", **changes))
    return scheduled_hyper(settings, progress)


@pytest.mark.parametrize(
    ("schedule", "figures"),
    [
        ("constant", {0.0: 1e-3, 0.5: 1e-3, 0.9: 1e-3}),
        ("linear", {0.0: 1e-3, 0.25: 0.75e-3, 0.9: 0.1e-3}),
        # (1 + cos(pi x done)) / 2: 1, 0.853553, 0.5, 0.024472
        ("cosine", {0.0: 1e-3, 0.25: 0.853553e-3, 0.5: 0.5e-3, 0.9: 0.0244717e-3}),
    ],
)
def test_the_learning_rate_by_figures(schedule: str, figures: dict[float, float]) -> None:
    for done, rate in figures.items():
        found = hyper(done, learning_rate=1e-3, learning_rate_schedule=schedule)
        assert float(found.learning_rate) == pytest.approx(rate, rel=1e-4)


def test_the_entropy_coefficient_moves_over_the_last_share_of_the_run() -> None:
    # 0.1 to 0.02 over the last 80%: 0.1 until 20%, half-way at 60%.
    wishes = {"entropy_start": 0.1, "entropy_end": 0.02, "entropy_anneal": 0.8}
    for done, bonus in {0.0: 0.1, 0.2: 0.1, 0.6: 0.06, 1.0: 0.02}.items():
        assert float(hyper(done, **wishes).entropy_coef) == pytest.approx(bonus, rel=1e-5)
    assert float(hyper(0.9, entropy_start=0.1, entropy_anneal=0.0).entropy_coef) == pytest.approx(0.1)


def test_the_clip_range_by_figures() -> None:
    assert float(hyper(0.75, clip_range=0.4, clip_schedule="linear").clip_range) == pytest.approx(0.1)
    assert float(hyper(0.75, clip_range=0.4).clip_range) == pytest.approx(0.4)


def test_the_kl_stop_and_the_aim_of_the_adaptive_rate_are_two_numbers() -> None:
    found = hyper(0.0, kl_stop=0.05, kl_target=0.008, learning_rate_schedule="kl-adaptive")
    assert (float(found.kl_stop), float(found.kl_target)) == pytest.approx((0.05, 0.008))


def test_value_clipping_is_in_units_of_the_spread_of_returns() -> None:
    plain, popart = (
        OnPolicySettings.from_plan(plan(env="IdentityDiscrete-v0", value_clip=0.2, popart=popart))
        for popart in (False, True)
    )
    assert float(scheduled_hyper(plain, 0.0, target=(0.0, 50.0)).value_clip) == pytest.approx(10.0)
    # With PopArt values are learned in those units already.
    assert float(scheduled_hyper(popart, 0.0, target=(3.0, 50.0)).value_clip) == pytest.approx(0.2)
