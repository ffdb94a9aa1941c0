"""The plan of a run: frozen, every number with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchwright.planning.diagram import diagram
from batchwright.planning.explain import explain
from batchwright.planning.quantity import Check, Quantity


@dataclass(frozen=True)
class TaskFacts:
    """What the planner needs to know of a task; None where it is unknown."""

    name: str | None = None
    discrete: bool | None = None
    action_size: int | None = None
    obs_shape: tuple[int, ...] | None = None
    obs_dtype: str | None = None
    episode_steps: int | None = None
    """The time limit, or the length the user stated."""
    hybrid: bool = False
    """Whether an action has both discrete and continuous parts."""
    reward_names: tuple[str, ...] = ()
    """Components of the reward, where the environment gives it as a vector."""
    stacked_frames: int = 1
    """Frames stacked in one observation; consecutive observations share all but the newest."""

    def to_dict(self) -> dict[str, Any]:
        """The known facts, in the form of `plan.json`."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return known | ({"obs_shape": list(self.obs_shape)} if self.obs_shape is not None else {})


@dataclass(frozen=True)
class Plan:
    """Every number of a run, with warnings, and with alternatives as flags ready to paste."""

    regime: str
    algo: str
    quantities: Mapping[str, Quantity]
    checks: tuple[Check, ...] = ()
    remarks: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    task: TaskFacts = field(default_factory=TaskFacts)
    machine: str = ""

    def __getitem__(self, name: str) -> Any:
        """The value of a quantity."""
        return self.quantities[name].value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a quantity, or `default` where the plan has none of that name."""
        quantity = self.quantities.get(name)
        return default if quantity is None else quantity.value

    @property
    def warnings(self) -> tuple[str, ...]:
        """Remarks first, then the rules of thumb that are broken."""
        return (*self.remarks, *(str(check) for check in self.checks if not check.ok))

    def to_json(self) -> str:
        """The record of the plan, in the form that `plan.json` has."""
        return json.dumps(self.to_dict(), indent=2)

    def to_dict(self) -> dict[str, Any]:
        return {
            "regime": self.regime,
            "algo": self.algo,
            "quantities": {name: quantity.to_json() for name, quantity in self.quantities.items()},
            "warnings": list(self.warnings),
            "alternatives": list(self.alternatives),
            "task": self.task.to_dict(),
        }

    def explain(self, everything: bool = False) -> str:
        """The table of quantities with warnings and alternatives; `everything` gives defaults rows of their own."""
        title = f"{self.regime} plan: {self.algo}" + (f" on {self.task.name}" if self.task.name else "")
        title += f"\nmachine: {self.machine}" if self.machine else ""
        return explain(title, tuple(self.quantities.values()), self.warnings, self.alternatives, everything)

    def diagram(self) -> str:
        """The picture rollout -> minibatches -> updates with this plan's numbers, as text."""
        return diagram(self.regime, {name: quantity.value for name, quantity in self.quantities.items()})


def plan_from_dict(record: Mapping[str, Any], task: TaskFacts | None = None) -> Plan:
    """A plan read back from `plan.json`: its numbers and reasons; warnings become remarks."""
    quantities = {
        name: Quantity(name, q["value"], q["unit"], q["reason"], q["source"])
        for name, q in record["quantities"].items()
    }
    return Plan(
        record["regime"],
        record["algo"],
        quantities,
        remarks=tuple(record["warnings"]),
        alternatives=tuple(record["alternatives"]),
        task=task or _task_from_dict(record.get("task", {})),
    )


def _task_from_dict(record: Mapping[str, Any]) -> TaskFacts:
    known = {name: value for name, value in record.items() if name in TaskFacts.__dataclass_fields__}
    for name in ("obs_shape", "reward_names"):
        if name in known:
            known[name] = tuple(known[name])
    return TaskFacts(**known)
