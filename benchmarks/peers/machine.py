"""The machine and the versions a figure was measured with."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": _first_value(Path("/proc/cpuinfo"), "model name") or platform.processor() or "unknown",
        "ram_gib": _ram_gib(),
        "system": platform.platform(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def interpreter_version(python: str) -> str:
    """The version of another interpreter, or why it could not be asked."""
    try:
        asked = subprocess.run([python, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return f"not runnable: {error}"
    return asked.stdout.strip() or asked.stderr.strip()


def busy_warning() -> str | None:
    """A sentence when other work would spoil the figures."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < 0.3 * cores:
        return None
    return f"load average {load:.1f} on {cores} cores before the start: figures of a busy machine are not comparable"


def _first_value(path: Path, name: str) -> str | None:
    if not path.exists():
        return None
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return None


def _ram_gib() -> float | None:
    kilobytes = _first_value(Path("/proc/meminfo"), "MemTotal")
    return round(int(kilobytes.split()[0]) / 1024**2, 1) if kilobytes else None
