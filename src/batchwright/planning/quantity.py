"""The plan and its numbers: frozen, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Value = int | float | str | bool | None

PINNED, PRESET, DERIVED, MEASURED = "pinned", "preset", "derived", "measured"


def counted(number: int, noun: str) -> str:
    """A number with its noun, singular where there is one: `1 env`, `8 envs`, `4 minibatches`."""
    ending = "" if number == 1 else "es" if noun.endswith(("batch", "ss")) else "s"
    return f"{number} {noun}{ending}"


@dataclass(frozen=True)
class Quantity:
    """One number of a plan; `origin` is where a user finds it again: `--flag`, `file.yaml:3`, `preset x`, `default`."""

    name: str
    value: Value
    unit: str
    reason: str
    source: str
    origin: str = ""

    def to_json(self) -> dict[str, Value]:
        return {"value": self.value, "unit": self.unit, "reason": self.reason, "source": self.source}


@dataclass(frozen=True)
class Check:
    """One rule of thumb held against the plan: a message with its source, never a law."""

    name: str
    ok: bool
    message: str
    source: str

    def __str__(self) -> str:
        return f"{self.message} [{self.name}; {self.source}]"


@dataclass(frozen=True)
class TaskFacts:
    """What the planner needs to know of a task; None where nobody told."""

    name: str | None = None
    discrete: bool | None = None
    action_size: int | None = None
    obs_shape: tuple[int, ...] | None = None
    obs_dtype: str | None = None
    episode_steps: int | None = None
    """The time limit, or the length the user stated."""
    hybrid: bool = False
    """Whether an action has both choices and boxes."""
    reward_names: tuple[str, ...] = ()
    """Components of the reward, where the environment gives it as a vector."""
    stacked_frames: int = 1
    """Frames of an observation, which has all but the newest in common with the one before it."""

    def to_dict(self) -> dict[str, Any]:
        """What is known, as `plan.json` has it."""
        told = {name: value for name, value in vars(self).items() if value is not None}
        return told | ({"obs_shape": list(self.obs_shape)} if self.obs_shape is not None else {})


@dataclass(frozen=True)
class Plan:
    """Every number of a run. `warnings` deserve a look; `alternatives` are flags ready to paste."""

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
        """What a user should know: remarks first, then the rules of thumb that are off."""
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
        from batchwright.planning.explain import explain

        return explain(self, everything)

    def diagram(self) -> str:
        """The picture rollout -> minibatches -> updates with this plan's numbers, as text."""
        from batchwright.planning.diagram import diagram

        return diagram(self)


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
