"""Says which environment has not answered for long; a thread watches those that are stepped in this process."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

SILENT_SECONDS = 60.0
"""After so long without an answer it is said for the first time, then after twice as long, and so on."""
TICK_SECONDS = 1.0
Position: TypeAlias = tuple[int, ...]


def no_answer(environment: int | None, seconds: float, name: str) -> dict[str, Any]:
    """The event of an environment that has not answered; None where it is not known which one it is."""
    who = name if environment is None else f"{name}, environment {environment},"
    message = f"{who} has not answered for {seconds:.0f} s"
    return {"event": "no_answer", "environment": environment, "seconds": seconds, "error": message}


def print_no_answer(event: dict[str, Any]) -> None:
    """The listener of engines that nobody else listens to: an environment that hangs is said, the rest is not."""
    if event["event"] == "no_answer":
        print(f"warning: {event['error']}", file=sys.stderr, flush=True)


class Watch:
    """Work that environments of this process do: `with watch:` around a step, `at[0]` the environment it is at."""

    def __init__(self, name: str, on_event: Callable[[dict[str, Any]], None], at: Sequence[int] = ()) -> None:
        self._name, self._on_event, self._at = name, on_event, at
        self._count, self._busy = 0, False
        self._seen: tuple[int, int | None] | None = None
        self._since = self._next = 0.0
        _watched.add(self)
        _start_thread()

    def __enter__(self) -> None:
        self._count += 1
        self._busy = True

    def __exit__(self, *error: object) -> None:
        self._busy = False

    def position(self) -> Position | None:
        """What it is at: the same value later means that nothing has moved; None where it waits for no environment."""
        return (id(self), self._count, *(int(at) for at in self._at)) if self._busy else None

    def look(self, now: float) -> None:
        """Called by the thread once a tick: says that nothing has moved for long."""
        if not self._busy:
            self._seen = None
            return
        at = self._at[0] if len(self._at) and self._at[0] >= 0 else None
        if self._seen != (self._count, at):
            self._seen, self._since, self._next = (self._count, at), now, SILENT_SECONDS
        elif now - self._since >= self._next:
            self._next *= 2
            self._on_event(no_answer(at, now - self._since, self._name))


_watched: weakref.WeakSet[Watch] = weakref.WeakSet()
_lock = threading.Lock()
THREAD = "environment-watchdog"


def positions() -> set[Position]:
    """What the environments of this process are at; what is in it twice, some time apart, hangs or is slow."""
    return {position for watch in list(_watched) if (position := watch.position()) is not None}


def _start_thread() -> None:
    with _lock:
        if all(thread.name != THREAD for thread in threading.enumerate()):  # also in a fork, which has no threads
            threading.Thread(target=_watch_all, name=THREAD, daemon=True).start()


def _watch_all() -> None:
    while True:
        time.sleep(TICK_SECONDS)
        for watch in list(_watched):
            with contextlib.suppress(Exception):  # a record that is closed already; the thread must go on
                watch.look(time.monotonic())
