"""The status of a run, derived from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchwright.watch.run_end import run_end

PLANNED, RUNNING, CRASHED = "planned", "running", "crashed"
"""Beside these, a status is one of the ends of `watch.run_end`."""
SILENT_SECONDS = 120.0
"""If locks cannot be checked, a record written within this time counts as running."""


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
    end = run_end(events, iterations_done, iterations_planned)
    return end or (CRASHED if iterations_done or events else PLANNED)
