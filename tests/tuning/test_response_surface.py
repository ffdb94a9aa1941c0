"""The joint search over a response surface: repeats, follows what many settings say, not one lucky seed."""

from __future__ import annotations

import math
from typing import Any

from test_playbook import STRATEGY, drive, noise

from batchwright.tuning.playbook import SEARCH_PHASE, Strategy
from batchwright.tuning.response_surface import Surface, axes_of, coordinate, normal_scores
from batchwright.tuning.search_space import EACH, Axis, Phase, SearchSpace, Setting
from batchwright.tuning.setting_moves import Player

RATE, NET = Axis("learning_rate", (1e-4, 1e-3, 1e-2)), Axis("hidden", ("64,64", "256,256"))
DEFAULTS: Setting = {"learning_rate": 1e-3, "hidden": "64,64"}
SEARCHING = Strategy((0,), STRATEGY.judge_seeds, False, "surface", 12, 1, confirmed=6)


def player_of(scores: list[tuple[Setting, float | None]]) -> Player:
    player = Player(dict(DEFAULTS), (0,), 100, {})
    for setting, score in scores:
        player.scores.add(setting, [{"score": score}])
    return player


def test_a_number_acts_by_factors_and_a_word_by_being_another() -> None:
    assert math.isclose(coordinate(RATE, 3e-3) - coordinate(RATE, 1e-3), 1.0)
    gamma = Axis("gamma", (0.9, 0.99, 0.999))
    assert math.isclose(coordinate(gamma, 0.99) - coordinate(gamma, 0.97), 1.0)  # 0.03 / 3 = 0.01
    assert coordinate(NET, "64,64") != coordinate(NET, "256,256")


def test_scores_count_by_rank_and_equal_ones_alike() -> None:
    found = normal_scores([-math.inf, 5.0, 5.0, 1e9])
    assert found[0] == -found[3] and found[1] == found[2] == 0.0
    # Quantiles 1/8 and 7/8 of the normal distribution.
    assert math.isclose(found[3], 1.1503, abs_tol=1e-4)


def test_one_lucky_score_among_bad_neighbours_is_predicted_below_a_good_region() -> None:
    good: list[tuple[Setting, float | None]] = [({"learning_rate": 1e-3 * 1.2**i}, 10.0 + 0.1 * i) for i in range(6)]
    bad: list[tuple[Setting, float | None]] = [({"learning_rate": 1e-4 * 1.05**i}, -10.0 - 0.1 * i) for i in range(9)]
    lucky: Setting = {"learning_rate": 1.2e-4}
    player = player_of([*good, *bad, (lucky, 20.0)])
    surface = Surface(axes_of([RATE, NET], player.scores.settings, DEFAULTS), player)
    assert player.scores.best(player.scores.settings) == lucky
    assert surface.means([{"learning_rate": 1.5e-3}])[0] > surface.means([lucky])[0]


def test_proposals_repeat_are_new_and_move_towards_what_helps() -> None:
    tried: list[tuple[Setting, float | None]] = [({}, 0.0), ({"hidden": "256,256"}, 5.0)]
    tried += [({"learning_rate": 1e-2}, None), ({"learning_rate": 1e-4}, -5.0)]
    tried += [({"hidden": "256,256", "learning_rate": 1e-4}, 0.5)]
    player = player_of(tried)

    def proposals(seed: str) -> list[Setting]:
        surface = Surface(axes_of([RATE, NET], player.scores.settings, DEFAULTS), player)
        return surface.propose(4, seed, ["learning_rate", "hidden"])

    assert proposals("0/5") == proposals("0/5") != proposals("1/5")
    found = proposals("0/5")
    assert len(found) == 4 and not [setting for setting in found if setting in player.scores.settings]
    assert found[0]["hidden"] == "256,256"
    words = Axis("activation", ("tanh", "relu"))
    player.defaults["activation"] = "tanh"
    fixed = Surface(axes_of([RATE, NET, words], player.scores.settings, player.defaults), player)
    assert not [setting for setting in fixed.propose(4, "0", ["learning_rate"]) if "activation" in setting]


def test_numbers_that_help_together_are_found_after_phases_in_turn_missed_them() -> None:
    """Each alone is worse; phases in turn keep the default, which is then nothing to judge."""
    space = SearchSpace((Phase("C", "variance", EACH, (NET, Axis("baseline", (True, False)))),))

    def score(numbers: dict[str, Any], seed: int) -> float:
        both = (numbers.get("hidden") == "256,256") + (numbers["baseline"] is False)
        return {0: 0.0, 1: -1.0, 2: 10.0}[both] + noise({"seed": seed}, seed, 0.1)

    known = {"hidden": "64,64"}
    phases_alone = Strategy((0,), STRATEGY.judge_seeds, False, "none", 0, 1)
    assert drive(score, phases_alone, space, defaults=known)[0]["winner"] is None
    final, units, decisions = drive(score, SEARCHING, space, defaults=known)
    assert final["winner"] == {"baseline": False, "hidden": "256,256"}
    assert (final, units, decisions) == drive(score, SEARCHING, space, defaults=known)
    assert 0 < sum(unit.phase == SEARCH_PHASE for unit in units) <= 12


def test_where_nothing_matters_the_joint_search_finds_no_winner_in_nine_of_ten() -> None:
    strategy = Strategy((0,), STRATEGY.judge_seeds, False, "surface", 12, 1, confirmed=6, lean=True)
    winners = [drive(lambda n, seed, salt=salt: noise(n, seed, 1.0, salt), strategy)[0]["winner"] for salt in range(20)]
    assert sum(winner is not None for winner in winners) <= 2
