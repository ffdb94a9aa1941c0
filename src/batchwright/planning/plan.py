"""The plan of a run: frozen, every number with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchwright.config.schema import FIELDS
from batchwright.config.values import kind_of
from batchwright.core import html
from batchwright.core.errors import UserError
from batchwright.planning.diagram import diagram
from batchwright.planning.explain import explain, show_value
from batchwright.planning.quantity import Check, Quantity

LARGEST_NUMBER = 1e300
_TRAIN_ANEW = "train anew in another --run-dir"


@dataclass(frozen=True)
class TaskFacts:
    """What the planner needs to know of a task; None where it is unknown."""

    name: str | None = None
    discrete: bool | None = None
    action_size: int | None = None
    obs_shape: tuple[int, ...] | None = None
    obs_dtype: str | None = None
    real_observations: bool | None = None
    """Whether observations hold numbers of a scale: not images, bits or choices alone."""
    wide_observations: bool | None = None
    """Whether some of these are whole numbers of a wide range, such as bytes of text."""
    episode_steps: int | None = None
    """The time limit, or the length the user stated."""
    hybrid: bool = False
    """Whether an action has both discrete and continuous parts."""
    reward_names: tuple[str, ...] = ()
    """Components of the reward, where the environment gives it as a vector."""
    stacked_frames: int = 1
    """Frames stacked in one observation; consecutive observations share all but the newest."""
    probed_components: tuple[str, ...] = ()
    """Components that random actions tried: those named, and `rest` where they leave out a part of the reward."""
    component_spreads: tuple[float, ...] = ()
    """Standard deviation of the running discounted return of each of them."""
    probed_steps: int = 0
    """Random steps that they were tried for."""
    agents: tuple[str, ...] = ()
    """Agents of each environment; empty where there is one."""
    agent_groups: tuple[str, ...] = ()
    """Groups of agents with equal spaces, with their agents as text."""
    simulator: str = ""
    """`mujoco` or `box2d` where one moves it: each environment holds a world of its own."""

    def to_dict(self) -> dict[str, Any]:
        """The known facts, in the form of `plan.json`."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        often_none = ("agents", "agent_groups", "simulator")
        known = {name: value for name, value in known.items() if value or name not in often_none}
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
        if name not in self.quantities:
            raise UserError(f"the plan has no {name}: plan.json is damaged, or of another version.", [_TRAIN_ANEW])
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

    def _repr_html_(self) -> str:
        """The table of the plan in a notebook, with warnings, and the picture of its batches."""
        title = f"{self.regime} plan: {self.algo}" + (f" on {self.task.name}" if self.task.name else "")
        rows = [(q.name, show_value(q.value), q.unit, q.source, q.reason) for q in self.quantities.values()]
        warnings = html.paragraphs([f"warning: {text}" for text in self.warnings])
        parts = [html.paragraphs([title]), html.table(("quantity", "value", "unit", "source", "reason"), rows)]
        return "".join([*parts, warnings, html.preformatted(self.diagram())])

    def diagram(self) -> str:
        """The picture rollout -> minibatches -> updates with this plan's numbers, as text."""
        return diagram(self.regime, self.quantities)


def plan_from_dict(record: Any, task: TaskFacts | None = None) -> Plan:
    """A plan read back from `plan.json`: its numbers and reasons; warnings become remarks. ValueError for damage."""
    if not isinstance(record, dict) or not isinstance(record.get("quantities"), dict):
        raise ValueError("it has no quantities")
    for name in ("regime", "algo"):
        if not isinstance(record.get(name), str):
            raise ValueError(f"its {name} is {str(record.get(name))[:40]}")
    return Plan(
        record["regime"],
        record["algo"],
        {name: _quantity_from_dict(name, quantity) for name, quantity in record["quantities"].items()},
        remarks=_texts(record, "warnings"),
        alternatives=_texts(record, "alternatives"),
        task=task or _task_from_dict(record.get("task", {})),
    )


def _quantity_from_dict(name: str, record: Any) -> Quantity:
    """One number of a plan; refused where it is not of the kind that its setting has."""
    texts = ("unit", "reason", "source")
    if not isinstance(record, dict) or not all(isinstance(record.get(text), str) for text in texts):
        raise ValueError(f"its {name} is no quantity")
    value: Any = record.get("value")
    is_number = type(value) in (int, float) and abs(value) < LARGEST_NUMBER
    kind = kind_of(name) if name in FIELDS else float if record["unit"] else str
    fits = is_number if kind in (int, float) else type(value) in (str, bool) or is_number
    if value is not None and not fits:
        raise ValueError(f"its {name} is {str(value)[:40]!r}")
    return Quantity(name, value, *(record[text] for text in texts))


def _texts(record: dict[str, Any], name: str) -> tuple[str, ...]:
    found = record.get(name)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ValueError(f"its {name} are no list of texts")
    return tuple(found)


def _task_from_dict(record: Any) -> TaskFacts:
    """What a plan says of its task; ValueError where a fact is of the wrong kind."""
    kinds: dict[str, tuple[type, ...]] = {
        "name": (str,), "obs_dtype": (str,), "discrete": (bool,), "hybrid": (bool,),
        "real_observations": (bool,), "wide_observations": (bool,),
        "action_size": (int,), "episode_steps": (int, float), "stacked_frames": (int,),
        "obs_shape": (list, tuple), "reward_names": (list, tuple), "agents": (list, tuple),
        "agent_groups": (list, tuple), "simulator": (str,),
        "probed_components": (list, tuple), "component_spreads": (list, tuple), "probed_steps": (int,),
    }  # fmt: skip
    if not isinstance(record, dict):
        raise ValueError("its task is no mapping")
    known = {name: value for name, value in record.items() if name in kinds and value is not None}
    wrong = [name for name, value in known.items() if type(value) not in kinds[name]]
    items = {"obs_shape": int, "reward_names": str, "probed_components": str, "component_spreads": float}
    items |= {"agents": str, "agent_groups": str}
    for name, kind in items.items():
        values = known.get(name, [])
        if name not in wrong and not all(type(value) is kind for value in values):
            wrong.append(name)
        elif name in known and name not in wrong:
            known[name] = tuple(values)
    if wrong:
        raise ValueError(f"its task has a wrong {wrong[0]}")
    return TaskFacts(**known)
