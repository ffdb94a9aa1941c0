"""The result of `batchwright doctor`: the run, its status, the findings, and what the record does not contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from batchwright.core import html
from batchwright.doctor.finding import Finding
from batchwright.doctor.text import report
from batchwright.planning.quantity import counted


@dataclass(frozen=True)
class Diagnosis:
    """Findings of one run, in the order in which to fix them."""

    name: str
    status: str
    """`finished`, `stopped: return reached`, `unfinished`, `diverged`, or the trainer whose log it is."""
    iterations: int
    findings: Sequence[Finding]
    remarks: Sequence[str] = ()
    """Damage of the record, such as lines that cannot be read."""
    unknown: Sequence[str] = ()
    """Settings that findings need and the record does not contain."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "status": self.status,
            "iterations": self.iterations,
            "healthy": not any(finding.alarm for finding in self.findings),
            "findings": [finding.to_dict() for finding in self.findings],
            "remarks": list(self.remarks),
            "unknown": list(self.unknown),
        }

    def _repr_html_(self) -> str:
        """The findings in a notebook."""
        title = f"{self.name}: {self.status}, {counted(self.iterations, 'iteration')}"
        rows = [(finding.name, finding.message, " or ".join(finding.flags)) for finding in self.findings]
        found = html.table(("finding", "evidence", "to try"), rows) if rows else html.paragraphs(["nothing found"])
        return html.paragraphs([title, *self.remarks]) + found

    def __str__(self) -> str:
        title = "\n".join(
            [
                f"{self.name}: {self.status}, {counted(self.iterations, 'iteration')}",
                *(f"  {text}" for text in self.remarks),
            ]
        )
        return report(self.findings, title, self.unknown)
