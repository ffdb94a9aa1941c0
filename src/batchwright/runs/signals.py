"""Ctrl-C and SIGTERM ask a loop to save and stop; a second one, or an environment that hangs, stops at once."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from batchwright.envs.watchdog import positions

STUCK_SECONDS = 3.0
"""A second signal that Python has not handled by then came while an environment was inside of compiled code."""
HANG_SECONDS = 6.0
"""After a signal, an environment that stays in one step for so long is not waited for."""
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
    """Hears signals for an environment that does not return: the loop would never come to its end.

    What was saved before stays. One that Python's own code keeps busy is interrupted; one in compiled code cannot be,
    and the process ends.
    """
    arrived = 0
    with reader:
        while numbers := reader.recv(16):
            arrived += sum(number in NUMBERS for number in numbers)
            if not arrived:
                continue
            if arrived > 1:
                time.sleep(STUCK_SECONDS)
                if handled() < 2:
                    os._exit(INTERRUPTED)
                continue
            if not _comes(reader, STUCK_SECONDS) and not handled():
                text = f"the signal waits for the compiler or an environment: no answer for {STUCK_SECONDS:g} s"
                _warn(f"{text}; again to stop at once")
            before = positions()
            while not _comes(reader, HANG_SECONDS):
                now = positions()
                if before & now:
                    _warn(f"an environment has not returned for {HANG_SECONDS:g} s: stopping at once")
                    os.kill(os.getpid(), signal.SIGTERM)
                    break
                before = now


def _comes(reader: socket.socket, seconds: float) -> bool:
    """Whether another signal comes within so many seconds."""
    return bool(select.select([reader], [], [], max(0.0, seconds))[0])


def _warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)
