"""One finding of the doctor: the evidence in figures, the likely cause, the flags to try, and the source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchwright.config.schema import flag_of

NOTE, WARNING, DANGER = 1, 2, 3
SEVERITIES = {NOTE: "note", WARNING: "warning", DANGER: "danger"}

GUIDE = "S2 triage"
PPO_PAPER = "Schulman et al., 2017"


@dataclass(frozen=True)
class Finding:
    """What one symptom function found. Notes are worth knowing; warnings and dangers are alarms."""

    name: str
    severity: int
    confidence: float
    """From 0 to 1: how surely the evidence points here and nowhere else."""
    message: str
    """What was seen, with figures."""
    cause: str
    source: str
    flags: tuple[str, ...] = ()
    """Ready to paste, best first; each entry may hold several flags that go together."""
    evidence: Mapping[str, float | int | str | None] = field(default_factory=dict)
    began: int | None = None
    """The iteration where it began, where that is known."""

    @property
    def score(self) -> float:
        return self.severity * self.confidence

    @property
    def alarm(self) -> bool:
        return self.severity >= WARNING

    def to_dict(self) -> dict[str, Any]:
        """As events, `--json` and the web page have it."""
        return {
            "finding": self.name,
            "severity": SEVERITIES[self.severity],
            "confidence": round(self.confidence, 2),
            "message": self.message,
            "cause": self.cause,
            "flags": list(self.flags),
            "evidence": dict(self.evidence),
            "source": self.source,
            **({} if self.began is None else {"began": self.began}),
        }


def flag(name: str, value: Any) -> str:
    """A flag with its value, ready to paste."""
    if isinstance(value, bool):
        return flag_of(name) if value else "--no-" + flag_of(name)[2:]
    return f"{flag_of(name)} {figure(value)}"


def figure(value: Any) -> str:
    """A number as people write it: three digits that count, whole numbers whole."""
    if value is None:
        return "?"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return str(int(value)) if value == int(value) and abs(value) < 1e6 else f"{value:.3g}"
    return str(value)
