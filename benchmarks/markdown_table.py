"""Markdown for tables.py: a table, a figure, where it was measured."""

from __future__ import annotations

from typing import Any


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are figures."""
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def figure(value: float) -> str:
    """A return with two digits after the point where it is small."""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def measured_on(report: dict[str, Any]) -> str:
    """Date and machine of a record, with the load it was measured under."""
    machine = report.get("machine", {})
    name = machine.get("cpu") or machine.get("processor") or "unknown processor"
    parts = [f"{machine.get('cores', '?')} cores ({name})"]
    parts += [f"{machine['ram_gib']} GiB RAM"] if machine.get("ram_gib") else []
    parts += [f"load {machine['load_before']} before the start"] if "load_before" in machine else []
    when = f"{report['measured'][:10]}, " if report.get("measured") else ""
    return f"Measured {when}on {', '.join(parts)}."
