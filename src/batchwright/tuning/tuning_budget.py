"""How a budget is spent: the length of a unit, how much of the playbook fits, and a forecast of the cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchwright.core.errors import UserError
from batchwright.planning.quantity import counted
from batchwright.tuning.playbook import (
    DEFAULT_PHASE,
    JUDGING_PHASE,
    LOCAL,
    NONE,
    SEARCH_PHASE,
    SURFACE,
    Strategy,
    least_units,
    most_units,
    needed_units,
)
from batchwright.tuning.screening import SCREENING_PHASE
from batchwright.tuning.search_space import EACH, GRID, RULE, Axis, SearchSpace
from batchwright.tuning.setting_moves import MOST_WALKED, thinned

LEAST_ITERATIONS = 10
"""A unit with fewer is no learning curve."""
TIME_SHARE = 0.85
"""Of a time budget that is planned for: a forecast is rarely better than this."""
CONFIRMED = 6
"""Settings that get a second tuning seed where each had one."""
COMPILED_IN = frozenset(
    {
        "rollout_steps",
        "minibatch_transitions",
        "num_envs",
        "hidden",
        "activation",
        "epochs",
        "baseline",
        "advantage_norm",
        "adam_beta2",
        "value_rate_factor",
    }
    | {"updates_per_iteration", "transitions_per_update"}
)
"""Numbers of the default spaces of which every value takes an update program of its own."""
SHAPES = frozenset({"rollout_steps", "num_envs", "hidden", "activation"})
"""Those of them that change every program, that of collection too."""
MEASURED = frozenset({"normalize_rewards", "normalize_obs"})
"""Numbers of which a value takes another program of running statistics, which is far smaller."""
MEASURED_COST = 0.2
"""Of the time of an update program."""
COMPILED_SHARE = 0.45
"""Of the settings of the joint search over a response surface, those that take a program of their own."""
BEYOND_EDGE = 0.5
"""How often the best value of a number lies at the edge of its range, so that one beyond it is tried."""
MORE_JUDGING = 3
"""Seeds more where judging leaves it open."""
LEFT_OPEN = 1 / 3
"""How often it does."""
LEAN_STEPS = 1.5
"""Steps along a number that a lean phase takes on average."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Speed:
    """What the default setting costs on this machine."""

    seconds_per_step: float
    update_share: float
    """Of that time, what the updates take."""
    unit_seconds: float
    """Of every unit beside its iterations: start, last evaluation, checkpoint."""
    compile_seconds: float
    """Of every value of a number that the update has compiled in."""
    spread: float
    """Spread of the iterations' times, as a share of their median."""
    shape_cost: float = 1.0
    """Of a value that changes the shape of arrays, as a multiple of `compile_seconds`: it compiles every program."""
    bold_cost: float = 1.0
    """Time of a step of the screening's boldest setting, as a multiple of the default's: it updates more often, and a
    larger network."""

    @property
    def screened_cost(self) -> float:
        """The mean cost of a screening's settings: the larger network and the epochs multiply, each in half of them."""
        return float(((1.0 + self.bold_cost**0.5) / 2) ** 2)

    def to_json(self) -> dict[str, float]:
        return {name: float(f"{value:.3g}") for name, value in vars(self).items()}


@dataclass(frozen=True)
class Allocation:
    """What a budget is spent on."""

    strategy: Strategy
    unit_steps: int
    units: dict[str, int]
    """About, by phase."""

    @property
    def count(self) -> int:
        """Units of the whole tuning at most."""
        return self.strategy.units or sum(self.units.values())

    @property
    def steps(self) -> int:
        return self.unit_steps * self.count


def read_seconds(text: str) -> float:
    """The seconds of `90s`, `30m`, `2h` or `1.5d`."""
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * UNITS[unit]
    except (KeyError, ValueError):
        raise UserError(f"--budget {text[:40]!r} is not a time.", ["--budget 30m", "--budget 2h"]) from None
    if not 0 < seconds < 1e8:
        raise UserError(f"--budget {text[:40]!r} is out of range.", ["--budget 30m", "--budget 2h"])
    return seconds


def read_steps(text: str) -> int:
    """The steps of `200000`, `200k` or `5M`."""
    factor = {"k": 10**3, "K": 10**3, "m": 10**6, "M": 10**6}.get(text[-1:], 1)
    try:
        steps = float(text[:-1] if factor > 1 else text) * factor
        if not 1 <= steps < 1e12 or steps != int(steps):
            raise ValueError
    except ValueError:
        raise UserError(f"--budget-steps {text[:40]!r} is not a number of steps.", ["--budget-steps 5M"]) from None
    return int(steps)


def strategies(base: Strategy, free_seeds: bool, first_seed: int, narrow: bool = False) -> list[Strategy]:
    """Ways to play the playbook, the richest first; what was stated stays.

    The last one goes in steps without the minor numbers, so that the whole playbook fits into 60 units. Of a narrow
    space, whose phases or numbers were chosen, all values are tried.
    """
    found = []
    ways = ((True, 2, 32, 3), (False, 2, 16, 3), (False, 1, 24, 3), (False, 1, 8, 2), (False, 1, 24, 1))
    for at, (grids, seeds, settings, judged) in enumerate(ways):
        count = seeds if free_seeds else len(base.tune_seeds)
        tune = tuple(range(first_seed, first_seed + count))
        size = {NONE: 0, LOCAL: min(settings, 8)}.get(base.search, settings)
        confirmed = CONFIRMED if count == 1 else 0
        way = replace(base, grids=grids, tune_seeds=tune, search_settings=size, confirmed=confirmed)
        way = replace(way, screened=base.search == SURFACE, lean=at == len(ways) - 1, more_judging=MORE_JUDGING)
        found.append(replace(way, contestants=min(base.contestants, judged)))
    found = found[:-1] if narrow else found
    return [strategy for at, strategy in enumerate(found) if strategy not in found[:at]]


@dataclass(frozen=True)
class Budget:
    """What may be spent, and what it buys on this machine."""

    steps: int | None
    seconds: float | None
    speed: Speed
    workers: int
    space: SearchSpace
    way: Strategy | None = None
    """The way that is planned for: it decides how much is compiled."""

    def affordable(self, count: int) -> float:
        """Steps that each of so many units may take."""
        if self.steps is not None:
            return self.steps / count
        per_step = self.speed.seconds_per_step * self.speed.screened_cost
        return max(0.0, self._seconds_of_units(count)) * self.workers / (count * per_step)

    def units(self, unit_steps: int) -> int:
        """Units of so many steps that can be afforded."""
        if self.steps is not None:
            return self.steps // unit_steps
        per_step = self.speed.seconds_per_step * self.speed.screened_cost
        unit = (unit_steps * per_step + self.speed.unit_seconds) / self.workers
        return int(self._seconds_of_units(0) / unit)

    def _seconds_of_units(self, count: int) -> float:
        """Of the time, what is left for the steps of so many units."""
        assert self.seconds is not None
        compiling = compilations(self.space, self.speed, self.workers, self.way) * self.speed.compile_seconds
        return TIME_SHARE * self.seconds - count * self.speed.unit_seconds / self.workers - compiling


def allocate(
    budget: Budget,
    ways: Sequence[Strategy],
    *,
    wanted_steps: int,
    length_is_stated: bool,
    iteration_steps: int,
    multiple: int,
) -> Allocation:
    """The richest way whose units get their wanted length; else the leanest, with shorter units, or with fewer.

    A unit's steps are a multiple of `multiple`, which holds whole iterations of every rollout size that is tried.
    """
    wanted = -(-wanted_steps // multiple) * multiple
    for way in ways:
        budget, units = replace(budget, way=way), most_units(budget.space, way)
        if budget.affordable(sum(units.values())) >= wanted:
            return Allocation(way, wanted, units)
    way = ways[-1]
    units = most_units(budget.space, way)
    affordable = int(budget.affordable(sum(units.values()))) // multiple * multiple
    shortest = -(-LEAST_ITERATIONS * iteration_steps // multiple) * multiple
    least = wanted if length_is_stated else min(wanted, shortest)
    if affordable >= least:
        return Allocation(way, affordable, units)
    needed = sum(needed_units(budget.space, way).values())
    if budget.affordable(needed) < least:
        raise _too_small(needed, least, budget)
    way = replace(way, units=max(needed, min(sum(units.values()), budget.units(least))))
    return Allocation(way, least, units)


def _too_small(count: int, least: int, budget: Budget) -> UserError:
    needed, speed, workers = least * count, budget.speed, budget.workers
    per_step = speed.seconds_per_step * speed.screened_cost
    minutes = (needed * per_step / workers + count * speed.unit_seconds / workers) / TIME_SHARE
    minutes = (
        minutes + compilations(budget.space, speed, workers, budget.way) * speed.compile_seconds / TIME_SHARE
    ) / 60
    small = f"a budget of {(budget.seconds or 0) / 60:.3g} minutes"
    stated = small if budget.steps is None else f"--budget-steps {budget.steps:,}"
    enough = f"--budget {minutes * 1.02 + 0.05:.1f}m" if budget.steps is None else f"--budget-steps {needed}"
    return UserError(
        f"{stated} is too small: {counted(count, 'unit')} of at least {least:,} steps are {needed:,} steps, "
        f"about {minutes:.1f} minutes here.",
        [enough, "--phases B", "--search none"],
    )


def compilations(
    space: SearchSpace, speed: Speed, workers: int, strategy: Strategy | None = None, searched: int | None = None
) -> float:
    """Update programs that are compiled one after the other, about; `searched` are the units that a joint search gets.

    The default's, one for every other value of a number that is compiled in, one where changes are tried together, one
    for each setting of a screening and for most of a joint search. A value that changes every program counts for more.
    A second worker takes about as long to start and to load what the first one compiled.
    The measurement of the speed has compiled what all of them share in one worker.
    """
    found = 1.0 + (workers > 1)
    lean = strategy is not None and strategy.lean
    for phase in space.phases:
        compiled = [axis for axis in (thinned(phase.axes) if lean else phase.axes) if axis.name in COMPILED_IN]
        most = LEAN_STEPS if lean else MOST_WALKED if phase.how == RULE else math.inf
        found += sum(min(most, len(axis.values) - 1) * _programs(axis, speed) for axis in compiled)
        found += not lean and phase.how == EACH and bool(compiled) and len(phase.axes) > 1
        if not lean:
            found += BEYOND_EDGE * sum(phase.how == GRID and len(axis.values) > 2 for axis in compiled)
        found += MEASURED_COST * sum(axis.name in MEASURED for axis in phase.axes)
    if strategy is not None and strategy.search == SURFACE:
        compiled_in = {axis.name for phase in space.phases for axis in phase.axes} & COMPILED_IN
        shaped = speed.shape_cost if compiled_in & SHAPES else 1.0
        settings = strategy.search_settings if searched is None else searched / len(strategy.tune_seeds)
        found += COMPILED_SHARE * settings * bool(compiled_in) * (1.0 + shaped) / 2
        return found + shaped * needed_units(space, strategy).get(SCREENING_PHASE, 0) / len(strategy.tune_seeds)
    return found


def _programs(axis: Axis, speed: Speed) -> float:
    """What a value of a compiled number compiles, in update programs."""
    return speed.shape_cost if axis.name in SHAPES else 1.0


def forecast(
    allocation: Allocation, space: SearchSpace, defaults: dict[str, Any], speed: Speed, workers: int
) -> dict[str, Any]:
    """{"units", "steps", "seconds", "least_seconds", "most_seconds", "within"}.

    `seconds` is the time where something beats the default and is judged, `within` how far off it may be, as a share.
    The least is that of a tuning in which nothing does, the most that of one in which the costliest network wins, with
    the most updates.
    """
    spare = max(0, sum(allocation.units.values()) - allocation.count)  # the joint search gets what is left
    searched = max(0, allocation.units.get(SEARCH_PHASE, 0) - spare)
    units = allocation.units | ({SEARCH_PHASE: searched} if SEARCH_PHASE in allocation.units else {})
    compiling = compilations(space, speed, workers, allocation.strategy, searched) * speed.compile_seconds

    def seconds(units: dict[str, int], before: float, after: float) -> float:
        """Of so many units, where those of the screening cost `before` and later ones `after`."""
        total = 0.0
        for letter, count in units.items():
            factor = {DEFAULT_PHASE: 1.0, SCREENING_PHASE: before}.get(letter, after)
            work = allocation.unit_steps * speed.seconds_per_step * _cost(letter, space, defaults, speed) * factor
            total += count * (work + speed.unit_seconds) / workers
        return float(f"{total * min(1.0, allocation.count / sum(units.values())) + compiling:.3g}")

    mean = speed.screened_cost
    sure = math.ceil(units.get(JUDGING_PHASE, 0) - (1 - LEFT_OPEN) * 2 * allocation.strategy.more_judging)
    expected = units | ({JUDGING_PHASE: sure} if JUDGING_PHASE in units else {})
    return {
        "units": allocation.count,
        "units_by_phase": allocation.units,
        "unit_steps": allocation.unit_steps,
        "steps": allocation.steps,
        "seconds": seconds(expected, mean, mean),
        "least_seconds": seconds(least_units(space, allocation.strategy), mean, 1.0),
        "most_seconds": seconds(units, mean, speed.bold_cost),
        "within": round(min(1.0, 0.15 + speed.spread), 2),
    }


def _cost(letter: str, space: SearchSpace, defaults: dict[str, Any], speed: Speed) -> float:
    """Time of a phase's units against the default's: epochs and updates cost in proportion."""
    factor = 1.0
    for phase in space.phases:
        for axis in phase.axes:
            if phase.letter == letter and phase.how == GRID and axis.name in ("epochs", "updates_per_iteration"):
                mean = sum(axis.values) / len(axis.values) / defaults[axis.name]
                factor += speed.update_share * (mean - 1) / len(phase.axes)
    return max(0.1, factor)
