"""How the phases of the playbook move from one setting to better ones.

Generators that yield batches of units; the reply to a batch is the list of its ledger lines, in its order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from batchwright.tuning.rollout_rule import CRAWLS, curve_shape
from batchwright.tuning.search_space import MINOR, Axis, Phase, Setting, coarse, next_beyond

MOST_WALKED = 3
"""Rollout sizes that the rule tries at most, and minibatches."""
UPWARDS = ("epochs",)
"""Numbers of which a larger value is tried first where a small budget goes in steps: short trainings need it."""
MOST_BEYOND = 2
"""Values beyond the edge of a range that are tried at most."""
COSTLY = ("epochs", "updates_per_iteration")
"""Numbers whose larger values cost time in proportion: one value beyond their range."""


@dataclass(frozen=True)
class UnitRequest:
    """One training: a setting, a seed, and the phase that asks for it."""

    phase: str
    setting: Setting
    seed: int


@dataclass(frozen=True)
class Batch:
    """Units that do not depend on each other; the reply is the list of their ledger lines, in this order."""

    units: tuple[UnitRequest, ...]


@dataclass(frozen=True)
class Decision:
    """What was decided, and from what; the reply is nothing."""

    record: dict[str, Any]


Step = Batch | Decision
Moves = Generator[Step, Any, Setting]


@dataclass
class Scores:
    """The mean score of every setting over the tuning seeds, in the order in which they were first tried."""

    settings: list[Setting] = field(default_factory=list)
    units: list[list[dict[str, Any]]] = field(default_factory=list)

    def of(self, setting: Setting) -> float | None:
        """None where a unit failed: such settings rank last."""
        scores = [unit["score"] for unit in self.units[self.settings.index(setting)]]
        whole = bool(scores) and all(score is not None for score in scores)
        return math.fsum(scores) / len(scores) if whole else None

    def rank(self, setting: Setting) -> float:
        score = self.of(setting)
        return -math.inf if score is None else score

    def add(self, setting: Setting, units: Sequence[dict[str, Any]]) -> None:
        """The units of a new setting, or further ones."""
        if setting not in self.settings:
            self.settings.append(setting)
            self.units.append([])
        self.units[self.settings.index(setting)] += units

    def shape(self, setting: Setting) -> str | None:
        """What its learning curve shows: see `rollout_rule`."""
        return curve_shape(self.units[self.settings.index(setting)])

    def best(self, among: Iterable[Setting]) -> Setting:
        """The setting with the highest mean; the first of equal ones."""
        return max(among, key=self.rank)

    def ranked(self) -> list[Setting]:
        return sorted(self.settings, key=lambda setting: -self.rank(setting))


@dataclass
class Player:
    """What the phases of one tuning share."""

    defaults: Setting
    tune_seeds: tuple[int, ...]
    units_left: int
    """Units that may still be asked for."""
    needed: dict[str, int]
    """Units that each phase may need at most, as far as they were not asked for; what is not needed is spare."""
    scores: Scores = field(default_factory=Scores)
    screened: frozenset[str] = frozenset()
    """Numbers whose other level was tried in half of the settings before the phases."""

    @property
    def spare(self) -> int:
        """Units that no phase needs."""
        return self.units_left - sum(self.needed.values())

    def done(self, phase: str) -> None:
        """What a phase did not need becomes spare."""
        self.needed.pop(phase, None)

    def ask(
        self, phase: str, settings: Sequence[Setting], seeds: Sequence[int] | None = None
    ) -> Generator[Step, Any, list[Setting]]:
        """Scores the settings that were not tried before, or all of them with other seeds; returns them once each."""
        wanted = [setting for at, setting in enumerate(settings) if setting not in settings[:at]]
        new = [setting for setting in wanted if seeds is not None or setting not in self.scores.settings]
        chosen = self.tune_seeds if seeds is None else seeds
        if new:
            units = tuple(UnitRequest(phase, setting, seed) for setting in new for seed in chosen)
            found = yield Batch(units)
            self.units_left -= len(units)
            self.needed[phase] = max(0, self.needed.get(phase, 0) - len(units))
            for at, setting in enumerate(new):
                self.scores.add(setting, found[at * len(chosen) : (at + 1) * len(chosen)])
        return wanted

    def value(self, setting: Setting, name: str) -> Any:
        return setting.get(name, self.defaults[name])

    def changed(self, setting: Setting, name: str, value: Any) -> Setting:
        return changed(setting, name, value, self.defaults)


def walk_rollout(player: Player, phase: str, axis: Axis, best: Setting, seen: list[dict[str, Any]]) -> Moves:
    """Half and double of the rollout, then on in the better direction while that helps; `seen` gets what it saw.

    Of two that are equally good the rule decides: learning that crawls halves, all else doubles.
    """
    now, shape = player.value(best, axis.name), player.scores.shape(best)
    at = axis.values.index(now)
    around = [axis.values[i] for i in ((at - 1, at + 1) if shape == CRAWLS else (at + 1, at - 1)) if _is_place(axis, i)]
    seen.append({axis.name: now, "curve": shape, "next": around})
    tried = yield from player.ask(phase, [player.changed(best, axis.name, value) for value in around])
    better = player.scores.best([best, *tried])
    direction = axis.values.index(player.value(better, axis.name)) - at
    for _ in range(MOST_WALKED - len(around)):
        best, at = better, at + direction
        if direction == 0 or not _is_place(axis, at + direction):
            break
        setting = player.changed(best, axis.name, axis.values[at + direction])
        yield from player.ask(phase, [setting])
        better = player.scores.best([best, setting])
        if better == best:
            break
    return better


def _is_place(axis: Axis, at: int) -> bool:
    return 0 <= at < len(axis.values)


def climb(player: Player, phase: str, axis: Axis, best: Setting, directions: Sequence[int] = (-1, 1)) -> Moves:
    """Goes down the values of a number while that is better; up, where the first step down was not."""
    start = list(axis.values).index(player.value(best, axis.name))
    left = MOST_WALKED
    for direction in directions:
        at = start + direction
        while 0 <= at < len(axis.values) and left > 0:
            setting = player.changed(best, axis.name, axis.values[at])
            yield from player.ask(phase, [setting])
            left -= 1
            if player.scores.rank(setting) <= player.scores.rank(best):
                break
            best, at = setting, at + direction
        if player.value(best, axis.name) != axis.values[start]:
            break
    return best


def cross(player: Player, phase: Phase, best: Setting, whole: bool) -> Moves:
    """A phase as a grid, or number after number; spare units go on beyond an edge at which the best value lies."""
    for axes in [phase.axes] if whole else [(axis,) for axis in phase.axes]:
        tried = yield from player.ask(phase.letter, grid(axes, best, player.defaults))
        best = player.scores.best(tried)
        for axis in axes:
            best = yield from _go_beyond(player, phase.letter, axis, best)
    return best


def step_by_step(player: Player, phase: Phase, best: Setting) -> Moves:
    """A phase with few units: number after number in clear steps from the best setting so far, each kept if better."""
    for axis in thinned(phase.axes):
        steps = coarse(axis, player.defaults[axis.name])
        now = player.value(best, axis.name)
        if now not in steps.values:
            steps = coarse(axis, now) if now in axis.values else steps
        if now in steps.values:
            directions = (1, -1) if axis.name in UPWARDS else (-1, 1)
            best = yield from climb(player, phase.letter, steps, best, directions)
    return best


def thinned(axes: Sequence[Axis]) -> Sequence[Axis]:
    """The axes without the minor ones; all of them where no other is left."""
    return [axis for axis in axes if axis.name not in MINOR] or axes


def _go_beyond(player: Player, phase: str, axis: Axis, best: Setting) -> Moves:
    values = axis.values
    for _ in range(1 if axis.name in COSTLY else MOST_BEYOND):
        value = next_beyond(axis.name, values, player.value(best, axis.name))
        if value is None or player.spare < len(player.tune_seeds):
            break
        setting = player.changed(best, axis.name, value)
        yield from player.ask(phase, [setting])
        if player.scores.rank(setting) <= player.scores.rank(best):
            break
        best, values = setting, tuple(sorted((*values, value)))
    return best


def each(player: Player, phase: Phase, best: Setting) -> Moves:
    """Every change by itself, then all that were better together, where several were."""
    changes = [
        (axis.name, player.changed(best, axis.name, value))
        for axis in phase.axes
        for value in axis.values
        if value != player.value(best, axis.name)
    ]
    yield from player.ask(phase.letter, [setting for _, setting in changes])
    better: dict[str, Setting] = {}
    for name, setting in changes:
        if player.scores.rank(setting) > player.scores.rank(better.get(name, best)):
            better[name] = setting
    candidates = [best, *better.values()]
    if len(better) > 1:
        joined = dict(best)
        for name, setting in better.items():
            joined = player.changed(joined, name, player.value(setting, name))
        candidates += yield from player.ask(phase.letter, [joined])
    return player.scores.best(candidates)


def grid(axes: Sequence[Axis], best: Setting, defaults: Setting) -> list[Setting]:
    """All combinations of the axes on top of a setting, that setting first."""
    found = [best]
    for values in itertools.product(*(axis.values for axis in axes)):
        setting = best
        for axis, value in zip(axes, values, strict=True):
            setting = changed(setting, axis.name, value, defaults)
        found.append(setting)
    return found


def changed(setting: Setting, name: str, value: Any, defaults: Setting) -> Setting:
    """A setting with one number changed; a number at its default is left out, so that equal settings are equal."""
    new = {key: kept for key, kept in setting.items() if key != name}
    return new if value == defaults[name] else {key: {**new, name: value}[key] for key in sorted({*new, name})}


def edges(phase: Phase, best: Setting, player: Player) -> list[str]:
    """Numbers that a phase moved to the lowest or highest value that was tried: a better one may lie beyond."""
    found = []
    for axis in phase.axes:
        numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in axis.values)
        if numeric and len(axis.values) > 2 and axis.name in best:
            tried = [player.value(setting, axis.name) for setting in player.scores.settings]
            found += [axis.name] * (best[axis.name] in (min(tried), max(tried)))
    return found
