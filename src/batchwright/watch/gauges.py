"""What is read off the machine while a run goes on: memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from batchwright.core.machine import usable_ram_bytes, used_ram_bytes

READ_EVERY_SECONDS = 2.0


class MemoryGauge:
    """Bytes in use and the limit, read at most every two seconds, so that short iterations do not pay for it."""

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._limit: int | None = None
        self._due = -READ_EVERY_SECONDS

    def read(self) -> dict[str, int]:
        """`memory_bytes` and `memory_limit_bytes`; empty where it is not time yet or nobody tells."""
        now = self._clock()
        if now < self._due:
            return {}
        self._due = now + READ_EVERY_SECONDS
        try:
            self._limit = usable_ram_bytes(self._root) if self._limit is None else self._limit
            used = used_ram_bytes(self._root)
        except (OSError, ValueError):  # a system without these files
            return {}
        return {} if used is None else {"memory_bytes": used, "memory_limit_bytes": self._limit}
