"""Measurements of the machine: memory by the tightest cgroup, accelerators by nvidia-smi."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from batchwright.core.machine import process_tree_bytes
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
    assert MemoryGauge(root).read() == {"machine_memory_bytes": 2 * GIB, "memory_limit_bytes": 4 * GIB}


def test_memory_without_a_limit_is_the_machines(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/meminfo": f"MemTotal: {8 * 2**20} kB\nMemAvailable: {3 * 2**20} kB\n"})
    assert MemoryGauge(root).read() == {"machine_memory_bytes": 5 * GIB, "memory_limit_bytes": 8 * GIB}


def test_memory_of_a_run_is_that_of_its_process_and_its_workers_alone(tmp_path: Path) -> None:
    me = os.getpid()
    files = {
        "proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 30 kB\n",
        f"proc/{me}/smaps_rollup": "00-ff ---p 0 [rollup]\nRss: 900 kB\nPss: 300 kB\nPss_Anon: 1 kB\n",
        f"proc/{me}/task/{me}/children": "70001 ",
        f"proc/{me}/task/{me + 1}/children": "70002 70004 ",
        "proc/70001/smaps_rollup": "00-ff ---p 0 [rollup]\nPss: 20 kB\n",
        "proc/70001/task/70001/children": "70003 ",
        "proc/70002/status": "Name: x\nVmRSS: 5 kB\n",
        "proc/70003/smaps_rollup": "00-ff ---p 0 [rollup]\nPss: 1 kB\n",
        "proc/70009/smaps_rollup": "00-ff ---p 0 [rollup]\nPss: 7000 kB\n",
    }
    # 300 + 20 + 5 + 1 kB: a worker, one without PSS, a worker's own; 70004 has ended, 70009 is another program.
    assert MemoryGauge(write(tmp_path, files)).read() == {
        "memory_bytes": 326 * 1024,
        "machine_memory_bytes": 70 * 1024,
        "memory_limit_bytes": 100 * 1024,
    }


def test_a_worker_adds_its_own_memory_to_that_of_the_run() -> None:
    before = process_tree_bytes()
    code = "import sys; kept = bytearray(64 << 20); print('ready', flush=True); sys.stdin.read()"
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
        after = process_tree_bytes()
    finally:
        worker.communicate()
    assert before is not None and after is not None
    assert 60 << 20 < after - before < 110 << 20


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
