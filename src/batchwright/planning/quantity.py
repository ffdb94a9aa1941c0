"""One number of a plan with its unit, reason and source, and the rules of thumb checked against it."""

from __future__ import annotations

from dataclasses import dataclass

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
    """The result of one rule of thumb: a message with its source. A broken one warns and never refuses."""

    name: str
    ok: bool
    message: str
    source: str

    def __str__(self) -> str:
        return f"{self.message} [{self.name}; {self.source}]"
