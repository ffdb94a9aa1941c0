"""What a tuning tries: phases of axes, by default those of the tuning playbook, or those of a file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from batchwright.config import values as settings_values
from batchwright.config.load import LARGEST_FILE_BYTES
from batchwright.config.schema import FIELDS, ON_POLICY
from batchwright.core.errors import UserError, did_you_mean, unknown
from batchwright.planning.plan import Plan

Setting = dict[str, Any]
"""The numbers in which a unit differs from the default, by name."""

GRID, EACH, RULE = "grid", "each", "rule"
"""How a phase combines its axes: as a grid (or axis after axis, where a grid costs too much), each by itself, or
rollout and minibatch by walking from the default."""
LEARNING_RATES = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
GAMMAS = (0.95, 0.98, 0.99, 0.995, 0.999)
HALF_AND_DOUBLE = (0.5, 1.0, 2.0)
LEAST_MINIBATCH = 16
SPLITS = ("minibatches", "minibatch_transitions")
"""Two names for the split of a rollout: who states one fixes both."""
TITLES = {
    "A": "throughput: rollout and minibatch",
    "B": "stability",
    "C": "variance",
    "D": "horizon and exploration",
    "E": "polish",
}
SEARCHED = {
    "learning_rate": 3.0,
    "gamma": 3.0,
    "entropy_start": 3.0,
    "max_grad_norm": 2.0,
    "value_rate_factor": 2.0,
    "polyak": 3.0,
    "exploration_noise": 2.0,
    "reward_learning_rate": 3.0,
}
"""Numbers that the joint search varies around the best setting, up and down to this factor (gamma: of 1 - gamma)."""


@dataclass(frozen=True)
class Axis:
    """One number and the values to try, the default among them."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Phase:
    """A step of the playbook."""

    letter: str
    title: str
    how: str
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class SearchSpace:
    """All phases of a tuning."""

    phases: tuple[Phase, ...]

    @property
    def digest(self) -> str:
        """A fingerprint: equal digests, equal spaces."""
        text = json.dumps([asdict(phase) for phase in self.phases], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(axis.name for phase in self.phases for axis in phase.axes))

    def axis(self, name: str) -> Axis | None:
        return next((axis for phase in self.phases for axis in phase.axes if axis.name == name), None)

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(phase) for phase in self.phases]

    @classmethod
    def from_json(cls, phases: Sequence[Mapping[str, Any]]) -> SearchSpace:
        def axis(entry: Mapping[str, Any]) -> Axis:
            return Axis(entry["name"], tuple(entry["values"]))

        return cls(tuple(Phase(p["letter"], p["title"], p["how"], tuple(map(axis, p["axes"]))) for p in phases))


@dataclass(frozen=True)
class _Wish:
    """Values to try before the default is known: plain ones, or multiples of the default."""

    name: str
    values: tuple[Any, ...] = ()
    factors: tuple[float, ...] = ()
    instead_of_zero: float = 0.0
    """What factors multiply where the default is 0."""


def default_space(plan: Plan, phases: Sequence[str] = (), fixed: Sequence[str] = ()) -> SearchSpace:
    """The phases of the playbook for a plan's algorithm, without the numbers that are fixed."""
    wishes = _on_policy_wishes(plan) if plan.regime == ON_POLICY else _replay_wishes(plan)
    return _build({letter: wishes[letter] for letter in wishes}, plan, phases, fixed)


def read_space(path: str | Path, plan: Plan, phases: Sequence[str] = (), fixed: Sequence[str] = ()) -> SearchSpace:
    """The space of a YAML file: phase letters with `name: [values]` or `name: {factors: [0.5, 1, 2]}`."""
    import yaml

    place = Path(path).expanduser()
    try:
        text = place.read_text(encoding="utf-8")
        if len(text) > LARGEST_FILE_BYTES or any(isinstance(e, yaml.AliasEvent) for e in yaml.parse(text)):
            raise UserError(f"{place.name} is too large for a space, or uses aliases.", ["write the lists out"])
        raw = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(
            f"{place} cannot be read as a space: {reason}.", ["--space FILE with lines such as   B:"]
        ) from None
    if not isinstance(raw, dict) or not raw or not all(isinstance(axes, dict) and axes for axes in raw.values()):
        raise UserError(
            f"{place.name} is not a space: it maps phases to numbers and their values.",
            ["B: {learning_rate: [1e-4, 3e-4, 1e-3]}"],
        )
    for letter in raw:
        if letter not in TITLES:
            raise unknown("phase", str(letter), TITLES)
    wishes = {
        letter: tuple(_wish_of(place.name, str(name), entry, plan) for name, entry in raw[letter].items())
        for letter in TITLES
        if letter in raw
    }
    return _build(wishes, plan, phases, fixed)


def _wish_of(file: str, name: str, entry: Any, plan: Plan) -> _Wish:
    if name not in FIELDS or name not in plan.quantities:
        known = [known for known in plan.quantities if known in FIELDS]
        close = did_you_mean(name, known)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UserError(f"{file}: {plan.algo} has no number {name!r} to tune.{hint}", close)
    factors = entry.get("factors") if isinstance(entry, dict) and set(entry) == {"factors"} else None
    listed = factors if factors is not None else entry
    if not isinstance(listed, list) or not listed or any(isinstance(value, (list, dict)) for value in listed):
        raise UserError(f"{file}: {name} needs a list of values.", [f"{name}: [...]", f"{name}: {{factors: [0.5, 2]}}"])
    if factors is not None:
        if not all(isinstance(f, (int, float)) and not isinstance(f, bool) and f > 0 for f in factors):
            raise UserError(f"{file}: factors of {name} are positive numbers.", [f"{name}: {{factors: [0.5, 2]}}"])
        if isinstance(plan[name], bool) or not isinstance(plan[name], (int, float)) or not plan[name]:
            raise UserError(f"{file}: {name} is {plan[name]}: factors of it mean nothing.", [f"{name}: [...]"])
        return _Wish(name, factors=tuple(float(factor) for factor in factors))
    checked = [settings_values.check(name, value, f"{file}: {name}") for value in listed]
    return _Wish(name, tuple(map(float, checked) if settings_values.kind_of(name) is float else checked))


def _on_policy_wishes(plan: Plan) -> dict[str, tuple[_Wish, ...]]:
    reuses = plan.algo == "ppo"
    epochs = (_Wish("epochs", (1, 2, 4)),) if reuses else ()
    return {
        "A": (
            _Wish("rollout_steps", factors=(0.125, 0.25, 0.5, 1.0, 2.0, 4.0)),
            *((_Wish("minibatch_transitions", _minibatches(plan)),) if reuses else ()),
        ),
        "B": (_Wish("learning_rate", LEARNING_RATES), *epochs, _Wish("max_grad_norm", (0.5, 1.0, 2.0))),
        "C": (
            _Wish("baseline", (True, False)),
            _Wish("advantage_norm", ("rollout", "minibatch", "none")),
            _Wish("normalize_rewards", (True, False)),
            _Wish("value_rate_factor", (1.0, 2.0)),
            *((_Wish("gae_lambda", (0.9, 0.98)),) if reuses else ()),
        ),
        "D": (
            _Wish("gamma", _gammas(plan)),
            _Wish("entropy_start", factors=(0.3, 1.0, 3.0), instead_of_zero=0.01 if plan.task.discrete else 0.001),
        ),
        "E": (*_polish(plan), _Wish("weight_decay", (0.0, 1e-5)), _Wish("warmup_updates", (0, 500))),
    }


def _replay_wishes(plan: Plan) -> dict[str, tuple[_Wish, ...]]:
    targets = (
        _Wish("updates_per_target", factors=HALF_AND_DOUBLE)
        if plan.algo == "dqn"
        else _Wish("polyak", factors=(0.4, 1.0, 4.0))
    )
    exploration = {
        "sac": (_Wish("target_entropy", (-0.5, -1.0, -2.0)),),
        "td3": (_Wish("exploration_noise", (0.05, 0.1, 0.2)),),
        "dqn": (_Wish("epsilon_end", (0.01, 0.05, 0.1)), _Wish("epsilon_share", factors=HALF_AND_DOUBLE)),
    }[plan.algo]
    rewards = (
        _Wish("rrd_timesteps_per_update", factors=HALF_AND_DOUBLE),
        _Wish("subsequence_timesteps", factors=HALF_AND_DOUBLE),
        _Wish("reward_learning_rate", factors=(0.3, 1.0, 3.0)),
    )
    return {
        "B": (
            _Wish("learning_rate", LEARNING_RATES),
            _Wish("updates_per_iteration", factors=HALF_AND_DOUBLE),
            _Wish("transitions_per_update", factors=HALF_AND_DOUBLE),
        ),
        "C": (targets, _Wish("warmup_steps", factors=HALF_AND_DOUBLE), *(rewards if plan.get("redistribute") else ())),
        "D": (_Wish("gamma", _gammas(plan)), *exploration),
        "E": _polish(plan),
    }


def _polish(plan: Plan) -> tuple[_Wish, ...]:
    return (
        _Wish("learning_rate_schedule", ("constant", "linear")),
        _Wish("normalize_obs", (True, False)),
        _Wish("adam_beta2", (0.99, 0.999)),
    )


def _minibatches(plan: Plan) -> tuple[int, ...]:
    """A quarter and a sixteenth of the default, if that is enough for a gradient."""
    size = plan.get("minibatch_transitions")
    return tuple(size // part for part in (16, 4) if size // part >= LEAST_MINIBATCH) if isinstance(size, int) else ()


def _gammas(plan: Plan) -> tuple[float, ...]:
    """The grid, and the horizon heuristic 1 - 1 / T where episodes of T steps are longer than 100."""
    steps = plan.task.episode_steps
    heuristic = {_significant(1 - 1 / steps, 4)} if steps is not None and steps > 100 else set()
    return tuple(sorted({*GAMMAS, *heuristic}))


def _build(
    wishes: Mapping[str, Sequence[_Wish]], plan: Plan, phases: Sequence[str], fixed: Sequence[str]
) -> SearchSpace:
    for letter in phases:
        if letter not in TITLES:
            raise unknown("phase", letter, TITLES, "--phases")
    names = {*fixed, *(other for name in fixed if name in SPLITS for other in SPLITS)}
    found = []
    for letter, wanted in wishes.items():
        if phases and letter not in phases:
            continue
        axes = [_axis(wish, plan) for wish in wanted if wish.name in plan.quantities and wish.name not in names]
        axes = [axis for axis in axes if len(axis.values) > 1]
        if axes:
            how = GRID if letter in ("A", "B", "D") else EACH
            if letter == "A" and {axis.name for axis in axes} <= {"rollout_steps", "minibatch_transitions"}:
                how = RULE
            found.append(Phase(letter, TITLES[letter], how, tuple(axes)))
    if not found:
        raise UserError(
            "nothing is left to tune: every number of these phases is fixed.", ["fewer --fix", "other --phases"]
        )
    return SearchSpace(tuple(found))


def _axis(wish: _Wish, plan: Plan) -> Axis:
    """The values in rising order with the default among them; numbers within the bounds of the schema."""
    default = plan[wish.name]
    values = list(wish.values)
    if wish.factors:
        at = default or wish.instead_of_zero
        whole = isinstance(default, int) and not isinstance(default, bool)
        values = [max(1, round(at * f)) if whole else _significant(at * f, 3) for f in wish.factors] if at else []
    values = [value for value in values if _within(wish.name, value)]
    kept = list(dict.fromkeys([*values, default]))
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in kept)
    return Axis(wish.name, tuple(sorted(kept)) if numeric else tuple(kept))


def _within(name: str, value: Any) -> bool:
    try:
        settings_values.check(name, value, name)
    except UserError:
        return False
    return True


def _significant(number: float, digits: int) -> float:
    return 0.0 if number == 0 else round(number, digits - 1 - math.floor(math.log10(abs(number))))


def nearby(name: str, value: float, along: float) -> float:
    """A value of the joint search: `along` from -1 to 1 goes from the lowest to the highest, 0 is `value` itself."""
    factor = SEARCHED[name] ** along
    if name == "gamma":
        return min(0.9999, max(0.0, _significant(1 - (1 - value) / factor, 5)))
    return _significant(value * factor, 3)


def next_beyond(name: str, values: Sequence[Any], now: Any) -> Any | None:
    """The next value beyond the end of a range at which `now` lies, as far as the last two are apart; else None.

    Ratios, gamma's of 1 - gamma: a range that begins with 0 ends there.
    """
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    if not numeric or len(values) < 3 or now not in (values[0], values[-1]):
        return None
    ends = [1 - values[i] if name == "gamma" else values[i] for i in ((0, 1) if now == values[0] else (-1, -2))]
    if min(ends) <= 0:
        return None
    far = ends[0] * ends[0] / ends[1]
    if isinstance(now, int):
        far = round(far)
    else:
        far = 1 - _significant(far, 2) if name == "gamma" else _significant(far, 2)
        far = _significant(far, 6)
    return far if far != now and _within(name, far) else None
