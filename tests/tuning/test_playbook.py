"""The playbook as a function of results: planted cases, ranks, seeds, the verdict's statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from batchwright.tuning.judging import improvement_probability, rank_test
from batchwright.tuning.playbook import (
    JUDGING_PHASE,
    Batch,
    Decision,
    Strategy,
    changed,
    half_fraction,
    most_units,
    play,
)
from batchwright.tuning.search_space import EACH, GRID, Axis, Phase, SearchSpace, Setting, nearby
from batchwright.tuning.unit_runs import score_of, training_return

RATES = (1e-4, 1e-3, 1e-2)
SPACE = SearchSpace(
    (
        Phase("B", "stability", GRID, (Axis("learning_rate", RATES), Axis("max_grad_norm", (0.5, 1.0, 2.0)))),
        Phase("C", "variance", EACH, (Axis("baseline", (True, False)), Axis("value_rate_factor", (1.0, 2.0)))),
        Phase("D", "horizon", GRID, (Axis("gamma", (0.9, 0.99, 0.999)), Axis("entropy_start", (0.003, 0.01, 0.03)))),
    )
)
DEFAULTS = {
    "learning_rate": 1e-4,
    "max_grad_norm": 0.5,
    "baseline": True,
    "value_rate_factor": 1.0,
    "gamma": 0.99,
    "entropy_start": 0.01,
    "rollout_steps": 64,
}
STRATEGY = Strategy((0, 1), (1000, 1001, 1002, 1003, 1004), grids=False, search="local", search_settings=4)
Score = Callable[[dict[str, Any], int], float | None]
Curve = Callable[[dict[str, Any]], list[float]]


def drive(
    score: Score, strategy: Strategy = STRATEGY, space: SearchSpace = SPACE, curve: Curve = lambda numbers: []
) -> tuple[Any, list[Any], list[Any]]:
    """(verdict, units, decisions) of the playbook, where a unit scores `score(all its numbers, seed)`."""
    steps, reply = play(space, DEFAULTS, strategy), None
    units, decisions = [], []
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as end:
            return end.value, units, decisions
        if isinstance(step, Decision):
            decisions.append(step.record)
            reply = None
            continue
        assert isinstance(step, Batch)
        units += step.units
        reply = [
            {"score": score({**DEFAULTS, **unit.setting}, unit.seed), "final": None, "seed": unit.seed, "reason": "bad"}
            | {"tenths": curve({**DEFAULTS, **unit.setting}), "noise": 0.0}
            for unit in step.units
        ]


def noise(numbers: dict[str, Any], seed: int, scale: float, salt: int = 0) -> float:
    """Normal noise that depends on the setting, the seed and nothing else."""
    words = [seed, salt, *(round(1e6 * float(value)) for value in numbers.values())]
    return scale * float(np.random.default_rng(words).standard_normal())


def test_where_the_learning_rate_alone_matters_it_is_found() -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        return -10 * abs(math.log10(numbers["learning_rate"]) + 3) + noise(numbers, seed, 0.5)

    final, _, _ = drive(score)
    assert 3e-4 < final["winner"]["learning_rate"] < 3e-3
    assert final["rows"][0]["setting"] == {}, "the default is a contestant"


def test_a_grid_finds_numbers_that_only_help_together() -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        both = numbers["gamma"] == 0.999 and numbers["entropy_start"] == 0.03
        one = (numbers["gamma"] == 0.999) != (numbers["entropy_start"] == 0.03)
        return 10 * both - 5 * one + noise(numbers, seed, 0.5)

    strategy = Strategy((0, 1), STRATEGY.judge_seeds, grids=True, search="none", search_settings=0)
    winner = drive(score, strategy)[0]["winner"]
    assert (winner["gamma"], winner["entropy_start"]) == (0.999, 0.03)
    assert drive(score, Strategy((0, 1), STRATEGY.judge_seeds, False, "none", 0))[0]["winner"] is None


def test_where_nothing_matters_there_is_no_winner_in_nine_of_ten_tunings() -> None:
    winners = [drive(lambda n, seed, salt=salt: noise(n, seed, 1.0, salt))[0]["winner"] for salt in range(40)]
    assert sum(winner is not None for winner in winners) <= 4


def test_judging_seeds_are_never_tuning_seeds_and_judge_all_alike() -> None:
    _, units, _ = drive(lambda n, seed: noise(n, seed, 1.0))
    tuned = {unit.seed for unit in units if unit.phase != JUDGING_PHASE}
    judged = [(unit.seed, str(unit.setting)) for unit in units if unit.phase == JUDGING_PHASE]
    assert not tuned & {seed for seed, _ in judged}
    settings = {setting for _, setting in judged}
    assert len(judged) == 5 * len(settings)
    # Seed by seed: a budget that ends early leaves the same seeds to all.
    assert [seed for seed, _ in judged] == sorted(seed for seed, _ in judged)


def test_settings_whose_units_fail_rank_last_and_the_tuning_goes_on() -> None:
    def score(numbers: dict[str, Any], seed: int) -> float | None:
        return None if numbers["learning_rate"] == 1e-3 and seed == 1 else 100 * numbers["learning_rate"]

    final, units, decisions = drive(score)
    assert decisions[0]["best"]["learning_rate"] == 1e-2
    assert any(unit.setting.get("learning_rate") == 1e-3 for unit in units)
    assert all(row["setting"].get("learning_rate") != 1e-3 for row in final["rows"])


def test_no_setting_is_tried_twice_and_no_more_than_forecast() -> None:
    _, units, _ = drive(lambda n, seed: noise(n, seed, 1.0))
    named = [(str(unit.setting), unit.seed) for unit in units]
    assert len(set(named)) == len(named)
    most = most_units(SPACE, STRATEGY)
    for phase, count in most.items():
        assert sum(unit.phase == phase for unit in units) <= count
    whole = Strategy(STRATEGY.tune_seeds, STRATEGY.judge_seeds, True, "none", 0)
    # B has 3 x 3 values, D too; the setting that a grid starts from is known already.
    assert most_units(SPACE, whole)["B"] == 2 * 8


def test_a_number_that_moved_to_the_edge_of_its_range_is_named() -> None:
    _, _, decisions = drive(lambda n, seed: 100 * n["learning_rate"])
    assert decisions[0]["edges"] == ["learning_rate"]


def test_equal_settings_are_equal_however_they_came_about() -> None:
    there: Setting = changed(changed({}, "gamma", 0.9, DEFAULTS), "baseline", False, DEFAULTS)
    other: Setting = changed(changed({}, "baseline", False, DEFAULTS), "gamma", 0.9, DEFAULTS)
    assert list(there) == list(other) == ["baseline", "gamma"]
    assert changed(there, "gamma", 0.99, DEFAULTS) == {"baseline": False}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_the_local_search_tries_each_number_up_and_down_equally_often(count: int) -> None:
    points = np.array(half_fraction(count))
    assert points.shape[1] == count and set(np.abs(points).ravel()) == {0.5}
    assert not points.sum(axis=0).any()
    # Main effects are not confounded with each other: columns are orthogonal.
    assert np.allclose(points.T @ points, 0.25 * len(points) * np.eye(count))


def test_a_nearby_gamma_moves_its_horizon() -> None:
    assert nearby("gamma", 0.99, 1.0) == pytest.approx(1 - 0.01 / 3, abs=1e-5)
    assert nearby("gamma", 0.99, -1.0) == pytest.approx(1 - 0.01 * 3)
    assert nearby("learning_rate", 1e-3, 1.0) == 3e-3


def test_the_rank_test_is_exact_for_small_groups() -> None:
    low, high = np.arange(5.0), np.arange(5.0) + 10
    # One of the 10! / (5! 5!) = 252 ways to split ten ranks puts all of the first group on top.
    assert rank_test(high, low) == pytest.approx(1 / 252)
    assert rank_test(low, high) == 1.0
    assert rank_test(np.ones(5), np.ones(5)) == 1.0
    # With failures, which rank below everything, the same setting is no longer better beyond chance.
    assert rank_test(np.array([*high[:3], -math.inf, -math.inf]), low) > 0.05
    assert improvement_probability(np.array([1.0, 3.0]), np.array([1.0, 2.0])) == (0.5 + 0 + 1 + 1) / 4


def test_the_score_is_the_area_under_the_curve_over_equal_steps() -> None:
    def line(steps: int, value: float | None) -> dict[str, Any]:
        return {"env_steps": steps} | ({} if value is None else {"episode_return": value})

    # 2 holds from the start to step 200 (its first value), then nothing new to 300, then 5 to 400.
    curve = [line(100, None), line(200, 2.0), line(300, None), line(400, 5.0)]
    assert score_of(curve, 400, training_return) == (2 * 300 + 5 * 100) / 400
    # Steps beyond the common ones do not count; a run that stopped early keeps its last value.
    assert score_of(curve, 350, training_return) == pytest.approx((2 * 300 + 5 * 50) / 350)
    assert score_of(curve, 800, training_return) == (2 * 300 + 5 * 500) / 800
    assert score_of([line(100, None)], 100, training_return) is None
    assert score_of([line(100, math.nan)], 100, training_return) is None
    assert score_of(curve, 400, lambda record: float(record["env_steps"])) == 250
