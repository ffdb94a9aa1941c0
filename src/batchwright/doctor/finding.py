"""One finding of the doctor: the evidence in figures, the likely cause, the flags to try, and the source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from batchwright.config.schema import flag_of

NOTE, WARNING, DANGER = 1, 2, 3
SEVERITIES = {NOTE: "note", WARNING: "warning", DANGER: "danger"}

# Sources that a user can open: papers, and pages of the documentation by file and heading.
PPO_PAPER = "Schulman et al., 2017 (PPO, arXiv:1707.06347)"
PPO_DETAILS = "Huang et al., 2022 (37 implementation details of PPO, ICLR blog track)"
ON_POLICY_STUDY = "Andrychowicz et al., 2021 (what matters in on-policy RL, arXiv:2006.05990)"
LEVERS = "docs/planning/on-policy.md#levers"
RULES_OF_THUMB = "docs/planning/on-policy.md#rules-of-thumb"
HORIZON = "docs/planning/on-policy.md#discount-from-the-horizon"
MEASURED = "docs/benchmarks.md#doctor"
"""The benchmark of planted faults: how often each finding names the fault, and how often its flags repair the run."""


FlagValue = str | bool | int | float | None


@dataclass(frozen=True)
class Finding:
    """The result of one symptom function. Warnings and dangers are alarms; notes are not."""

    name: str
    severity: int
    confidence: float
    """From 0 to 1: how clearly the evidence points to this cause and no other."""
    message: str
    """The evidence in one sentence, with figures."""
    cause: str
    source: str
    """A paper, or a page of the documentation as `docs/FILE.md#heading`."""
    flags: tuple[str, ...] = ()
    """Ready to paste, best first; one entry may hold several flags that belong together."""
    evidence: Mapping[str, float | int | str | None] = field(default_factory=dict)
    began: int | None = None
    """The iteration in which the problem started; None where unknown."""
    hint: bool = False
    """Whether it is a note until the record shows harm: a number or a trait of the task that may be meant."""
    seen: bool = False
    """Of a hint: whether the record shows the trait itself, not only a stated number."""

    @property
    def score(self) -> float:
        return self.severity * self.confidence

    @property
    def alarm(self) -> bool:
        return self.severity >= WARNING

    def to_dict(self) -> dict[str, Any]:
        """The form used in events, in `--json` and on the web page."""
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


def flag(name: str, value: FlagValue) -> str:
    """A flag with its value, ready to paste."""
    if isinstance(value, bool):
        return flag_of(name) if value else "--no-" + flag_of(name)[2:]
    return f"{flag_of(name)} {figure(value)}"


def figure(value: FlagValue) -> str:
    """A number for people: three significant digits, whole numbers without a point; `?` for None."""
    if value is None:
        return "?"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return str(int(value)) if value == int(value) and abs(value) < 1e6 else f"{value:.3g}"
    return str(value)
