"""Ctrl-C and SIGTERM ask a loop to save and stop; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_when_asked(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """A function that tells whether a stop was asked for; outside of the main thread nobody can ask."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        say("stopping after this iteration; again to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
