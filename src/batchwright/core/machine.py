"""Resources this process may use: cores and memory by cgroup and affinity, /dev/shm, GPUs."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

GIB = 1024**3

# A cgroup v1 without a limit reports a number near 2**63; anything this large is "no limit".
NO_LIMIT_BYTES = 1 << 60


@dataclass(frozen=True)
class Gpu:
    """One accelerator: its name and total memory."""

    name: str
    memory_bytes: int


@dataclass(frozen=True)
class Machine:
    """The resources a plan may spend; `given` names those stated by hand instead of probed."""

    cores: int
    ram_bytes: int
    shm_bytes: int
    gpus: tuple[Gpu, ...] = ()
    given: tuple[str, ...] = ()

    def describe(self) -> str:
        """One line: cores, RAM, shared memory, GPUs."""
        gpus = ", ".join(f"{gpu.name} {gpu.memory_bytes / GIB:.0f} GiB" for gpu in self.gpus) or "no GPU"
        by_hand = f" (given: {', '.join(self.given)})" if self.given else ""
        return (
            f"{self.cores} {'core' if self.cores == 1 else 'cores'}, {self.ram_bytes / GIB:.1f} GiB RAM, "
            f"{self.shm_bytes / GIB:.1f} GiB shm, {gpus}{by_hand}"
        )


def probe_machine(root: Path = Path("/")) -> Machine:
    """The machine as this process may use it; `root` is where /proc, /sys and /dev are looked up."""
    return Machine(
        cores=usable_cores(root),
        ram_bytes=usable_ram_bytes(root),
        shm_bytes=_disk_bytes(root / "dev/shm"),
        gpus=_probe_gpus(),
    )


def with_overrides(
    machine: Machine,
    cores: int | None = None,
    ram_gb: float | None = None,
    gpu_memory_gb: float | None = None,
) -> Machine:
    """The same machine with what the user stated by hand, for planning for another one."""
    given = tuple(
        name for name, value in (("cores", cores), ("ram", ram_gb), ("gpu memory", gpu_memory_gb)) if value is not None
    )
    if cores is not None:
        machine = replace(machine, cores=cores)
    if ram_gb is not None:
        machine = replace(machine, ram_bytes=int(ram_gb * GIB))
    if gpu_memory_gb is not None:
        machine = replace(machine, gpus=(Gpu("GPU", int(gpu_memory_gb * GIB)),))
    return replace(machine, given=given)


def usable_cores(root: Path = Path("/")) -> int:
    """Whole cores this process may run on: affinity, then the tightest cgroup quota; at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [_quota_v2(folder) for folder in _cgroup_folders(root, "", "sys/fs/cgroup")]
    quotas += [_quota_v1(folder) for folder in _cgroup_folders(root, "cpu", "sys/fs/cgroup/cpu")]
    limits = [quota for quota in quotas if quota is not None]
    return max(1, min(affinity, *(math.floor(limit) for limit in limits)) if limits else affinity)


def usable_ram_bytes(root: Path = Path("/")) -> int:
    """Bytes of RAM this process may hold: the machine's total or the tightest cgroup limit."""
    limits: list[int | None] = [_total_ram_bytes(root)]
    for folder in _cgroup_folders(root, "", "sys/fs/cgroup"):
        limits.append(_read_bytes(folder / "memory.max"))
    for folder in _cgroup_folders(root, "memory", "sys/fs/cgroup/memory"):
        limits.append(_read_bytes(folder / "memory.limit_in_bytes"))
    return min(limit for limit in limits if limit is not None)


def used_ram_bytes(root: Path = Path("/")) -> int | None:
    """Bytes in use under the limit of `usable_ram_bytes`, files that can be dropped left out; None where unknown.

    Within a cgroup's limit that is all of the cgroup, other programs included: what counts when the limit is reached.
    """
    for folder in reversed(_cgroup_folders(root, "", "sys/fs/cgroup")):
        if _read_bytes(folder / "memory.max") is not None:
            return _less_droppable(folder / "memory.current", folder / "memory.stat", "inactive_file")
    for folder in reversed(_cgroup_folders(root, "memory", "sys/fs/cgroup/memory")):
        if _read_bytes(folder / "memory.limit_in_bytes") is not None:
            return _less_droppable(folder / "memory.usage_in_bytes", folder / "memory.stat", "total_inactive_file")
    free = _named_number(root / "proc/meminfo", "MemAvailable:")
    return None if free is None else _total_ram_bytes(root) - 1024 * free


def process_tree_bytes(root: Path = Path("/"), process: int | None = None) -> int | None:
    """Bytes of RAM of a process and its descendants, such as workers of environments; None where unknown.

    Proportional set size (PSS): a page that several processes share counts once in all, where resident set sizes would
    count it in each. The resident set size stands in where the system does not tell.
    """
    first = os.getpid() if process is None else process
    found = [_process_bytes(root / "proc" / str(each)) for each in _process_tree(root, first)]
    known = [size for size in found if size is not None]  # a worker may have ended meanwhile
    return sum(known) if known else None


def _process_bytes(folder: Path) -> int | None:
    proportional = _named_number(folder / "smaps_rollup", "Pss:")
    resident = proportional if proportional is not None else _named_number(folder / "status", "VmRSS:")
    return None if resident is None else 1024 * resident


def _process_tree(root: Path, first: int) -> list[int]:
    """A process and its descendants, by the lists of children that the kernel keeps for each thread."""
    found = [first]
    for each in found:
        for children in (root / "proc" / str(each) / "task").glob("*/children"):
            found += [int(word) for word in _read_words(children) if word.isdigit() and int(word) not in found]
    return found


def _less_droppable(used: Path, stat: Path, name: str) -> int | None:
    total = _read_bytes(used)
    return None if total is None else total - (_named_number(stat, name) or 0)


def _named_number(path: Path, name: str) -> int | None:
    """The number behind a word, in files of one `name number` per line."""
    words = _read_words(path)
    return int(words[words.index(name) + 1]) if name in words else None


def _cgroup_folders(root: Path, controller: str, mount: str) -> list[Path]:
    """The process's cgroup folder and every parent up to the mount: any of them may hold the limit."""
    base = root / mount
    folders = [base]
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller in controllers.split(","):
            folder = base
            for part in Path(path.lstrip("/")).parts:
                folder = folder / part
                folders.append(folder)
    return folders


def _quota_v2(folder: Path) -> float | None:
    words = _read_words(folder / "cpu.max")
    if len(words) != 2 or words[0] == "max":
        return None
    return int(words[0]) / int(words[1])


def _quota_v1(folder: Path) -> float | None:
    quota, period = _read_words(folder / "cpu.cfs_quota_us"), _read_words(folder / "cpu.cfs_period_us")
    if not quota or not period or int(quota[0]) <= 0:
        return None
    return int(quota[0]) / int(period[0])


def _total_ram_bytes(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines() if (root / "proc/meminfo").exists() else ():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _read_bytes(path: Path) -> int | None:
    words = _read_words(path)
    if not words or not words[0].isdigit() or int(words[0]) >= NO_LIMIT_BYTES:
        return None
    return int(words[0])


def _read_words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _disk_bytes(path: Path) -> int:
    try:
        return shutil.disk_usage(path).total
    except OSError:
        return 0


def _probe_gpus() -> tuple[Gpu, ...]:
    """GPUs by nvidia-smi, which answers without loading a CUDA runtime; none where it is missing."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ()
    query = [command, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [line.rsplit(",", 1) for line in answer.splitlines() if "," in line]
    return tuple(Gpu(name.strip(), int(mib) * 1024**2) for name, mib in rows if mib.strip().isdigit())
