"""One end of a pipe that polls for a message for a moment before it sleeps."""

from __future__ import annotations

import os
import select
import time
from multiprocessing.connection import Connection
from typing import Any


class SpinWaitPipe:
    """A connection whose `recv` polls for at most `spin_seconds` before it sleeps.

    Waking a process that sleeps takes as long as a step of some environments. A message is a system call on both
    sides, which orders what was written to shared memory before it.
    """

    def __init__(self, connection: Connection, spin_seconds: float) -> None:
        self._connection = connection
        self._spin_seconds = spin_seconds
        # Registered once: `Connection.poll` builds a selector at every call, which takes longer than polling.
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Whether a message, or the end of the stream, is there within so many seconds."""
        if self._spin_seconds > 0:
            deadline = time.perf_counter() + self._spin_seconds
            while not (there := self._poll.poll(0)) and time.perf_counter() < deadline:
                # Where another program wants this core, the process that is waited for may want it too.
                os.sched_yield()
            if there:
                return True
        return bool(self._poll.poll(1000 * seconds))

    def recv(self) -> Any:
        """The next message; EOFError where the other end is gone."""
        if self._spin_seconds > 0:
            self.wait(0.0)
        return self._connection.recv()

    def send(self, message: Any) -> None:
        self._connection.send(message)

    def close(self) -> None:
        self._connection.close()
