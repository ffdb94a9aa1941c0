"""Ctrl-C and SIGTERM ask a loop to save and stop; a second one stops at once."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STUCK_SECONDS = 3.0
"""A signal that Python has not handled by then came while an environment was inside of compiled code."""
INTERRUPTED = 130
NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_when_asked(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """A function that tells whether a stop was asked for; outside of the main thread nobody can ask."""
    handled = 0

    def ask(number: int, frame: Any) -> None:
        nonlocal handled
        handled += 1
        if handled > 1:
            raise KeyboardInterrupt
        say("stopping after this iteration; again to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in NUMBERS}
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_heed_signals, args=(reader, lambda: handled), daemon=True).start()
    try:
        yield lambda: handled > 0
    finally:
        signal.set_wakeup_fd(wakeup)
        writer.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _heed_signals(reader: socket.socket, handled: Callable[[], int]) -> None:
    """Hears signals that Python cannot handle, because an environment does not return from compiled code.

    The first is said; after the second the process ends: what was saved before stays.
    """
    arrived = 0
    with reader:
        while numbers := reader.recv(16):
            arrived += sum(number in NUMBERS for number in numbers)
            if not arrived:
                continue
            time.sleep(STUCK_SECONDS)
            if handled() >= min(arrived, 2):
                continue
            if arrived > 1:
                os._exit(INTERRUPTED)
            text = f"warning: the signal waits for an environment that has not returned for {STUCK_SECONDS:g} s"
            print(f"{text}; again to stop at once", file=sys.stderr, flush=True)
