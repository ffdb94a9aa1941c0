"""Measurements of the machine: memory by the tightest cgroup, accelerators by nvidia-smi."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from batchwright.watch.gauges import AcceleratorGauge, MemoryGauge

GIB = 2**30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_memory_under_a_cgroup_limit_leaves_droppable_files_out(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable: 1 kB\n",
            "proc/self/cgroup": "0::/job\n",
            "sys/fs/cgroup/job/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/job/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/job/memory.stat": f"anon 5\ninactive_file {GIB}\n",
        },
    )
    assert MemoryGauge(root).read() == {"memory_bytes": 2 * GIB, "memory_limit_bytes": 4 * GIB}


def test_memory_without_a_limit_is_the_machines(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/meminfo": f"MemTotal: {8 * 2**20} kB\nMemAvailable: {3 * 2**20} kB\n"})
    assert MemoryGauge(root).read() == {"memory_bytes": 5 * GIB, "memory_limit_bytes": 8 * GIB}


def test_memory_is_read_every_two_seconds(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 30 kB\n"})
    gauge = MemoryGauge(root, clock=iter([0.0, 1.9, 2.1]).__next__)
    assert [bool(gauge.read()) for _ in range(3)] == [True, False, True]


def test_an_accelerator_is_as_busy_as_nvidia_smi_says_on_average(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\necho 20\necho 60\necho '[N/A]'\nexec sleep 60\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    gauge = AcceleratorGauge()
    found: dict[str, float] = {}
    try:
        deadline = time.monotonic() + 20
        while len(gauge._percent) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        found = gauge.read()
    finally:
        gauge.close()
    assert found == {"accelerator_use": pytest.approx(0.4)}
    assert gauge.read() == {}


def test_without_nvidia_smi_there_is_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert AcceleratorGauge().read() == {}
