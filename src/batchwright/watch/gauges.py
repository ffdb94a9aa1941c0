"""What is read off the machine while a run goes on: memory, and how busy accelerators are."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
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


class AcceleratorGauge:
    """How busy the accelerators were since the last reading, from 0 to 1, by nvidia-smi; nothing where it is missing.

    One process prints a line per GPU and second; a thread takes them in, so that reading costs nothing.
    """

    def __init__(self) -> None:
        self._percent: list[float] = []
        self._process: subprocess.Popen[str] | None = None
        command = shutil.which("nvidia-smi")
        if command is None:
            return
        query = [command, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop=1"]
        try:
            self._process = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError:
            return
        threading.Thread(target=self._take_in, args=(self._process.stdout,), daemon=True).start()

    def _take_in(self, lines: Iterable[str]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):
                self._percent.append(float(line))

    def read(self) -> dict[str, float]:
        """`accelerator_use`; empty where nothing was measured since the last reading."""
        seen, self._percent = self._percent, []
        return {"accelerator_use": sum(seen) / len(seen) / 100} if seen else {}

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
