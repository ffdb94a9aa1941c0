"""How a budget is spent: programs that are compiled are counted, and the forecast contains them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_playbook import DEFAULTS, STRATEGY

from batchwright.core.machine import probe_machine
from batchwright.envs.catalog import describe
from batchwright.envs.task_facts import task_facts
from batchwright.tuning.playbook import JUDGING_PHASE, Strategy, least_units, most_units, needed_units
from batchwright.tuning.search_space import EACH, GRID, Axis, Phase, SearchSpace, default_space
from batchwright.tuning.tuning_budget import Allocation, Budget, Speed, allocate, compilations, forecast, strategies
from batchwright.tuning.unit_runs import UnitPlanner

SPACE = SearchSpace(
    (
        Phase("B", "stability", GRID, (Axis("learning_rate", (1e-4, 1e-3)), Axis("epochs", (1, 2, 4)))),
        Phase("C", "variance", EACH, (Axis("baseline", (True, False)), Axis("normalize_rewards", (True, False)))),
        Phase("D", "horizon", GRID, (Axis("gamma", (0.9, 0.99, 0.999)),)),
    )
)
SPEED = Speed(seconds_per_step=1e-3, update_share=0.5, unit_seconds=0.5, compile_seconds=4.0, spread=0.1)


def test_every_value_that_is_compiled_in_counts_once() -> None:
    # The default, 2 more epochs and, in every other tuning, one beyond their edge, no baseline, both switches together;
    # normalised rewards change collection alone. Learning rates cost nothing.
    found = 1 + 2 + 0.5 + 1 + 1 + 0.2
    assert compilations(SPACE, SPEED, workers=1) == pytest.approx(found)
    assert compilations(SPACE, SPEED, workers=2) == pytest.approx(found + 1)
    # Rollout sizes compile collection too.
    sizes = Phase("A", "throughput", EACH, (Axis("rollout_steps", (64, 128)),))
    space, speed = SearchSpace((*SPACE.phases, sizes)), replace(SPEED, shape_cost=1.7)
    assert compilations(SPACE, speed, workers=1) == pytest.approx(found)
    assert compilations(space, speed, workers=1) == pytest.approx(found + 1.7)


def test_a_forecast_is_units_and_compiling_together() -> None:
    units = most_units(SPACE, STRATEGY)
    found = forecast(Allocation(STRATEGY, 1000, units), SPACE, {**DEFAULTS, "epochs": 2}, SPEED, workers=1)
    assert found["units"] == sum(units.values())
    # 1 s of steps and 0.5 s beside them for every unit; B has on average 7/3 epochs for 2, in half of its axes, half of
    # its time: 1/24 more.
    steps = 1.5 * found["units"] + units["B"] / 24
    assert found["seconds"] == pytest.approx(5.7 * 4.0 + steps, rel=0.01)


def test_a_forecast_says_what_a_tuning_takes_at_least_and_at_most() -> None:
    speed = replace(SPEED, bold_cost=9.0, compile_seconds=0.0, update_share=0.0, unit_seconds=0.0)
    units = most_units(SPACE, STRATEGY)
    found = forecast(Allocation(STRATEGY, 1000, units), SPACE, DEFAULTS, speed, workers=1)
    # Nine times in the boldest setting, whose two changes cost 3 times each: (1 + 3) / 2 squared on average.
    default, others = units["default"], sum(units.values()) - units["default"]
    assert found["seconds"] == pytest.approx(default + 4.0 * others, rel=0.01)
    assert found["most_seconds"] == pytest.approx(default + 9.0 * others, rel=0.01)
    least = least_units(SPACE, STRATEGY)
    assert JUDGING_PHASE not in least and found["least_seconds"] == pytest.approx(sum(least.values()), rel=0.01)


def test_the_whole_playbook_of_ppo_fits_into_sixty_units_with_a_joint_search() -> None:
    flags = {"env": "CartPole-v1", "algo": "ppo", "engine": "jax", "num_envs": 8, "learner_threads": 1, "eval_every": 0}
    plan = UnitPlanner(flags, probe_machine(), task_facts(describe("CartPole-v1"))).plan({}, 0, 24_576)[1]
    space = default_space(plan)
    base = Strategy((0,), (1000, 1001, 1002, 1003, 1004), False, "surface", 4)
    budget = Budget(60 * 24_576, None, SPEED, 1, space)
    found = allocate(
        budget,
        strategies(base, True, 0),
        wanted_steps=24_576,
        length_is_stated=True,
        iteration_steps=2048,
        multiple=8192,
    )
    assert found.count == 60 and found.unit_steps == 24_576 and found.strategy.lean
    needed = sum(needed_units(space, found.strategy).values())
    assert found.count - needed - 9 >= 2, "units that are free for the joint search, whatever the phases need"
    assert not any(way.lean for way in strategies(base, True, 0, narrow=True))
