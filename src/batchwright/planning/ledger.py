"""Collects the numbers of a plan: stated settings keep their origin, derived numbers get a reason."""

from __future__ import annotations

from typing import Any

from batchwright.config.load import Resolved
from batchwright.config.schema import DATASET, FIELDS, SECTION_OF, flag_of
from batchwright.core.errors import UserError
from batchwright.planning.quantity import DERIVED, MEASURED, PINNED, PRESET, Check, Quantity, Value, counted


class Ledger:
    """Quantities in the order they are settled, with checks, remarks and alternatives."""

    def __init__(self, resolved: Resolved, measured: dict[str, str] | None = None) -> None:
        self.resolved = resolved
        self.config = resolved.config
        self.measured = measured or {}
        self.quantities: dict[str, Quantity] = {}
        self.checks: list[Check] = []
        self.remarks: list[str] = list(resolved.notes)
        self.alternatives: list[str] = []

    def stated(self, name: str) -> Any:
        """The value that a flag, a file or a preset states, or None."""
        return self.config.get(name)

    def settle(self, name: str, value: Value, unit: str, reason: str, origin: str = "derived") -> None:
        """Writes down a number that the planner derived."""
        self.quantities[name] = Quantity(name, value, unit, reason, DERIVED, origin)

    def setting(self, name: str, default: Value, reason: str, unit: str | None = None) -> Any:
        """Writes down a setting and returns its value: as stated, as measured, else its default with its reason."""
        unit = FIELDS[name].metadata["unit"] if unit is None else unit
        origin = self.resolved.origin(name)
        if origin is None:
            self.settle(name, default, unit, f"default: {reason}", "default")
        elif name in self.measured:
            self.quantities[name] = Quantity(name, self.stated(name), unit, self.measured[name], MEASURED, "measured")
        else:
            self.adopt(name, self.stated(name), unit)
        return self.quantities[name].value

    def adopt(self, name: str, value: Value, unit: str, reason: str = "") -> None:
        """Writes down a stated number with its origin."""
        origin = self.resolved.origin(name)
        place = str(origin) if origin else "default"
        source = {"preset": PRESET, "measured": MEASURED}.get(origin.kind if origin else "", PINNED)
        self.quantities[name] = Quantity(name, value, unit, reason or f"stated by {place}", source, place)

    def adopt_rest(self) -> None:
        """Writes down stated settings that no rule has used, so that none is lost."""
        for name in self.resolved.origins:
            if name not in self.quantities and SECTION_OF[name] in ("learning", "running"):
                value = self.stated(name)
                shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
                self.adopt(name, shown, FIELDS[name].metadata["unit"])

    def settle_iterations(self, total_steps: int, steps_per_iteration: int) -> int:
        """Writes down iterations and the steps they really take, beside the total asked for; returns the iterations."""
        iterations = -(-total_steps // steps_per_iteration)
        actual = iterations * steps_per_iteration
        per_iteration = f"{steps_per_iteration} per iteration, rounded up"
        self.settle("iterations", iterations, "iterations", f"{counted(total_steps, 'step')} / {per_iteration}")
        extra = f"; {actual - total_steps} more than requested" if actual > total_steps else ""
        reason = f"{counted(iterations, 'iteration')} x {counted(steps_per_iteration, 'step')}{extra}"
        self.settle("actual_steps", actual, "steps", reason)
        if iterations == 1 and extra:
            self.remark(
                f"{counted(total_steps, 'step')} in all are fewer than the {steps_per_iteration} of one iteration: one "
                "iteration runs whole."
            )
        return iterations

    def place(self, name: str) -> str:
        """How the user stated a field, with its value: for error messages."""
        origin = self.resolved.origin(name)
        if origin is None:
            return f"{flag_of(name)} (not stated)"
        value = self.stated(name)
        if isinstance(value, tuple):
            value = (" " if isinstance(value[0], str) else ",").join(map(str, value))
        if origin.kind != "flag":
            return f"{name} {value} ({origin})"
        if isinstance(value, bool):
            return flag_of(name) if value else f"--no-{flag_of(name)[2:]}"
        return f"{flag_of(name)} {value}"

    def without(self, name: str) -> str:
        """The fix that removes a stated setting from where the user stated it."""
        origin = self.resolved.origin(name)
        if origin is None or origin.kind == "flag":
            return f"leave out {flag_of(name)}"
        if origin.kind == "measured":
            return f"state {flag_of(name)}"
        return f"leave out --{origin.place}" if origin.kind == "preset" else f"remove {name} at {origin.place}"

    def check(self, name: str, ok: bool, message: str, source: str) -> None:
        self.checks.append(Check(name, ok, message, source))

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def refuse_foreign(self, regime: str) -> None:
        """Refuses settings that belong to another regime."""
        for name in self.resolved.origins:
            regimes = FIELDS[name].metadata["regimes"]
            if regime not in regimes:
                instead = self.without("policy") if regime == DATASET else _regime_flags(regimes[0])
                raise UserError(
                    f"{self.place(name)} belongs to {' and '.join(regimes)} training; {self.config.algo} is {regime}.",
                    [self.without(name), instead],
                )


def _regime_flags(regime: str) -> str:
    return {
        "on-policy": "--algo ppo",
        "replay": "--algo sac",
        "dataset": "--policy act",
        "recorded": "batchwright rrd DATA",
    }[regime]
