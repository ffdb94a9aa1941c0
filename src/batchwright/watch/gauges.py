"""Measures the machine during a run: memory in use and accelerator utilisation."""

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
    """Bytes in use and the limit, read at most every two seconds, so that short iterations are not slowed down."""

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._limit: int | None = None
        self._due = -READ_EVERY_SECONDS

    def read(self) -> dict[str, int]:
        """`memory_bytes` and `memory_limit_bytes`; empty within two seconds of the last reading or where unknown."""
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
    """Utilisation of the accelerators since the last reading, from 0 to 1; empty without nvidia-smi.

    One nvidia-smi process prints a line per GPU and second. A thread collects them, so that `read` costs nothing.
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
        threading.Thread(target=self._collect, args=(self._process.stdout,), daemon=True).start()

    def _collect(self, lines: Iterable[str]) -> None:
        for line in lines:
            with contextlib.suppress(ValueError):
                self._percent.append(float(line))

    def read(self) -> dict[str, float]:
        """`accelerator_use`; empty without measurements since the last reading."""
        readings, self._percent = self._percent, []
        return {"accelerator_use": sum(readings) / len(readings) / 100} if readings else {}

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
