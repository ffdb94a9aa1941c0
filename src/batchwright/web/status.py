"""The status of a run, derived from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PLANNED, RUNNING, FINISHED, INTERRUPTED, DIVERGED, CRASHED = (
    "planned",
    "running",
    "finished",
    "interrupted",
    "diverged",
    "crashed",
)
SILENT_SECONDS = 120.0
"""If locks cannot be checked, a record written within this time counts as running."""
_STATUS_EVENTS = ("finished", "interrupted", "diverged", "checkpoint", "resume")


def status_of(
    locked: bool | None,
    silent_seconds: float | None,
    iterations_done: int,
    iterations_planned: float | None,
    events: Sequence[Mapping[str, Any]],
) -> str:
    """The status of a run; `locked` is None if it cannot be checked, `silent_seconds` if nothing was ever written."""
    if locked or (locked is None and silent_seconds is not None and silent_seconds < SILENT_SECONDS):
        return RUNNING
    last: Mapping[str, Any] = next((event for event in reversed(events) if event.get("kind") in _STATUS_EVENTS), {})
    if last.get("kind") == "diverged":
        return DIVERGED
    if last.get("kind") == "finished" or (iterations_planned and iterations_done >= iterations_planned):
        return FINISHED
    # Older records have no `interrupted` event, only the checkpoint that the signal caused.
    if last.get("kind") == "interrupted" or str(last.get("message", "")).startswith("asked for by a signal"):
        return INTERRUPTED
    return CRASHED if iterations_done or events else PLANNED
