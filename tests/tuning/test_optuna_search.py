"""Optuna's samplers in the joint search: seeded, told in unit order, better than their start where there is a slope."""

from __future__ import annotations

import importlib.util

import pytest
from test_playbook import STRATEGY, drive

from batchwright.core.errors import UserError
from batchwright.tuning.optuna_search import OptunaSearch, load_optuna
from batchwright.tuning.playbook import Strategy

HAS_OPTUNA = importlib.util.find_spec("optuna") is not None
needs_optuna = pytest.mark.skipif(not HAS_OPTUNA, reason="optuna is not installed")


def points(sampler: str, seed: int) -> list[list[float]]:
    """Twelve points of a search that is told how far each lies from (0.5, -0.5)."""
    search, found = OptunaSearch(sampler, ["a", "b"], seed, 12), []
    search.tell([0.0, 0.0], -0.5)
    for _ in range(3):
        asked = search.ask(4)
        for point in asked:
            search.tell(point, -((point[0] - 0.5) ** 2) - (point[1] + 0.5) ** 2)
        found += asked
    return found


@needs_optuna
@pytest.mark.parametrize("sampler", ["sobol", "tpe"])
def test_a_sampler_repeats_by_its_seed_and_stays_inside(sampler: str) -> None:
    first = points(sampler, 3)
    assert first == points(sampler, 3) != points(sampler, 4)
    assert all(-1 <= number <= 1 for point in first for number in point)
    assert len({tuple(point) for point in first}) == 12


@needs_optuna
@pytest.mark.parametrize("sampler", ["sobol", "tpe"])
def test_a_tuning_with_a_sampler_is_a_function_of_its_results(sampler: str) -> None:
    strategy = Strategy(STRATEGY.tune_seeds, STRATEGY.judge_seeds, False, sampler, 8)

    def score(numbers: dict[str, float], seed: int) -> float:
        return -abs(numbers["learning_rate"] - 0.006) - 1e-3 * abs(numbers["gamma"] - 0.99)

    assert drive(score, strategy) == drive(score, strategy)
    assert sum(unit.phase == "search" for unit in drive(score, strategy)[1]) == 8 * 2


@pytest.mark.skipif(HAS_OPTUNA, reason="optuna is installed")
def test_without_optuna_its_samplers_are_refused_with_the_extra() -> None:
    with pytest.raises(UserError, match="not installed") as refused:
        load_optuna("tpe")
    assert "batchwright[tune]" in refused.value.fixes[0]
