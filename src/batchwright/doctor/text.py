"""Findings as text: the report in the terminal, and one line during training."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from batchwright.doctor.finding import SEVERITIES, Finding

WIDTH = 110


def report(found: Sequence[Finding], title: str, unknown: Sequence[str] = ()) -> str:
    """All findings: numbered alarms, then notes, then the settings that the log does not contain (`unknown`)."""
    alarms = [finding for finding in found if finding.alarm]
    notes = [finding for finding in found if not finding.alarm]
    lines = [title, ""]
    lines += [_block(number, finding) for number, finding in enumerate(alarms, 1)] or ["no alarms.", ""]
    if notes:
        lines += ["notes", *(_note(finding) for finding in notes), ""]
    if unknown:
        lines.append(textwrap.fill("not in this log: " + ", ".join(unknown), WIDTH, subsequent_indent="  "))
    return "\n".join(lines).rstrip()


def one_line(finding: Finding) -> str:
    """The line printed during training: finding, evidence, cause, first flags."""
    flags = f" Try: {finding.flags[0]}" if finding.flags else ""
    return f"{finding.name}: {finding.message} Likely cause: {finding.cause}.{flags}"


def _block(number: int, finding: Finding) -> str:
    head = f"{number}. {finding.name} ({SEVERITIES[finding.severity]}, confidence {finding.confidence:.0%})"
    rows = [("evidence", finding.message), ("cause", finding.cause)]
    rows += [("try" if k == 0 else "or", flags) for k, flags in enumerate(finding.flags)]
    rows.append(("source", finding.source))
    return "\n".join([head, *(_row(name, text) for name, text in rows), ""])


def _row(name: str, text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=f"   {name + ':':<10}", subsequent_indent=" " * 13)


def _note(finding: Finding) -> str:
    flags = f" Try: {finding.flags[0]}" if finding.flags else ""
    text = f"{finding.name}: {finding.message}{flags}"
    return textwrap.fill(text, WIDTH, initial_indent="  - ", subsequent_indent="    ")
