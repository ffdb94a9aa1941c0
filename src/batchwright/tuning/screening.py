"""The screening that comes before the phases: bold changes of several numbers at once.

A fractional factorial design of two levels: with 8 settings, the default among them, each of up to 7 numbers is tried
4 times at either level, together with others. Numbers that help only together are met, which phases in turn miss, and
an effect is a mean over 8 trainings instead of a difference of two.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from batchwright.tuning.search_space import Axis, SearchSpace, Setting, coarse
from batchwright.tuning.setting_moves import Decision, Moves, Player

SCREENING_PHASE = "screening"
BOLD = {
    "rollout_steps": -3,
    "epochs": 1,
    "hidden": 0,
    "activation": 0,
    "learning_rate": 1,
    "updates_per_iteration": 1,
    "transitions_per_update": 1,
    "polyak": 1,
}
"""By how many values a number is moved from the default: towards more updates of fewer transitions, and towards other
networks (0: the first other value). Published settings of PPO mostly differ so from its common start.

Not the minibatch: with a quarter of it too, the boldest setting took 29 times the default's time on Pendulum-v1."""
FEWEST, MOST = 3, 7


def bold_values(space: SearchSpace, defaults: Setting) -> dict[str, Any]:
    """The other level of each number that is screened."""
    found: dict[str, Any] = {}
    for name, steps in BOLD.items():
        axis = space.axis(name)
        if axis is not None and (value := _bold(axis, defaults[name], steps)) is not None:
            found[name] = value
    return dict(itertools.islice(found.items(), MOST)) if len(found) >= FEWEST else {}


def _bold(axis: Axis, default: Any, steps: int) -> Any | None:
    if steps == 0:
        return next((value for value in axis.values if value != default), None)
    values = coarse(axis, default).values
    at = max(0, min(len(values) - 1, values.index(default) + steps))
    return None if values[at] == default else values[at]


def design(count: int) -> list[tuple[bool, ...]]:
    """Which of so many numbers are moved in each setting; the first setting moves none.

    Further columns are products of the first ones, so that no two effects are confounded with each other.
    """
    base = max(2, math.ceil(math.log2(count + 1)))
    found = []
    for signs in itertools.product((-1, 1), repeat=base):
        columns = list(signs)
        for size in range(2, base + 1):
            # An even number of factors turns the sign, so that the first setting is low throughout.
            turn = -1 if size % 2 == 0 else 1
            columns += [turn * math.prod(chosen) for chosen in itertools.combinations(signs, size)]
        found.append(tuple(sign > 0 for sign in columns[:count]))
    return found


def screening_settings(space: SearchSpace) -> int:
    """Settings that a screening tries at most: the design without the default, and what its effects promise."""
    count = min(MOST, sum(name in BOLD for name in space.names))
    return len(design(count)) if count >= FEWEST else 0


def screen(player: Player, space: SearchSpace) -> Moves:
    """The best of the design and of the setting with every change whose mean effect is an improvement."""
    bold = bold_values(space, player.defaults)
    if not bold:
        player.done(SCREENING_PHASE)
        return {}
    player.screened = frozenset(bold)
    moves = design(len(bold))
    tried = [_moved(player, bold, row) for row in moves]
    yield from player.ask(SCREENING_PHASE, tried)
    effects = _effects(player, list(bold), moves, tried)
    promised = _moved(player, bold, [effects[name] > 0 for name in bold])
    yield from player.ask(SCREENING_PHASE, [promised])
    best = player.scores.best([*tried, promised])
    player.done(SCREENING_PHASE)
    record = {"phase": SCREENING_PHASE, "best": best, "score": player.scores.of(best), "effects": effects}
    yield Decision({**record, "bold": bold})
    return best


def _moved(player: Player, bold: Setting, row: Sequence[bool]) -> Setting:
    setting: Setting = {}
    for (name, value), moved in zip(bold.items(), row, strict=True):
        setting = player.changed(setting, name, value) if moved else setting
    return setting


def _effects(
    player: Player, names: Sequence[str], moves: Sequence[Sequence[bool]], tried: Sequence[Setting]
) -> dict[str, float]:
    """Mean rank of the settings that move a number above that of the others: ranks, as a training may diverge."""
    scores = [player.scores.rank(setting) for setting in tried]
    ranks = [sum(other < score for other in scores) + 0.5 * (scores.count(score) - 1) for score in scores]
    half = len(moves) / 2
    return {
        name: math.fsum(rank * (1 if row[at] else -1) for rank, row in zip(ranks, moves, strict=True)) / half
        for at, name in enumerate(names)
    }
