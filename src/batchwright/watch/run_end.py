"""How a run ended, by its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FINISHED, STOPPED, INTERRUPTED, DIVERGED = "finished", "stopped", "interrupted", "diverged"
CALLBACK = "stopped-by-callback"
RETURN_REACHED = "return reached"
"""The `reason` of the event `finished` where `--stop-return` ended a run before its last planned iteration."""
FAILED = "failed"
"""The event of an error that ended a run; a run that was killed has none."""
EXTENDED = "extended"
"""The event of a run that was given more steps: what ended it before does not count any more."""
BY_CALLBACK = "by a callback"
"""The `reason` of the event `finished` where the user's callback ended a run before its last planned iteration."""
END_TEXT = {STOPPED: f"stopped: {RETURN_REACHED}", CALLBACK: f"stopped: {BY_CALLBACK}"}
"""Ends that people are told by more than their name."""
_END_EVENTS = ("finished", "interrupted", "diverged", "checkpoint", "resume", EXTENDED)


def run_end(events: Sequence[Mapping[str, Any]], iterations_done: int, iterations_planned: float | None) -> str | None:
    """One of the ends above; None for a run that was killed, is still running, or has not begun."""
    last: Mapping[str, Any] = next((event for event in reversed(events) if event.get("kind") in _END_EVENTS), {})
    if last.get("kind") == "diverged":
        return DIVERGED
    if last.get("kind") == "finished" and last.get("reason") == RETURN_REACHED:
        return STOPPED
    if last.get("kind") == "finished" and last.get("reason") == BY_CALLBACK:
        return CALLBACK
    if last.get("kind") == "finished" or (iterations_planned and iterations_done >= iterations_planned):
        return FINISHED
    # Older records have no `interrupted` event, only the checkpoint that the signal caused.
    if last.get("kind") == "interrupted" or str(last.get("message", "")).startswith("asked for by a signal"):
        return INTERRUPTED
    return None
