"""What a process may use, from made-up /proc and /sys folders and from this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchwright.core.machine import GIB, probe_machine, usable_cores, usable_ram_bytes, with_overrides
from run_batchwright import LAPTOP

HERE = len(os.sched_getaffinity(0))
UNLIMITED_V1 = "9223372036854771712"


def machine_root(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def meminfo(gib: int) -> str:
    return f"MemFree: 5 kB\nMemTotal:       {gib * 1024**2} kB\n"


def test_cores_of_a_version_2_group_are_quota_over_period(tmp_path: Path) -> None:
    root = machine_root(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"})
    assert usable_cores(root) == 1  # one and a half cores run one process at full speed


def test_cores_of_a_version_1_group_are_quota_over_period(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "100000\n",
        "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "100000\n",
    }
    assert usable_cores(machine_root(tmp_path, files)) == 1


def test_a_parent_group_may_hold_the_tighter_limit(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/slice/job\n",
        "proc/meminfo": meminfo(64),
        "sys/fs/cgroup/slice/cpu.max": "100000 100000\n",
        "sys/fs/cgroup/slice/job/cpu.max": "800000 100000\n",
        "sys/fs/cgroup/slice/memory.max": str(3 * GIB),
        "sys/fs/cgroup/slice/job/memory.max": str(8 * GIB),
    }
    root = machine_root(tmp_path, files)
    assert usable_cores(root) == 1
    assert usable_ram_bytes(root) == 3 * GIB


def test_a_fraction_of_a_core_is_still_one(tmp_path: Path) -> None:
    root = machine_root(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "20000 100000\n"})
    assert usable_cores(root) == 1


@pytest.mark.parametrize("limit", ["max 100000\n", "", "nonsense\n"])
def test_without_a_quota_the_cores_are_those_of_the_affinity(tmp_path: Path, limit: str) -> None:
    root = machine_root(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": limit})
    assert usable_cores(root) == HERE


def test_a_quota_above_the_affinity_does_not_add_cores(tmp_path: Path) -> None:
    root = machine_root(tmp_path, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "99900000 100000\n"})
    assert usable_cores(root) == HERE


def test_affinity_is_obeyed(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from batchwright.core.machine import usable_cores; print(usable_cores(pathlib.Path(sys.argv[1])))"
    )
    answer = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "1"


def test_memory_is_the_total_without_a_limit(tmp_path: Path) -> None:
    root = machine_root(tmp_path, {"proc/meminfo": meminfo(16), "sys/fs/cgroup/memory.max": "max\n"})
    assert usable_ram_bytes(root) == 16 * GIB


def test_memory_of_a_version_1_group(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": meminfo(16),
        "proc/self/cgroup": "3:memory:/docker/abc\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED_V1,
        "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": str(2 * GIB),
    }
    assert usable_ram_bytes(machine_root(tmp_path, files)) == 2 * GIB


def test_a_limit_above_the_machine_does_not_add_memory(tmp_path: Path) -> None:
    files = {"proc/meminfo": meminfo(4), "sys/fs/cgroup/memory.max": str(100 * GIB)}
    assert usable_ram_bytes(machine_root(tmp_path, files)) == 4 * GIB


def test_an_empty_root_still_gives_a_machine(tmp_path: Path) -> None:
    machine = probe_machine(tmp_path)
    assert machine.cores == HERE
    assert machine.ram_bytes > 0
    assert machine.shm_bytes == 0


def test_this_machine_has_cores_memory_and_one_line_about_it() -> None:
    machine = probe_machine()
    assert 1 <= machine.cores <= os.cpu_count()
    assert machine.ram_bytes > 100 * 1024**2
    assert f"{machine.cores} core" in machine.describe()
    assert "\n" not in machine.describe()


def smi_folder(folder: Path, script: str) -> Path:
    command = folder / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return folder


def test_gpus_are_those_that_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(smi_folder(tmp_path, "printf 'NVIDIA RTX 5070, 12227\\nTesla, T4, 15360\\n'")))
    gpus = probe_machine().gpus
    assert [(gpu.name, gpu.memory_bytes) for gpu in gpus] == [
        ("NVIDIA RTX 5070", 12227 * 1024**2),
        ("Tesla, T4", 15 * GIB),
    ]


@pytest.mark.parametrize("script", ["exit 9", "echo 'No devices were found'", "echo 'GPU, [N/A]'"])
def test_a_broken_nvidia_smi_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setenv("PATH", str(smi_folder(tmp_path, script)))
    assert probe_machine().gpus == ()


def test_another_machine_is_planned_for_by_hand() -> None:
    machine = with_overrides(LAPTOP, cores=32, ram_gb=128, gpu_memory_gb=12)
    assert (machine.cores, machine.ram_bytes) == (32, 128 * GIB)
    assert machine.gpus[0].memory_bytes == 12 * GIB
    assert machine.given == ("cores", "ram", "gpu memory")
    assert "given: cores, ram, gpu memory" in machine.describe()
    assert with_overrides(LAPTOP) == LAPTOP
