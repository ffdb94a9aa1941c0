"""The tuning playbook: phases in turn, a joint search around the best setting, judging on fresh seeds.

A generator that yields batches of units and decisions. It sees results in unit order only, never in the order of
completion, and nothing else: the same results give the same decisions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from batchwright.tuning.judging import SIGNIFICANT, TWO_LOOKS_SIGNIFICANT, for_all, undecided, verdict
from batchwright.tuning.response_surface import Surface, axes_of
from batchwright.tuning.screening import SCREENING_PHASE, screen, screening_settings
from batchwright.tuning.search_space import (
    EACH,
    GRID,
    MINOR,
    RULE,
    SEARCHED,
    Phase,
    SearchSpace,
    Setting,
    nearby,
    next_beyond,
)
from batchwright.tuning.setting_moves import (
    MOST_BEYOND,
    MOST_WALKED,
    Batch,
    Decision,
    Moves,
    Player,
    Step,
    UnitRequest,
    climb,
    cross,
    each,
    edges,
    step_by_step,
    thinned,
    walk_rollout,
)

DEFAULT_PHASE, SEARCH_PHASE, CONFIRM_PHASE, JUDGING_PHASE = "default", "search", "confirm", "judging"
SEARCH_BATCH = 4
"""Settings that a sampler suggests at once, whatever the number of workers: its suggestions depend on it."""
NETWORK = ("hidden", "activation")
"""Not tried by themselves where a screening has tried them together with the rest."""
CONFIRMING_SEEDS = 2
"""Seeds that tell the best settings from lucky ones: one for all of them, one more for the better half."""
NONE, LOCAL, SURFACE = "none", "local", "surface"
LEAST_SEARCHED = 4
"""Units of a joint search before any are kept for a second look of judging."""


@dataclass(frozen=True)
class Strategy:
    """How much of the playbook a budget allows."""

    tune_seeds: tuple[int, ...]
    judge_seeds: tuple[int, ...]
    grids: bool
    """Whether grids are tried whole; else axis after axis."""
    search: str
    """`none`, `local`, `surface`, or a sampler of Optuna: `sobol`, `tpe`, `gp`."""
    search_settings: int
    contestants: int = 3
    """Settings that are judged beside the default."""
    sampler_seed: int = 0
    confirmed: int = 0
    """Settings that are trained with one more tuning seed before some of them are judged."""
    units: int | None = None
    """Units of the whole tuning, where the budget has no room for all that may be asked for."""
    screened: bool = False
    """Whether bold changes of several numbers at once come before the phases."""
    lean: bool = False
    """Whether phases go in clear steps from the best setting so far, without the minor numbers."""
    more_judging: int = 0
    """Seeds more for the default and the likeliest winner, where the judging seeds leave it open."""


def play(space: SearchSpace, defaults: Setting, strategy: Strategy) -> Generator[Step, Any, dict[str, Any]]:
    """Plays the whole playbook; returns the verdict. `defaults` holds the default value of every axis."""
    needed = needed_units(space, strategy)
    most = sum(most_units(space, strategy).values())
    player = Player(defaults, strategy.tune_seeds, most if strategy.units is None else strategy.units, needed)
    best: Setting = {}
    yield from player.ask(DEFAULT_PHASE, [best])
    if strategy.screened:
        best = yield from screen(player, space)
    for phase in space.phases:
        best = yield from _play_phase(phase, best, player, strategy)
    if strategy.search != NONE:
        best = yield from _search(space, best, player, strategy)
    among = yield from _confirm(player, space, strategy)
    return (yield from _judge(player, among, strategy))


def _play_phase(phase: Phase, best: Setting, player: Player, strategy: Strategy) -> Moves:
    before, walked = best, list[dict[str, Any]]()
    if phase.how == RULE:
        for axis in phase.axes:
            if axis.name == "rollout_steps":
                best = yield from walk_rollout(player, phase.letter, axis, best, walked)
            elif not (axis.name in NETWORK and axis.name in player.screened):
                best = yield from climb(player, phase.letter, axis, best)
    elif strategy.lean:
        best = yield from step_by_step(player, phase, best)
    elif phase.how == EACH:
        best = yield from each(player, phase, best)
    else:
        best = yield from cross(player, phase, best, strategy.grids)
    player.done(phase.letter)
    seen = {"seen": walked} if walked else {}
    kept = {**_kept(best, player), "from": before, "edges": edges(phase, best, player)}
    yield Decision({"phase": phase.letter, **kept, **seen})
    return best


def searched_names(space: SearchSpace, best: Setting, defaults: Setting) -> list[str]:
    """Numbers that the joint search varies."""
    current = {**defaults, **best}
    return [name for name in space.names if name in SEARCHED and current[name]]


def _search(space: SearchSpace, best: Setting, player: Player, strategy: Strategy) -> Moves:
    """A small joint search around the best setting: phases in turn miss what numbers do together.

    It leaves units for a second look of judging, unless that would leave it hardly any.
    """
    names = searched_names(space, best, player.defaults)
    spare = player.spare - confirming_units(strategy)
    if spare >= LEAST_SEARCHED + 2 * strategy.more_judging:
        spare -= 2 * strategy.more_judging
    room = spare // len(strategy.tune_seeds)
    size = min(strategy.search_settings, room)
    if strategy.search == SURFACE:
        return (yield from _search_surface(space, best, player, strategy, size))
    if not names or size < 1:
        return best
    current = {**player.defaults, **best}

    def at(point: Sequence[float]) -> Setting:
        setting = best
        for name, along in zip(names, point, strict=True):
            setting = player.changed(setting, name, nearby(name, current[name], along))
        return setting

    tried = [best]
    if strategy.search == LOCAL:
        design = half_fraction(len(names))[:size]
        tried += yield from player.ask(SEARCH_PHASE, [at(point) for point in design])
    else:
        from batchwright.tuning.optuna_search import OptunaSearch

        sampler = OptunaSearch(strategy.search, names, strategy.sampler_seed, size)
        sampler.tell([0.0] * len(names), player.scores.of(best))
        for start in range(0, size, SEARCH_BATCH):
            points = sampler.ask(min(SEARCH_BATCH, size - start))
            new = [at(point) for point in points]
            yield from player.ask(SEARCH_PHASE, new)
            tried += new
            for point, setting in zip(points, new, strict=True):
                sampler.tell(point, player.scores.of(setting))
    best = player.scores.best(tried)
    yield Decision({"phase": SEARCH_PHASE, **_kept(best, player), "names": names})
    return best


def _search_surface(space: SearchSpace, best: Setting, player: Player, strategy: Strategy, size: int) -> Moves:
    """Moves of one to three numbers at once from the settings that a model of all results thinks best."""
    names = [name for name in space.names if not (strategy.lean and name in MINOR and name not in best)]
    done = 0
    while done < size:
        axes = [axis for phase in space.phases for axis in phase.axes]
        surface = Surface(axes_of(axes, player.scores.settings, player.defaults), player)
        count = min(SEARCH_BATCH, size - done)
        new = surface.propose(count, f"{strategy.sampler_seed}/{len(player.scores.settings)}", names)
        if not new:
            break
        yield from player.ask(SEARCH_PHASE, new)
        done += len(new)
    if done:
        best = player.scores.best(player.scores.settings)
        yield Decision({"phase": SEARCH_PHASE, **_kept(best, player), "names": names})
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


def _confirm(player: Player, space: SearchSpace, strategy: Strategy) -> Generator[Step, Any, list[Setting]]:
    """The best settings with one more seed, the better half with two: one seed is luck to a degree.

    Returns those that may be judged.
    """
    better = _better_than_default(player)
    if strategy.search == SURFACE and len(better) > 1:
        axes = [axis for phase in space.phases for axis in phase.axes]
        means = Surface(axes_of(axes, player.scores.settings, player.defaults), player).means(better)
        better = [better[at] for at in sorted(range(len(better)), key=lambda at: -means[at])]
    count = min(strategy.confirmed, player.spare, len(better))
    if count <= 1:
        return better
    seed, among = strategy.tune_seeds[-1] + 1, better[:count]
    while len(among) > 1 and player.spare >= len(among) and seed <= strategy.tune_seeds[-1] + CONFIRMING_SEEDS:
        yield from player.ask(CONFIRM_PHASE, among, [seed])
        confirmed = sorted(among, key=lambda setting: -player.scores.rank(setting))
        among, seed = confirmed[: max(1, len(among) // 2)], seed + 1
    yield Decision({"phase": CONFIRM_PHASE, **_kept(confirmed[0], player), "settings": count})
    return [*confirmed, *(setting for setting in better[:count] if setting not in confirmed)]


def confirming_units(strategy: Strategy) -> int:
    """Units that `_confirm` may ask for."""
    return strategy.confirmed + strategy.confirmed // 2


def _better_than_default(player: Player) -> list[Setting]:
    """Settings that scored above the default, the best first; of settings with equal scores one: they learned alike."""
    found: dict[float, Setting] = {}
    for setting in player.scores.ranked():
        if player.scores.rank(setting) > player.scores.rank({}):
            found.setdefault(player.scores.rank(setting), setting)
    return list(found.values())


def contestants(among: Sequence[Setting], count: int) -> list[Setting]:
    """The best settings that differ from each other in two numbers or more; others where there are too few."""
    found: list[Setting] = []
    for setting in among:
        if all(len(_differences(setting, other)) > 1 for other in found):
            found.append(setting)
    found += [setting for setting in among if setting not in found]
    return sorted(found[:count], key=list(among).index)


def _differences(one: Setting, other: Setting) -> set[str]:
    return {name for name in {*one, *other} if one.get(name) != other.get(name)}


def _judge(player: Player, among: Sequence[Setting], strategy: Strategy) -> Generator[Step, Any, dict[str, Any]]:
    """The best settings and the default again, on seeds that no decision has seen."""
    judged = [{}, *contestants(among, strategy.contestants)]
    # Seed by seed, so that a budget that ends early leaves the same seeds to all.
    units = tuple(UnitRequest(JUDGING_PHASE, setting, seed) for seed in strategy.judge_seeds for setting in judged)
    found = (yield Batch(units)) if len(judged) > 1 else []
    lines = for_all([found[at :: len(judged)] for at in range(len(judged))])
    scores = [player.scores.of(setting) for setting in judged]
    significant = TWO_LOOKS_SIGNIFICANT if strategy.more_judging else SIGNIFICANT
    final = verdict(judged, scores, lines, significant)
    more_seeds = min(strategy.more_judging, (player.units_left - len(units)) // 2)
    if more_seeds > 0 and (likeliest := undecided(final)):
        pair, first = (0, likeliest), strategy.judge_seeds[-1] + 1
        seeds = range(first, first + more_seeds)
        more = yield Batch(tuple(UnitRequest(JUDGING_PHASE, judged[at], seed) for seed in seeds for at in pair))
        for at, units_more in zip(pair, for_all([more[place :: len(pair)] for place in range(len(pair))]), strict=True):
            lines[at] += units_more
        final = verdict(judged, scores, lines, significant)
    yield Decision({"phase": JUDGING_PHASE, **final})
    return final


def _kept(best: Setting, player: Player) -> dict[str, Any]:
    return {"best": best, "score": player.scores.of(best)}


def needed_units(space: SearchSpace, strategy: Strategy) -> dict[str, int]:
    """Units that the phases and judging may need at most, by letter."""
    seeds = len(strategy.tune_seeds)
    found = {DEFAULT_PHASE: seeds}
    if strategy.screened and (screened := screening_settings(space)):
        found[SCREENING_PHASE] = screened * seeds
    for phase in space.phases:
        sizes = [len(axis.values) for axis in phase.axes]
        if phase.how == RULE:
            settings = sum(min(MOST_WALKED, size - 1) for size in sizes)
        elif strategy.lean:
            settings = sum(min(MOST_WALKED, len(axis.values) - 1) for axis in thinned(phase.axes))
        elif phase.how == EACH:
            settings = sum(size - 1 for size in sizes) + (len(sizes) > 1)
        else:
            settings = math.prod(sizes) - 1 if strategy.grids else sum(size - 1 for size in sizes)
        found[phase.letter] = settings * seeds
    found[JUDGING_PHASE] = (strategy.contestants + 1) * len(strategy.judge_seeds)
    return found


def most_units(space: SearchSpace, strategy: Strategy) -> dict[str, int]:
    """Units of each phase, by its letter, with what is done where units are spare: what a forecast counts with.

    Beyond the edges of a phase's ranges it counts one number; units that others leave may be spent on more. Their sum
    is never exceeded.
    """
    needed, seeds = needed_units(space, strategy), len(strategy.tune_seeds)
    judging = needed.pop(JUDGING_PHASE)
    for phase in space.phases:
        if phase.how == GRID and not strategy.lean and any(_has_edges(axis.name, axis.values) for axis in phase.axes):
            needed[phase.letter] += MOST_BEYOND * seeds
    if strategy.search != NONE:
        needed[SEARCH_PHASE] = strategy.search_settings * seeds
    if strategy.confirmed:
        needed[CONFIRM_PHASE] = confirming_units(strategy)
    return {**needed, JUDGING_PHASE: judging + 2 * strategy.more_judging}


def least_units(space: SearchSpace, strategy: Strategy) -> dict[str, int]:
    """Units of each phase, about, where nothing beats the default: then nothing is confirmed and nothing judged."""
    most, seeds = most_units(space, strategy), len(strategy.tune_seeds)
    found = {letter: count for letter, count in most.items() if letter not in (CONFIRM_PHASE, JUDGING_PHASE)}
    for phase in space.phases:
        if phase.how == RULE or strategy.lean:
            axes = thinned(phase.axes) if strategy.lean else phase.axes
            # One step to either side, or to the one side that there is.
            found[phase.letter] = seeds * sum(min(2, len(axis.values) - 1) for axis in axes)
        elif phase.how == EACH:
            found[phase.letter] = seeds * sum(len(axis.values) - 1 for axis in phase.axes)
    spare = sum(most.values()) if strategy.units is None else strategy.units
    if SEARCH_PHASE in found:
        others = sum(count for letter, count in found.items() if letter != SEARCH_PHASE)
        room = spare - others - sum(most[letter] for letter in (CONFIRM_PHASE, JUDGING_PHASE) if letter in most)
        found[SEARCH_PHASE] = max(0, min(strategy.search_settings * seeds, room))
    return found


def _has_edges(name: str, values: Sequence[Any]) -> bool:
    return any(next_beyond(name, values, value) is not None for value in (values[0], values[-1]))
