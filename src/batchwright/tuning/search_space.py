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
from batchwright.tuning.phase_values import Wish, on_policy_wishes, replay_wishes

Setting = dict[str, Any]
"""The numbers in which a unit differs from the default, by name."""

GRID, EACH, RULE = "grid", "each", "rule"
"""How a phase combines its axes: as a grid (or axis after axis, where a grid costs too much), each by itself, or
rollout and minibatch by walking from the default."""
WALKED = {"rollout_steps", "minibatch_transitions", "hidden", "activation"}
"""Numbers of phase A that are walked from the default; others of a file make it a grid."""
SPLITS = ("minibatches", "minibatch_transitions")
"""Two names for the split of a rollout: who states one fixes both."""
TITLES = {
    "A": "throughput: rollout, minibatch and network",
    "B": "stability",
    "C": "variance",
    "D": "horizon and exploration",
    "E": "polish",
}
SEARCHED = {
    "learning_rate": 3.0,
    "gamma": 3.0,
    "gae_lambda": 3.0,
    "entropy_start": 3.0,
    "clip_range": 2.0,
    "max_grad_norm": 2.0,
    "value_rate_factor": 2.0,
    "polyak": 3.0,
    "exploration_noise": 2.0,
    "reward_learning_rate": 3.0,
}
"""Numbers that the joint search varies around the best setting, up and down to this factor (of 1 - gamma and
1 - lambda)."""
HORIZONS = ("gamma", "gae_lambda")
"""Numbers of which 1 minus the number is what acts."""
COARSE = {"learning_rate": 2.5, "gamma": 2.5, "epochs": 2.0, "entropy_start": 3.0}
"""How far apart values are at least where a small budget goes along them in steps: nearer ones are one seed's noise."""
MINOR = ("baseline", "max_grad_norm", "value_rate_factor", "weight_decay", "warmup_updates")
"""Numbers that seldom change a score by more than two seeds differ: a small budget leaves them out."""


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


def default_space(plan: Plan, phases: Sequence[str] = (), fixed: Sequence[str] = ()) -> SearchSpace:
    """The phases of the playbook for a plan's algorithm, without the numbers that are fixed."""
    wishes = on_policy_wishes(plan) if plan.regime == ON_POLICY else replay_wishes(plan)
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


def _wish_of(file: str, name: str, entry: Any, plan: Plan) -> Wish:
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
        return Wish(name, factors=tuple(float(factor) for factor in factors))
    checked = [settings_values.check(name, value, f"{file}: {name}") for value in listed]
    return Wish(name, tuple(map(float, checked) if settings_values.kind_of(name) is float else checked))


def _build(
    wishes: Mapping[str, Sequence[Wish]], plan: Plan, phases: Sequence[str], fixed: Sequence[str]
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
            if letter == "A" and {axis.name for axis in axes} <= WALKED:
                how = RULE
            found.append(Phase(letter, TITLES[letter], how, tuple(axes)))
    if not found:
        raise UserError(
            "nothing is left to tune: every number of these phases is fixed.", ["fewer --fix", "other --phases"]
        )
    return SearchSpace(tuple(found))


def _axis(wish: Wish, plan: Plan) -> Axis:
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


def coarse(axis: Axis, start: Any) -> Axis:
    """The values at least a clear factor apart, counted from `start`."""
    factor = COARSE.get(axis.name)
    if factor is None or start not in axis.values:
        return axis
    at = axis.values.index(start)
    kept = [start]
    for side in (axis.values[:at][::-1], axis.values[at + 1 :]):
        last = start
        for value in side:
            if _apart(axis.name, value, last) >= factor:
                kept.append(value)
                last = value
    return Axis(axis.name, tuple(sorted(kept)))


def _apart(name: str, one: float, other: float) -> float:
    ends = [1 - value if name in HORIZONS else value for value in (one, other)]
    return math.inf if min(ends) <= 0 else max(ends) / min(ends) + 1e-9


def nearby(name: str, value: float, along: float) -> float:
    """A value of the joint search: `along` from -1 to 1 goes from the lowest to the highest, 0 is `value` itself."""
    factor = SEARCHED[name] ** along
    if name in HORIZONS:
        return min(0.9999, max(0.0, _significant(1 - (1 - value) / factor, 5 if name == "gamma" else 3)))
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
