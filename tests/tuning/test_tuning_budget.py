"""How a budget is spent: programs that are compiled are counted, and the forecast contains them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_playbook import DEFAULTS, STRATEGY

from batchwright.tuning.playbook import most_units
from batchwright.tuning.search_space import EACH, GRID, Axis, Phase, SearchSpace
from batchwright.tuning.tuning_budget import Allocation, Speed, compilations, forecast

SPACE = SearchSpace(
    (
        Phase("B", "stability", GRID, (Axis("learning_rate", (1e-4, 1e-3)), Axis("epochs", (1, 2, 4)))),
        Phase("C", "variance", EACH, (Axis("baseline", (True, False)), Axis("normalize_rewards", (True, False)))),
        Phase("D", "horizon", GRID, (Axis("gamma", (0.9, 0.99, 0.999)),)),
    )
)
SPEED = Speed(seconds_per_step=1e-3, update_share=0.5, unit_seconds=0.5, compile_seconds=4.0, spread=0.1)


def test_every_value_that_is_compiled_in_counts_once() -> None:
    # The default, 2 more epochs and one beyond their edge, one value each of two switches, both switches together;
    # learning rates cost nothing.
    assert compilations(SPACE, SPEED, workers=1) == 1 + 3 + 1 + 1 + 1
    assert compilations(SPACE, SPEED, workers=2) == 8
    # Where rewards are normalised, 2 more gammas of the grid and 2 of the local search.
    assert compilations(SPACE, replace(SPEED, gamma_compiled=1.0), workers=1) == 7 + 2 + 2
    assert compilations(SPACE, replace(SPEED, gamma_compiled=0.5), workers=1) == 7 + 2


def test_a_forecast_is_units_and_compiling_together() -> None:
    units = most_units(SPACE, STRATEGY)
    found = forecast(Allocation(STRATEGY, 1000, units), SPACE, {**DEFAULTS, "epochs": 2}, SPEED, workers=1)
    assert found["units"] == sum(units.values())
    # 1 s of steps and 0.5 s beside them for every unit; B has on average 7/3 epochs for 2, in half of its axes, half of
    # its time: 1/24 more.
    steps = 1.5 * found["units"] + units["B"] / 24
    assert found["seconds"] == pytest.approx(7 * 4.0 + steps, rel=0.01)
