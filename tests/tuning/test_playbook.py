"""The playbook as a function of results: planted cases, ranks, seeds, the verdict's statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from batchwright.tuning.judging import PROMISING, TWO_LOOKS_SIGNIFICANT, for_all, improvement_probability, rank_test
from batchwright.tuning.playbook import (
    CONFIRM_PHASE,
    JUDGING_PHASE,
    SEARCH_PHASE,
    Strategy,
    contestants,
    half_fraction,
    most_units,
    needed_units,
    play,
)
from batchwright.tuning.search_space import EACH, GRID, RULE, Axis, Phase, SearchSpace, Setting, nearby, next_beyond
from batchwright.tuning.setting_moves import Batch, Decision, changed
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
    "epochs": 4,
}
STRATEGY = Strategy((0, 1), (1000, 1001, 1002, 1003, 1004), grids=False, search="local", search_settings=4)
Score = Callable[[dict[str, Any], int], float | None]
Curve = Callable[[dict[str, Any]], list[float]]


def drive(
    score: Score,
    strategy: Strategy = STRATEGY,
    space: SearchSpace = SPACE,
    curve: Curve = lambda numbers: [],
    defaults: Setting | None = None,
) -> tuple[Any, list[Any], list[Any]]:
    """(verdict, units, decisions) of the playbook, where a unit scores `score(all its numbers, seed)`."""
    start = {**DEFAULTS, **(defaults or {})}
    steps, reply = play(space, start, strategy), None
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
            {"score": score({**start, **unit.setting}, unit.seed), "final": None, "seed": unit.seed, "reason": "bad"}
            | {"tenths": curve({**start, **unit.setting}), "noise": 0.0}
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
        return None if numbers["learning_rate"] == 1e-3 and seed == 1 else min(1.0, 100 * numbers["learning_rate"])

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
    # B has 3 x 3 values, D too; the setting that a grid starts from is known already. Two more lie beyond an edge.
    assert needed_units(SPACE, whole)["B"] == 2 * 8
    assert most_units(SPACE, whole)["B"] == 2 * (8 + 2)


def test_a_number_that_moved_to_the_edge_of_its_range_is_named() -> None:
    _, _, decisions = drive(lambda n, seed: 100 * n["learning_rate"])
    assert decisions[0]["edges"] == ["learning_rate"]


def test_a_range_is_left_where_its_edge_is_best_and_no_further_than_that_helps() -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        return -abs(math.log10(numbers["learning_rate"]) + 1)  # best at 0.1, ten times the last value of the range

    _, units, decisions = drive(score)
    tried = {unit.setting.get("learning_rate") for unit in units if unit.phase == "B"}
    assert decisions[0]["best"]["learning_rate"] == 0.1
    assert tried == {1e-3, 1e-2, 0.1, 1.0}


def test_of_epochs_one_value_beyond_the_range_is_tried() -> None:
    axis = Axis("epochs", (1, 2, 4))
    _, units, decisions = drive(
        lambda n, seed: float(n["epochs"]), space=SearchSpace((Phase("B", "stability", GRID, (axis,)),))
    )
    assert {unit.setting.get("epochs") for unit in units if unit.phase == "B"} == {1, 2, 8}
    assert decisions[0]["best"] == {"epochs": 8} and decisions[0]["edges"] == ["epochs"]


@pytest.mark.parametrize(
    ("name", "values", "now", "beyond"),
    [
        ("learning_rate", (1e-3, 1e-2, 3e-2), 3e-2, 9e-2),
        ("learning_rate", (1e-3, 1e-2, 3e-2), 1e-3, 1e-4),
        ("learning_rate", (1e-3, 1e-2, 3e-2), 1e-2, None),
        ("entropy_start", (0.0, 0.01, 0.03), 0.0, None),
        ("gamma", (0.95, 0.98, 0.99), 0.95, 0.87),  # 0.05 x 0.05 / 0.02 = 0.125
        ("gamma", (0.98, 0.99, 0.999), 0.999, 0.9999),
        ("epochs", (1, 2, 4), 4, 8),
        ("epochs", (1, 2, 4), 1, None),
        ("baseline", (True, False), False, None),
    ],
)
def test_the_value_beyond_an_edge_is_as_far_away_as_the_last_two(
    name: str, values: tuple[Any, ...], now: Any, beyond: Any
) -> None:
    assert next_beyond(name, values, now) == beyond


def test_minibatches_shrink_while_that_is_better() -> None:
    sizes = Axis("minibatch_transitions", (32, 128, 512))
    space = SearchSpace((Phase("A", "throughput", RULE, (sizes,)),))
    defaults = {"minibatch_transitions": 512}

    def tried(score: Callable[[int], float]) -> list[int]:
        steps, reply, found = play(space, defaults, Strategy((0,), (1000,) * 4, False, "none", 0)), None, []
        while True:
            try:
                step = steps.send(reply)
            except StopIteration:
                return found
            units = step.units if isinstance(step, Batch) else ()
            values = [unit.setting.get("minibatch_transitions", 512) for unit in units]
            found += [value for value, unit in zip(values, units, strict=True) if unit.phase == "A"]
            reply = [{"score": score(value), "seed": 0, "reason": "", "tenths": []} for value in values]

    assert tried(lambda size: -size) == [128, 32]
    assert tried(lambda size: size) == [128]


def test_a_budget_without_room_for_all_keeps_judging_and_drops_what_is_spare() -> None:
    strategy = Strategy((0,), STRATEGY.judge_seeds, False, "local", 4, 2, confirmed=6)
    needed, most = (sum(count(SPACE, strategy).values()) for count in (needed_units, most_units))
    assert most == needed + 2 * 2 + 4 + 9  # edges of B and D, the search, one more seed for six and another for three

    def made(units: int | None) -> dict[str, int]:
        _, found, _ = drive(lambda n, seed: noise(n, seed, 1.0), replace(strategy, units=units))
        assert units is None or len(found) <= units
        return {phase: sum(unit.phase == phase for unit in found) for phase in [unit.phase for unit in found]}

    rich, poor = made(None), made(needed)
    assert rich[SEARCH_PHASE] == 4 and rich[CONFIRM_PHASE] == 9
    assert poor[JUDGING_PHASE] == rich[JUDGING_PHASE] == 15
    assert poor.get(SEARCH_PHASE, 0) + poor.get(CONFIRM_PHASE, 0) < 13


def test_one_more_seed_decides_who_is_judged() -> None:
    """1e-2 is lucky with the first seed: 20 there, -20 with others. 1e-3 has 10 always."""

    def score(numbers: dict[str, Any], seed: int) -> float:
        return {1e-4: 0.0, 1e-3: 10.0, 1e-2: 20.0 if seed == 0 else -20.0}.get(numbers["learning_rate"], -50.0)

    space = SearchSpace((Phase("B", "stability", GRID, (Axis("learning_rate", RATES),)),))
    strategy = Strategy((0,), STRATEGY.judge_seeds, False, "none", 0, contestants=1)
    hasty, _, decisions = drive(score, strategy, space)
    assert decisions[0]["best"]["learning_rate"] == 1e-2
    assert hasty["winner"] is None and hasty["rows"][1]["setting"] == {"learning_rate": 1e-2}
    final, units, _ = drive(score, replace(strategy, confirmed=6), space)
    confirmed = [unit for unit in units if unit.phase == CONFIRM_PHASE]
    assert [(unit.setting["learning_rate"], unit.seed) for unit in confirmed] == [(1e-2, 1), (1e-3, 1)]
    assert final["winner"] == {"learning_rate": 1e-3}


def test_those_who_are_judged_differ_in_two_numbers_where_they_can() -> None:
    best: Setting = {"gamma": 0.9, "epochs": 2}
    near, far = {**best, "weight_decay": 1e-5}, {"gamma": 0.9, "baseline": False}
    assert contestants([best, near, far], 2) == [best, far]
    assert contestants([best, near, far], 3) == [best, near, far]
    assert contestants([best, near], 2) == [best, near]


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


def judged_scores(gain: float) -> Score:
    """Scores that depend on the seed alone on judging seeds, and `gain` on a learning rate of 1e-3."""

    def score(numbers: dict[str, Any], seed: int) -> float:
        better = numbers["learning_rate"] == 1e-3
        luck = {1000: 2.0, 1001: -1.0, 1002: 1.0, 1003: 0.0, 1004: -2.0}.get(seed, 0.5 * (seed % 2))
        return (10.0 if better else 0.0) if seed < 1000 else (gain + luck if better else -luck)

    return score


@pytest.mark.parametrize(("gain", "seeds", "wins"), [(6.0, 5, True), (1.5, 8, True), (-6.0, 5, False), (0.4, 8, False)])
def test_where_the_judging_seeds_leave_it_open_more_are_trained_once(gain: float, seeds: int, wins: bool) -> None:
    strategy = replace(STRATEGY, more_judging=3, contestants=2)
    final, units, _ = drive(judged_scores(gain), strategy)
    judged = [unit for unit in units if unit.phase == "judging"]
    default = [unit.seed for unit in judged if unit.setting == {}]
    assert default == list(range(1000, 1000 + seeds))
    assert (final["winner"] is not None) is wins
    likeliest = max(final["rows"][1:], key=lambda row: row["probability"])
    assert len(likeliest["scores"]) == seeds
    if wins:
        assert f"over {seeds} fresh seeds" in final["reason"]
    assert len(judged) == 2 * seeds


def test_a_second_look_does_not_exceed_the_units_of_the_tuning() -> None:
    whole = sum(most_units(SPACE, replace(STRATEGY, contestants=2)).values())
    for units in range(whole - 3, whole + 8):
        strategy = replace(STRATEGY, more_judging=3, contestants=2, units=units)
        _, made, _ = drive(judged_scores(0.4), strategy)
        assert len(made) <= units


def test_a_seed_that_the_budget_left_to_one_setting_alone_judges_nothing() -> None:
    def unit(seed: int, status: str) -> dict[str, Any]:
        return {"seed": seed, "status": status, "score": 1.0 if status == "finished" else None, "reason": ""}

    default = [unit(0, "finished"), unit(1, "finished"), unit(2, "skipped"), unit(3, "failed")]
    other = [unit(0, "finished"), unit(1, "skipped"), unit(2, "skipped"), unit(3, "finished")]
    kept = for_all([default, other])
    assert [[one["seed"] for one in line] for line in kept] == [[0, 3], [0, 3]]
    assert kept[0][1]["status"] == "failed"  # a run that failed counts against its setting


def test_two_looks_seldom_find_a_winner_where_nothing_is_better() -> None:
    rng, won = np.random.default_rng(0), 0
    for _ in range(400):
        setting, default = rng.normal(size=8), rng.normal(size=8)
        first = rank_test(setting[:5], default[:5]) < TWO_LOOKS_SIGNIFICANT
        open_ = improvement_probability(setting[:5], default[:5]) >= PROMISING
        won += first or (open_ and rank_test(setting, default) < TWO_LOOKS_SIGNIFICANT)
    assert 0.02 < won / 400 < 0.08
