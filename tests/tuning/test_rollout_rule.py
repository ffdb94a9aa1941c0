"""The rollout size: half and double are tried, the better direction is followed; the rule takes one of equal ones."""

from __future__ import annotations

from typing import Any

import pytest
from test_playbook import STRATEGY, drive

from batchwright.tuning.playbook import Strategy, most_units
from batchwright.tuning.rollout_rule import CRAWLS, STEADY, SWINGS, curve_shape, tenths_of
from batchwright.tuning.search_space import RULE, Axis, Phase, SearchSpace

SPACE = SearchSpace((Phase("A", "throughput", RULE, (Axis("rollout_steps", (16, 32, 64, 128, 256)),)),))
ALONE = Strategy((0,), STRATEGY.judge_seeds, grids=False, search="none", search_settings=0)
CURVES = {
    SWINGS: [0, 4, 8, 2, 7, 1, 8, 3, 9, 2],  # falls by 7 of a range of 9
    CRAWLS: [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ],  # first, middle and last tenths have the means 1, 4.5 and 8: half of the gain is late
    STEADY: [0, 5, 8, 9, 9, 9, 9, 9, 9, 9],  # has levelled off
}


@pytest.mark.parametrize("shape", CURVES)
def test_a_curve_is_named_by_what_it_shows(shape: str) -> None:
    assert curve_shape([{"tenths": CURVES[shape], "noise": 0.0}]) == shape


def test_what_lies_within_the_noise_is_no_swing_but_a_crawl() -> None:
    assert curve_shape([{"tenths": CURVES[SWINGS], "noise": 5.0}]) == CRAWLS
    # Two seeds with opposite swings: their mean moves by less than one of them.
    up, down = [0.0, 1.0] * 5, [1.0, 0.0] * 5
    assert curve_shape([{"tenths": up, "noise": 0.0}, {"tenths": down, "noise": 0.0}]) == CRAWLS
    assert curve_shape([{"tenths": [], "noise": 0.0}]) is None


def test_tenths_are_means_of_equal_steps_whatever_the_iterations() -> None:
    # 20 iterations of 5 steps, 2 in each tenth: 1 and 3 have the mean 2 and the variance 2, over 2 values 1.
    means, noise = tenths_of([(5 * (i + 1), 1.0 + 2.0 * (i % 2)) for i in range(20)], 100)
    assert means == [2.0] * 10 and noise == 1.0
    # Nothing ended before step 35 nor between 40 and 95: the first value holds backwards, the last one forwards.
    assert tenths_of([(35, 1.0), (95, 4.0)], 100) == ([1.0] * 9 + [4.0], 0.0)


@pytest.mark.parametrize(
    ("shape", "best", "tried"),
    [
        (SWINGS, 128, [128, 32, 256]),
        (SWINGS, 16, [128, 32, 16]),
        (CRAWLS, 16, [32, 128, 16]),
        (CRAWLS, 256, [32, 128, 256]),
        (STEADY, 64, [128, 32]),
    ],
)
def test_half_and_double_are_tried_and_the_better_is_followed(shape: str, best: int, tried: list[int]) -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        return -abs(numbers["rollout_steps"] - best)

    _, units, decisions = drive(score, ALONE, SPACE, lambda numbers: [float(value) for value in CURVES[shape]])
    sizes = [unit.setting["rollout_steps"] for unit in units if unit.phase == "A"]
    assert sizes == tried and len(sizes) <= most_units(SPACE, ALONE)["A"]
    assert decisions[0]["best"].get("rollout_steps", 64) == best
    assert decisions[0]["seen"][0] == {"rollout_steps": 64, "curve": shape, "next": tried[:2]}


@pytest.mark.parametrize(("shape", "kept"), [(SWINGS, 128), (CRAWLS, 32)])
def test_of_two_equal_rollouts_the_rule_takes_one(shape: str, kept: int) -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        return {32: 1.0, 128: 1.0}.get(numbers["rollout_steps"], 0.0)

    _, _, decisions = drive(score, ALONE, SPACE, lambda numbers: [float(value) for value in CURVES[shape]])
    assert decisions[0]["best"] == {"rollout_steps": kept}
