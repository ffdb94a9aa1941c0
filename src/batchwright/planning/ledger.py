"""Where a plan's numbers are written down while it is solved: wishes keep their origin, the rest get a reason."""

from __future__ import annotations

from typing import Any

from batchwright.config.load import Resolved
from batchwright.config.schema import FIELDS, flag_of
from batchwright.core.errors import UserError
from batchwright.planning.quantity import DERIVED, MEASURED, PINNED, PRESET, Check, Quantity, Value


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
        """What the user, a file or a preset said, or None."""
        return self.config.get(name)

    def settle(self, name: str, value: Value, unit: str, reason: str, origin: str = "derived") -> None:
        """Writes down a number that the planner found."""
        self.quantities[name] = Quantity(name, value, unit, reason, DERIVED, origin)

    def wish(self, name: str, default: Value, reason: str, unit: str | None = None) -> Any:
        """Settles a field: as stated, as measured, else its default with the reason for it; returns the value."""
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
        source = PRESET if origin is not None and origin.kind == "preset" else PINNED
        self.quantities[name] = Quantity(name, value, unit, reason or f"stated by {place}", source, place)

    def place(self, name: str) -> str:
        """How the user stated a field, with its value: for error messages."""
        origin = self.resolved.origin(name)
        if origin is None:
            return f"{flag_of(name)} (not stated)"
        value = self.stated(name)
        return f"{flag_of(name)} {value}" if origin.kind == "flag" else f"{name} {value} ({origin})"

    def check(self, name: str, ok: bool, message: str, source: str) -> None:
        self.checks.append(Check(name, ok, message, source))

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def refuse_foreign(self, regime: str) -> None:
        """A wish of another regime is an error, never ignored."""
        for name in self.resolved.origins:
            regimes = FIELDS[name].metadata["regimes"]
            if regime not in regimes:
                raise UserError(
                    f"{self.place(name)} belongs to {' and '.join(regimes)} training; {self.config.algo} is {regime}.",
                    [f"leave out {flag_of(name)}", _regime_flags(regimes[0])],
                )


def _regime_flags(regime: str) -> str:
    return {"on-policy": "--algo ppo", "replay": "--algo sac", "dataset": "--policy act"}[regime]
