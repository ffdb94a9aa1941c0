"""What a run is compared with: the plan without the numbers that its user stated, and runs of its kind."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from batchwright.config.load import resolve
from batchwright.config.presets import NO_PRESET, read_preset, tuned_preset
from batchwright.config.schema import ON_POLICY, REPLAY
from batchwright.core.errors import UserError
from batchwright.core.machine import probe_machine
from batchwright.planning.make import make_plan
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import PRESET

PRESET_IN_REASON = re.compile(r"preset (\S+)")
MEASURED_RESULT = re.compile(r"median return (-?[\d.]+) \[(-?[\d.]+), .* after (\d+) steps")


@dataclass(frozen=True)
class KnownResult:
    """The return that a preset reached in all but unlucky seeds, evaluated without exploration."""

    preset: str
    reached: float
    """The lower end of the interval around the median of its seeds."""
    steps: int
    same_env: bool
    """False where the run uses the preset in another environment, such as a wrapped one."""


@dataclass(frozen=True)
class KnownCurve:
    """The training returns of a tuned preset, or of the defaults, on one environment over three seeds."""

    source: str
    """The preset, or `the default`."""
    steps: tuple[int, ...]
    lowest: tuple[float, ...]
    """Of the seeds, the mean return over the last fifth of the steps so far."""

    def lowest_after(self, steps: float) -> float | None:
        """The lowest return of the seeds after so many steps; None before the first that was kept."""
        return None if steps < self.steps[0] else float(np.interp(steps, self.steps, self.lowest))


@cache
def _curves() -> dict[str, Any]:
    """What `benchmarks/known_curves.py` measured, by environment, algorithm and preset."""
    text = resources.files("batchwright.doctor").joinpath("known_curves.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def known_curve(plan: Plan) -> KnownCurve | None:
    """The returns of other runs with the same environment, algorithm and preset; None where nobody measured them."""
    preset = next(iter(sorted(presets_of(plan))), NO_PRESET)
    found = _curves().get(f"{plan.task.name} {plan.algo} {preset}")
    if found is None:
        return None
    source = "the default" if preset == NO_PRESET else f"preset {preset}"
    return KnownCurve(source, tuple(found["steps"]), tuple(found["lowest"]))


def known_result(plan: Plan) -> KnownResult | None:
    """What the preset tuned for this environment reached, else the preset that the run uses; None without a figure."""
    tuned = tuned_preset(plan.task.name, plan.algo) if plan.task.name else None
    try:
        preset = tuned or next(iter(sorted(presets_of(plan))), None)
        found = MEASURED_RESULT.search(read_preset(preset).result) if preset else None
    except UserError:  # a preset of another version, or a file that is not here
        return None
    return KnownResult(preset, float(found[2]), int(found[3]), preset == tuned) if preset and found else None


def presets_of(plan: Plan) -> set[str]:
    """The presets that numbers of a plan come from."""
    reasons = (quantity.reason for quantity in plan.quantities.values() if quantity.source == PRESET)
    return {found[1] for reason in reasons if (found := PRESET_IN_REASON.search(reason))}


def reference_values(plan: Plan) -> Mapping[str, Any]:
    """The numbers of the same plan without those that were stated; empty where there is no such plan."""
    if plan.regime not in (ON_POLICY, REPLAY) or plan.get("rollout_episodes") is not None:
        return {}
    try:
        flags = {"env": plan.task.name, "algo": plan.algo, "total_steps": plan.get("total_steps")}
        flags |= {name: value for name in ("redistribute", "episodic_reward") if (value := plan.get(name))}
        resolved = resolve(flags, tuple(sorted(presets_of(plan))) or NO_PRESET)
        made = make_plan(resolved, _machine(), plan.task)
    except UserError:  # a preset that is a file elsewhere, or a combination that only the stated numbers allow
        return {}
    return {name: quantity.value for name, quantity in made.quantities.items()}


@cache
def _machine() -> Any:
    return probe_machine()
