"""The screening before the phases: a balanced design, main effects, and what they promise together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_playbook import STRATEGY, drive, noise

from batchwright.tuning.playbook import Strategy, most_units
from batchwright.tuning.screening import SCREENING_PHASE, design
from batchwright.tuning.search_space import GRID, RULE, Axis, Phase, SearchSpace, coarse

SPACE = SearchSpace(
    (
        Phase("A", "throughput", RULE, (Axis("hidden", ("64,64", "256,256")), Axis("activation", ("tanh", "relu")))),
        Phase("B", "stability", GRID, (Axis("learning_rate", (1e-4, 1e-3, 1e-2)), Axis("epochs", (2, 4, 8)))),
    )
)
DEFAULTS = {"hidden": "64,64", "activation": "tanh", "learning_rate": 1e-3, "epochs": 4}
LEAN = Strategy((0,), STRATEGY.judge_seeds, False, "none", 0, 1, screened=True, lean=True)


@pytest.mark.parametrize("count", [3, 4, 5, 6, 7])
def test_each_number_is_moved_in_half_of_the_settings_and_no_two_are_confounded(count: int) -> None:
    signs = np.where(design(count), 1, -1)
    assert signs.shape == (4 if count == 3 else 8, count)
    assert (signs[0] == -1).all(), "the default is one of them"
    assert not signs.sum(axis=0).any()
    assert (signs.T @ signs == len(signs) * np.eye(count)).all()


def test_changes_that_help_only_together_are_found_where_phases_in_turn_miss_them() -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        together = (numbers["hidden"] == "256,256") + (numbers["activation"] == "relu") + (numbers["epochs"] == 8)
        return {0: 0.0, 1: -5.0, 2: -1.0, 3: 10.0}[together]

    final, units, decisions = drive(score, LEAN, SPACE, defaults=DEFAULTS)
    assert decisions[0]["phase"] == SCREENING_PHASE
    winner = final["winner"]
    assert (winner["hidden"], winner["activation"], winner["epochs"]) == ("256,256", "relu", 8)
    blind = Strategy((0,), STRATEGY.judge_seeds, False, "none", 0, 1, lean=True)
    assert drive(score, blind, SPACE, defaults=DEFAULTS)[0]["winner"] is None
    assert sum(unit.phase == SCREENING_PHASE for unit in units) <= most_units(SPACE, LEAN)[SCREENING_PHASE]


def test_the_effects_name_what_helps_and_their_promise_is_tried() -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        helps = 3 * (numbers["hidden"] == "256,256") + 2 * (numbers["epochs"] == 8) - (numbers["activation"] == "relu")
        return helps - 1.5 * (numbers["learning_rate"] == 1e-2)

    _, units, decisions = drive(score, LEAN, SPACE, defaults=DEFAULTS)
    effects = decisions[0]["effects"]
    assert effects["hidden"] > effects["epochs"] > 0 > max(effects["activation"], effects["learning_rate"])
    # Of the 16 combinations 8 are in the design; the one with both that help and neither that harms is tried.
    assert decisions[0]["best"] == {"epochs": 8, "hidden": "256,256"}
    tried = [unit.setting for unit in units if unit.phase == SCREENING_PHASE]
    assert {"epochs": 8, "hidden": "256,256"} in tried and len(tried) in (7, 8)


def test_networks_are_not_tried_again_one_by_one() -> None:
    def score(numbers: dict[str, Any], seed: int) -> float:
        return noise({name: numbers[name] for name in ("learning_rate", "epochs")}, seed, 1.0)

    _, units, _ = drive(score, LEAN, SPACE, defaults=DEFAULTS)
    assert not [unit for unit in units if unit.phase == "A"]


def test_without_three_bold_changes_there_is_no_screening() -> None:
    space = SearchSpace((SPACE.phases[1],))
    _, units, decisions = drive(lambda n, seed: 0.0, LEAN, space, defaults=DEFAULTS)
    assert SCREENING_PHASE not in {unit.phase for unit in units} | {one["phase"] for one in decisions}
    assert SCREENING_PHASE not in most_units(space, LEAN)


def test_clear_steps_leave_out_values_that_are_near() -> None:
    gammas = Axis("gamma", (0.9, 0.95, 0.98, 0.99, 0.995, 0.999))
    assert coarse(gammas, 0.99).values == (0.95, 0.99, 0.999)  # 1 - gamma is 5 times and a tenth of 0.01
    assert coarse(Axis("epochs", (1, 2, 4, 5, 10, 20)), 10).values == (1, 2, 5, 10, 20)
    assert coarse(Axis("max_grad_norm", (0.5, 1.0, 2.0)), 1.0).values == (0.5, 1.0, 2.0)
