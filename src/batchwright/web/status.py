"""The status of a run, derived from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchwright.watch.run_end import (
    BY_CALLBACK,
    CALLBACK,
    DIVERGED,
    FAILED,
    INTERRUPTED,
    RETURN_REACHED,
    STOPPED,
    run_end,
)

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


def end_reason(status: str, events: Sequence[Mapping[str, Any]], last_words: str) -> str:
    """Why a run ended before its last iteration, in one line; empty for one that runs, or ran to its end.

    `last_words` is the last line of a traceback that a crashed run left.
    """
    if status == CRASHED:
        return (
            _last_message(_since_resume(events), FAILED)
            or last_words
            or "killed, or its machine stopped: it left no end and no traceback"
        )
    if status == DIVERGED:
        return _last_message(events, "diverged", "non-finite") or "loss or parameters were not finite"
    if status == INTERRUPTED:
        return _last_message(events, "interrupted") or "a signal asked it to stop"
    return {STOPPED: RETURN_REACHED, CALLBACK: BY_CALLBACK}.get(status, "")


def _since_resume(events: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    last = max((i for i, event in enumerate(events) if event.get("kind") == "resume"), default=-1)
    return events[last + 1 :]


def _last_message(events: Sequence[Mapping[str, Any]], *kinds: str) -> str:
    found = (event.get("message") for event in reversed(events) if event.get("kind") in kinds)
    return next((message[:300] for message in found if isinstance(message, str) and message), "")
