"""The tuning playbook: phases in turn, a joint search around the best setting, judging on fresh seeds.

A generator that yields batches of units and decisions. It sees results in unit order only, never in the order of
completion, and nothing else: the same results give the same decisions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from batchwright.tuning.judging import verdict
from batchwright.tuning.rollout_rule import curve_shape, next_rollout
from batchwright.tuning.search_space import EACH, RULE, SEARCHED, Axis, Phase, SearchSpace, Setting, nearby

DEFAULT_PHASE, SEARCH_PHASE, JUDGING_PHASE = "default", "search", "judging"
SEARCH_BATCH = 4
"""Settings that a sampler suggests at once, whatever the number of workers: its suggestions depend on it."""
NONE, LOCAL = "none", "local"
ROLLOUT_PHASE, MOST_WALKED = "A", 2
"""The phase of the rollout size, and the rollout sizes that it tries at most."""


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


@dataclass(frozen=True)
class Strategy:
    """How much of the playbook a budget allows."""

    tune_seeds: tuple[int, ...]
    judge_seeds: tuple[int, ...]
    grids: bool
    """Whether grids are tried whole; else axis after axis."""
    search: str
    """`none`, `local`, or a sampler of Optuna: `sobol`, `tpe`, `gp`."""
    search_settings: int
    contestants: int = 3
    """Settings that are judged beside the default."""
    sampler_seed: int = 0


@dataclass
class Scores:
    """The mean score of every setting over the tuning seeds, in the order in which they were first tried."""

    settings: list[Setting] = field(default_factory=list)
    means: list[float | None] = field(default_factory=list)
    """None where a unit failed: such settings rank last."""
    shapes: list[str | None] = field(default_factory=list)
    """What each learning curve shows: see `rollout_rule`."""

    def of(self, setting: Setting) -> float | None:
        return self.means[self.settings.index(setting)]

    def add(self, setting: Setting, units: Sequence[dict[str, Any]]) -> None:
        scores = [unit["score"] for unit in units]
        whole = bool(scores) and all(score is not None for score in scores)
        self.settings.append(setting)
        self.shapes.append(curve_shape(units))
        self.means.append(math.fsum(scores) / len(scores) if whole else None)

    def shape(self, setting: Setting) -> str | None:
        return self.shapes[self.settings.index(setting)]

    def best(self, among: Iterable[Setting]) -> Setting:
        """The setting with the highest mean; the first of equal ones."""
        return max(among, key=lambda setting: _rank(self.of(setting)))

    def ranked(self) -> list[Setting]:
        return sorted(self.settings, key=lambda setting: -_rank(self.of(setting)))


def _rank(score: float | None) -> float:
    return -math.inf if score is None else score


def play(space: SearchSpace, defaults: Setting, strategy: Strategy) -> Generator[Step, Any, dict[str, Any]]:
    """Plays the whole playbook; returns the verdict. `defaults` holds the default value of every axis."""
    scores = Scores()
    best: Setting = {}
    yield from _try(scores, DEFAULT_PHASE, [best], strategy)
    for phase in space.phases:
        best = yield from _play_phase(phase, best, scores, defaults, strategy)
    if strategy.search != NONE:
        best = yield from _search(space, best, scores, defaults, strategy)
    return (yield from _judge(scores, strategy))


def _try(
    scores: Scores, phase: str, settings: Sequence[Setting], strategy: Strategy
) -> Generator[Step, Any, list[Setting]]:
    """Scores the settings that were not tried before; returns all of them, without repetitions."""
    wanted = [setting for at, setting in enumerate(settings) if setting not in settings[:at]]
    new = [setting for setting in wanted if setting not in scores.settings]
    if new:
        units = tuple(UnitRequest(phase, setting, seed) for setting in new for seed in strategy.tune_seeds)
        found = yield Batch(units)
        size = len(strategy.tune_seeds)
        for at, setting in enumerate(new):
            scores.add(setting, found[at * size : (at + 1) * size])
    return wanted


def _play_phase(
    phase: Phase, best: Setting, scores: Scores, defaults: Setting, strategy: Strategy
) -> Generator[Step, Any, Setting]:
    before, seen = best, {}
    if phase.how == RULE:
        best, walked = yield from _walk(phase.axes[0], best, scores, defaults, strategy)
        seen = {"seen": walked}
    elif phase.how == EACH:
        best = yield from _each(phase, best, scores, defaults, strategy)
    else:
        stages = [phase.axes] if strategy.grids else [(axis,) for axis in phase.axes]
        for axes in stages:
            tried = yield from _try(scores, phase.letter, grid(axes, best, defaults), strategy)
            best = scores.best(tried)
    yield Decision({"phase": phase.letter, **_kept(best, scores), "from": before, "edges": edges(phase, best), **seen})
    return best


def _walk(
    axis: Axis, best: Setting, scores: Scores, defaults: Setting, strategy: Strategy
) -> Generator[Step, Any, tuple[Setting, list[dict[str, Any]]]]:
    """Follows the rule for the rollout size while each step is better than the one before; returns what it saw too."""
    seen: list[dict[str, Any]] = []
    while len(seen) < MOST_WALKED:
        now, shape = best.get(axis.name, defaults[axis.name]), scores.shape(best)
        value = next_rollout(axis.values, now, shape)
        seen.append({axis.name: now, "curve": shape, "next": value})
        if value is None:
            break
        setting = changed(best, axis.name, value, defaults)
        yield from _try(scores, ROLLOUT_PHASE, [setting], strategy)
        if _rank(scores.of(setting)) <= _rank(scores.of(best)):
            break
        best = setting
    return best, seen


def _each(
    phase: Phase, best: Setting, scores: Scores, defaults: Setting, strategy: Strategy
) -> Generator[Step, Any, Setting]:
    """Every change by itself, then all that were better together, where several were."""
    changes = [
        (axis.name, changed(best, axis.name, value, defaults))
        for axis in phase.axes
        for value in axis.values
        if value != best.get(axis.name, defaults[axis.name])
    ]
    yield from _try(scores, phase.letter, [setting for _, setting in changes], strategy)
    better: dict[str, Setting] = {}
    for name, setting in changes:
        if _rank(scores.of(setting)) > _rank(scores.of(better.get(name, best))):
            better[name] = setting
    candidates = [best, *better.values()]
    if len(better) > 1:
        joined = dict(best)
        for name, setting in better.items():
            joined = changed(joined, name, setting.get(name, defaults[name]), defaults)
        candidates += yield from _try(scores, phase.letter, [joined], strategy)
    return scores.best(candidates)


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


def edges(phase: Phase, best: Setting) -> list[str]:
    """Numbers that a phase moved to the lowest or highest value that was tried: a better one may lie beyond."""
    found = []
    for axis in phase.axes:
        numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in axis.values)
        if numeric and len(axis.values) > 2 and best.get(axis.name) in (axis.values[0], axis.values[-1]):
            found.append(axis.name)
    return found


def searched_names(space: SearchSpace, best: Setting, defaults: Setting) -> list[str]:
    """Numbers that the joint search varies."""
    current = {**defaults, **best}
    return [name for name in space.names if name in SEARCHED and current[name]]


def _search(
    space: SearchSpace, best: Setting, scores: Scores, defaults: Setting, strategy: Strategy
) -> Generator[Step, Any, Setting]:
    """A small joint search around the best setting: phases in turn miss what numbers do together."""
    names = searched_names(space, best, defaults)
    if not names:
        return best
    current = {**defaults, **best}

    def at(point: Sequence[float]) -> Setting:
        setting = best
        for name, along in zip(names, point, strict=True):
            setting = changed(setting, name, nearby(name, current[name], along), defaults)
        return setting

    tried = [best]
    if strategy.search == LOCAL:
        design = half_fraction(len(names))[: strategy.search_settings]
        tried += yield from _try(scores, SEARCH_PHASE, [at(point) for point in design], strategy)
    else:
        from batchwright.tuning.optuna_search import OptunaSearch

        sampler = OptunaSearch(strategy.search, names, strategy.sampler_seed, strategy.search_settings)
        sampler.tell([0.0] * len(names), scores.of(best))
        for start in range(0, strategy.search_settings, SEARCH_BATCH):
            points = sampler.ask(min(SEARCH_BATCH, strategy.search_settings - start))
            new = [at(point) for point in points]
            yield from _try(scores, SEARCH_PHASE, new, strategy)
            tried += new
            for point, setting in zip(points, new, strict=True):
                sampler.tell(point, scores.of(setting))
    best = scores.best(tried)
    yield Decision({"phase": SEARCH_PHASE, **_kept(best, scores), "names": names})
    return best


def half_fraction(count: int) -> list[tuple[float, ...]]:
    """Half steps up and down in all numbers at once: a fractional factorial design of two levels.

    Three numbers take the 4 points of a half fraction, so that main effects are not confounded with each other;
    further ones follow products of the first, as in standard designs of resolution III.
    """
    base = max(1, math.ceil(math.log2(count + 1)))
    found = []
    for signs in itertools.product((-0.5, 0.5), repeat=base):
        point = list(signs)
        for size in range(2, base + 1):
            for chosen in itertools.combinations(range(base), size):
                point.append(0.5 * math.prod(math.copysign(1.0, signs[i]) for i in chosen))
        found.append(tuple(point[:count]))
    return found


def _judge(scores: Scores, strategy: Strategy) -> Generator[Step, Any, dict[str, Any]]:
    """The best settings and the default again, on seeds that no decision has seen."""
    default: Setting = {}
    bar = _rank(scores.of(default))
    better: dict[float, Setting] = {}
    for setting in scores.ranked():
        score = _rank(scores.of(setting))
        if score > bar:  # of settings with equal scores one is enough: they learned alike
            better.setdefault(score, setting)
    contestants = [default, *list(better.values())[: strategy.contestants]]
    # Seed by seed, so that a budget that ends early leaves the same seeds to all.
    units = tuple(UnitRequest(JUDGING_PHASE, setting, seed) for seed in strategy.judge_seeds for setting in contestants)
    found = (yield Batch(units)) if better else []
    judged = [found[at :: len(contestants)] for at in range(len(contestants))]
    final = verdict(contestants, [scores.of(setting) for setting in contestants], judged)
    yield Decision({"phase": JUDGING_PHASE, **final})
    return final


def _kept(best: Setting, scores: Scores) -> dict[str, Any]:
    return {"best": best, "score": scores.of(best)}


def most_units(space: SearchSpace, strategy: Strategy) -> dict[str, int]:
    """Units of each phase at most, by its letter: what a forecast counts with."""
    seeds = len(strategy.tune_seeds)
    found = {DEFAULT_PHASE: seeds}
    for phase in space.phases:
        sizes = [len(axis.values) for axis in phase.axes]
        if phase.how == RULE:
            settings = min(MOST_WALKED, sizes[0] - 1)
        elif phase.how == EACH:
            settings = sum(size - 1 for size in sizes) + (len(sizes) > 1)
        else:
            settings = math.prod(sizes) - 1 if strategy.grids else sum(size - 1 for size in sizes)
        found[phase.letter] = settings * seeds
    if strategy.search != NONE:
        found[SEARCH_PHASE] = strategy.search_settings * seeds
    found[JUDGING_PHASE] = (strategy.contestants + 1) * len(strategy.judge_seeds)
    return found
