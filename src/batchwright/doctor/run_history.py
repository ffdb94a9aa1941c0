"""The doctor's input: the records of a run as columns, the numbers of its plan, and its events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchwright.doctor.reference_plan import KnownCurve, KnownResult, known_curve, known_result, reference_values
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import PINNED, PRESET

Column = NDArray[np.float64]

LARGEST_WHOLE = 1e300
MOST_RECORDS = 300
"""Longer records are thinned evenly to this many iterations, so that a check costs the same in any run."""


@dataclass(frozen=True)
class Facts:
    """The settings of a run and the facts of its task; None where unknown."""

    values: Mapping[str, Any] = field(default_factory=dict)
    from_preset: frozenset[str] = frozenset()
    """Settings taken from a preset: they are tuned, so findings blame them less than stated ones."""
    trainer: str = "batchwright"
    pinned: frozenset[str] = frozenset()
    """Settings that the user stated."""
    reference: Mapping[str, Any] = field(default_factory=dict)
    """What the same plan has without the stated settings: the numbers of the preset, else the planner's."""
    known_result: KnownResult | None = None
    """What the preset of this environment, or of this run, reached."""
    known_curve: KnownCurve | None = None
    """The training returns of healthy runs of the same kind."""

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def number(self, name: str) -> float | None:
        """A value as a float; None where it is unknown or not a finite number."""
        value = self.values.get(name)
        usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(value) if usable else None  # type: ignore[arg-type]


def facts_of(plan: Plan) -> Facts:
    """The facts of one of our plans."""
    task = plan.task
    of_task = {
        "algo": plan.algo,
        "env": task.name,
        "regime": plan.regime,
        "discrete": task.discrete,
        "action_size": task.action_size,
        "episode_steps": task.episode_steps,
    }
    values = {name: quantity.value for name, quantity in plan.quantities.items()}
    preset, pinned = (
        frozenset(name for name, quantity in plan.quantities.items() if quantity.source == source)
        for source in (PRESET, PINNED)
    )
    return Facts(
        {**of_task, **values},
        preset,
        pinned=pinned,
        reference=reference_values(plan),
        known_result=known_result(plan),
        known_curve=known_curve(plan),
    )


class RunHistory:
    """The record of one run. Columns have one entry per kept record; NaN where a record lacks the metric."""

    def __init__(
        self, records: Sequence[Mapping[str, Any]], facts: Facts, events: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.length = len(records)
        self.records = thin(records)
        self.facts = facts
        self.events = events
        self._columns: dict[str, Column] = {}

    def column(self, name: str) -> Column:
        """All kept values of a metric."""
        found = self._columns.get(name)
        if found is None:
            values = [record.get(name) for record in self.records]
            found = np.array([value if _is_number(value) else np.nan for value in values], np.float64)
            self._columns[name] = found
        return found

    def has(self, name: str) -> bool:
        return bool(np.isfinite(self.column(name)).any())

    def names(self, prefix: str) -> list[str]:
        """The metrics of the last record whose names begin with `prefix`."""
        return [name for name in (self.records[-1] if self.records else {}) if name.startswith(prefix)]

    def typical(self, name: str, begin: float = 0.0, end: float = 1.0) -> float | None:
        """The median between the fractions `begin` and `end` of the record; None without a finite value."""
        values = self._part(self.column(name), begin, end)
        return float(np.median(values)) if len(values) else None

    def highest(self, name: str, begin: float = 0.0, end: float = 1.0) -> float | None:
        values = self._part(self.column(name), begin, end)
        return float(values.max()) if len(values) else None

    def while_learning(self, name: str) -> Column:
        """Finite values of the iterations in which the learning rate was at least a third of its highest.

        When a schedule has annealed the rate towards 0, a KL near 0 is no symptom.
        """
        values = self.column(name)
        return values[np.isfinite(values) & self._learned]

    @cached_property
    def _learned(self) -> NDArray[np.bool_]:
        rate = self.column("learning_rate")
        known = rate[np.isfinite(rate)]
        return ~(rate < known.max() / 3) if len(known) else np.ones(len(rate), bool)

    def returns(self) -> Column:
        """The mean return of each iteration in which episodes ended."""
        values = self.column("episode_return")
        return values[np.isfinite(values)]

    @property
    def share_done(self) -> float:
        """The fraction of the planned iterations that the record covers; 1 where the plan is unknown."""
        planned = self.facts.number("iterations")
        return min(1.0, self.length / planned) if planned else 1.0

    @property
    def episode_steps(self) -> float | None:
        """The time limit of episodes, else the highest mean episode length."""
        return self.facts.number("episode_steps") or self.highest("episode_length")

    def iteration_at(self, index: int) -> int:
        """The iteration of a kept record; its index where the record has none."""
        iteration = self.records[index].get("iteration")
        return iteration if isinstance(iteration, int) else index

    def _part(self, values: Column, begin: float, end: float) -> Column:
        count = len(values)
        part = values[int(begin * count) : max(int(end * count), int(begin * count) + 1)]
        return part[np.isfinite(part)]


def _is_number(value: Any) -> bool:
    """A float, or a whole number that a float can hold; a damaged record may have others."""
    return type(value) is float or (type(value) is int and abs(value) < LARGEST_WHOLE)


def thin(records: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """At most `MOST_RECORDS` records at even distances, the first and the last among them."""
    if len(records) <= MOST_RECORDS:
        return records
    chosen = np.linspace(0, len(records) - 1, MOST_RECORDS).round().astype(int)
    return [records[index] for index in chosen]
