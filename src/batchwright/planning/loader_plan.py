"""The loader of recorded data: its processes, their bands, and the memory that their batches take."""

from __future__ import annotations

import math
import sys

from batchwright.core.machine import Machine
from batchwright.planning.ledger import Ledger
from batchwright.planning.memory import GOOD_SHARE, show_bytes
from batchwright.planning.quantity import MEASURED, Quantity, counted

MOST_WORKERS = 16
PROCESS_BYTES = 400 * 1024**2
"""A guess: RAM of one loader process beside the pages it shares. Training and one loader together took 0.8-0.9 GB."""


ON_CPU = "without a GPU they take cores from the update: 1.7 to 1.9 times slower with 1 worker, measured on 2 cores"


def workers_for(cores: int, samples: int) -> int:
    """min(usable cores / 2, 2 x batch, 16), at least 0."""
    return max(0, min(cores // 2, 2 * samples, MOST_WORKERS))


def plan_loader(ledger: Ledger, machine: Machine, prefetch: int, frame_bytes: int, measured: int | None) -> None:
    """Loader processes by the formula, or as measured, with bands and the memory they need."""
    samples = int(ledger.quantities["samples_per_step"].value or 1)
    best = workers_for(machine.cores, samples)
    formula = f"min({machine.cores} usable cores / 2, 2 x {samples} samples, {MOST_WORKERS})"
    on_cpu = not machine.gpus and sys.platform != "darwin"
    if on_cpu:
        best, formula = 0, ON_CPU
    stated = ledger.stated("workers")
    if stated is not None:
        ledger.adopt("workers", stated, "processes")
    elif measured is not None:
        reason = "the fewest within 10% of the best of batchwright lerobot probe"
        ledger.quantities["workers"] = Quantity("workers", measured, "processes", reason, MEASURED, "measured")
    else:
        ledger.settle("workers", best, "processes", formula)
    workers = int(ledger.quantities["workers"].value or 0)
    if measured is None and not on_cpu:
        _judge(ledger, workers, best, formula, machine.cores)
    ledger.settle("prefetch_factor", prefetch, "batches", "batches that each loader process keeps ready")
    _settle_memory(ledger, machine, workers, prefetch, frame_bytes)


def _judge(ledger: Ledger, workers: int, best: int, formula: str, cores: int) -> None:
    low, high = min(best, max(1, best // 2)), min(best + best // 5, cores)
    if workers < low:
        verdict = f"too few, the learner will wait for data; {formula} = {best}"
    elif workers > high:
        verdict = f"too many for {counted(cores, 'core')}, they will compete with each other; {formula} = {best}"
    else:
        verdict = f"in the good band {low}-{high}"
    message = f"{counted(workers, 'worker')}: {verdict}"
    ledger.check("workers", low <= workers <= high, message, "docs/planning/dataset.md")


def _settle_memory(ledger: Ledger, machine: Machine, workers: int, prefetch: int, frame_bytes: int) -> None:
    """Batches in /dev/shm, and RAM of the processes; a loader takes the whole batch of an update at once."""
    processes = int(ledger.quantities["processes"].value or 1)
    share = math.ceil(int(ledger.quantities["samples_per_update"].value or 1) / processes)
    batch = share * frame_bytes
    shm, ram = processes * workers * prefetch * batch, processes * workers * PROCESS_BYTES
    by_process = f"{processes} processes x " if processes > 1 else ""
    ledger.settle(
        "loader_shm_bytes",
        shm,
        "bytes",
        f"{by_process}{counted(workers, 'worker')} x {prefetch} batches x {show_bytes(batch)} of float32 images",
    )
    ledger.settle(
        "loader_ram_bytes",
        ram,
        "bytes",
        f"{by_process}{counted(workers, 'worker')} x {show_bytes(PROCESS_BYTES)} (a guess)",
    )
    if machine.given:
        return
    for name, need, has, where, source in (
        ("shared-memory", shm, machine.shm_bytes, "/dev/shm", "PyTorch loaders pass batches through /dev/shm"),
        ("loader-memory", ram + shm, machine.ram_bytes, "RAM", "docs/planning/dataset.md#workers"),
    ):
        message = f"loaders need {show_bytes(need)} of {show_bytes(has)} {where}"
        ledger.check(name, need <= has * GOOD_SHARE, message, source)
