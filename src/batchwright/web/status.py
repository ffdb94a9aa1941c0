"""What became of a run, from its record alone."""

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
"""Without a lock to ask, a record that was written to this lately is taken as running."""
_TELLING = ("finished", "interrupted", "diverged", "checkpoint", "resume")


def status_of(
    locked: bool | None,
    silent_seconds: float | None,
    iterations_done: int,
    iterations_planned: int | None,
    events: Sequence[Mapping[str, Any]],
) -> str:
    """The state of a run; `locked` is None where nobody can tell, `silent_seconds` where nothing was ever written."""
    if locked or (locked is None and silent_seconds is not None and silent_seconds < SILENT_SECONDS):
        return RUNNING
    last: Mapping[str, Any] = next((event for event in reversed(events) if event.get("kind") in _TELLING), {})
    if last.get("kind") == "diverged":
        return DIVERGED
    if last.get("kind") == "finished" or (iterations_planned and iterations_done >= iterations_planned):
        return FINISHED
    # Records from before there was an event for it: a checkpoint that a signal asked for.
    if last.get("kind") == "interrupted" or str(last.get("message", "")).startswith("asked for by a signal"):
        return INTERRUPTED
    return CRASHED if iterations_done or events else PLANNED
