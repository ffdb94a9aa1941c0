"""Measures during a run: its memory, that of the machine, and accelerator utilisation.

Names end in `_bytes` or `_use`, which comparisons of runs leave out.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from batchwright.core.machine import process_tree_bytes, usable_ram_bytes, used_ram_bytes

READ_EVERY_SECONDS = 2.0


class MemoryGauge:
    """Bytes of this run, of the whole machine, and the limit; read at most every two seconds, because it takes time."""

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._limit: int | None = None
        self._due = -READ_EVERY_SECONDS

    def read(self) -> dict[str, int]:
        """What is known of these three; empty within two seconds of the last reading.

        `memory_bytes`: this process and its workers. `machine_memory_bytes`: all that counts towards
        `memory_limit_bytes`, other programs included.
        """
        now = self._clock()
        if now < self._due:
            return {}
        self._due = now + READ_EVERY_SECONDS
        found: dict[str, int | None] = {}
        with contextlib.suppress(OSError, ValueError):  # a system without these files
            found["memory_bytes"] = process_tree_bytes(self._root)
        with contextlib.suppress(OSError, ValueError):
            self._limit = usable_ram_bytes(self._root) if self._limit is None else self._limit
            found |= {"machine_memory_bytes": used_ram_bytes(self._root), "memory_limit_bytes": self._limit}
        return {name: value for name, value in found.items() if value is not None}


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
