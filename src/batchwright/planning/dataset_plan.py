"""The dataset plan: samples, accumulation, workers, precision, and memory as fixed + per sample x batch."""

from __future__ import annotations

import math

from batchwright.config.load import Resolved
from batchwright.config.schema import DATASET
from batchwright.core.errors import UserError
from batchwright.core.machine import GIB, Machine
from batchwright.planning.ledger import Ledger
from batchwright.planning.memory import (
    DANGER_SHARE,
    GOOD_SHARE,
    PRIORS,
    PolicyMemory,
    prior_memory,
    show_bytes,
)
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.quantity import counted
from batchwright.planning.split import largest_divisor

MOST_WORKERS = 16
PREFETCHED_BATCHES = 2
"""Batches that each loader process keeps ready (PyTorch's default)."""


def plan_dataset(resolved: Resolved, machine: Machine) -> Plan:
    """Every number of training on recorded data."""
    ledger = Ledger(resolved)
    ledger.refuse_foreign(DATASET)
    policy = ledger.config.algo
    cameras = ledger.setting("cameras", 3, "the setup that the per-sample figures are for")
    side = ledger.setting("image_size", 224, "the size that the per-sample figures are for")
    ledger.setting("datasets", 1, "one dataset")
    precision = ledger.setting("precision", "bf16" if machine.gpus else "fp32", "bf16 on a GPU, fp32 on a CPU", unit="")
    checkpointing = ledger.setting(
        "gradient_checkpointing", False, "only when memory runs short: it costs a third of the speed", unit=""
    )
    memory = _memory(ledger, policy, int(cameras), int(side), str(precision), bool(checkpointing))
    samples = _samples(ledger, policy, memory, machine)
    _workers(ledger, machine, samples, int(cameras), int(side))
    _show_memory(ledger, memory, samples, machine)
    _updates(ledger)
    _ladder(ledger, samples)
    return Plan(
        DATASET,
        policy,
        ledger.quantities,
        tuple(ledger.checks),
        tuple(ledger.remarks),
        tuple(ledger.alternatives),
        TaskFacts(name=ledger.stated("dataset")),
        machine.describe(),
    )


def workers_for(cores: int, samples: int) -> int:
    """min(usable cores / 2, 2 x batch, 16), at least 0."""
    return max(0, min(cores // 2, 2 * samples, MOST_WORKERS))


def _memory(ledger: Ledger, policy: str, cameras: int, side: int, precision: str, checkpointing: bool) -> PolicyMemory:
    """Measured figures where the user has them, priors otherwise."""
    prior = prior_memory(policy, cameras, side, precision, checkpointing)
    fixed, sample = ledger.stated("fixed_mb"), ledger.stated("sample_mb")
    return PolicyMemory(
        prior.fixed_bytes if fixed is None else fixed * 1e6,
        prior.sample_bytes if sample is None else sample * 1e6,
        prior.fixed_reason if fixed is None else f"{ledger.place('fixed_mb')}",
        prior.sample_reason if sample is None else f"{ledger.place('sample_mb')}",
        measured=fixed is not None and sample is not None,
    )


def _samples(ledger: Ledger, policy: str, memory: PolicyMemory, machine: Machine) -> int:
    """The micro-batch: as stated, else a careful start that fits; with accumulation up to the effective batch."""
    limit = machine.gpus[0].memory_bytes if machine.gpus else machine.ram_bytes
    where = "GPU memory" if machine.gpus else "RAM (no GPU)"
    fits = memory.largest(limit)
    if fits < 1:
        raise UserError(
            f"{show_bytes(limit)} {where} cannot hold {policy}: fixed {show_bytes(memory.fixed_bytes)} + "
            f"{show_bytes(memory.sample_bytes)} for one sample is above {GOOD_SHARE:.0%}.",
            [*_smaller_memory(ledger, limit), f"--gpu-memory-gb {_gib_for(memory.total(1))}"],
        )
    ledger.settle(
        "largest_samples_per_step",
        fits,
        "samples",
        f"({GOOD_SHARE:.0%} of {show_bytes(limit)} {where} - {show_bytes(memory.fixed_bytes)}) / "
        f"{show_bytes(memory.sample_bytes)}",
    )
    start = min(PRIORS[policy].start_samples, fits)
    micro, accumulation, effective = _solve_batch(ledger, start, fits)
    _write_batch(ledger, micro, accumulation, effective, start, fits)
    _remark_poor_divisor(ledger, micro, effective, fits)
    use = memory.total(micro) / limit
    if use >= DANGER_SHARE:
        lower = largest_divisor(effective, fits)
        ledger.remark(
            f"danger: {micro} samples need {show_bytes(memory.total(micro))}, {use:.0%} of {show_bytes(limit)} "
            f"{where}; expect to run out of memory. --samples-per-step {lower} --accumulation {effective // lower} "
            f"keeps the {effective} samples per update."
        )
    elif use > GOOD_SHARE:
        ledger.remark(
            f"{micro} samples use {use:.0%} of {show_bytes(limit)} {where}; good is up to {GOOD_SHARE:.0%}, "
            f"danger from {DANGER_SHARE:.0%}."
        )
    return micro


def _smaller_memory(ledger: Ledger, limit: int) -> list[str]:
    """Flags that make one sample fit, the mildest set only."""
    policy, cameras, side = (
        ledger.config.algo,
        ledger.quantities["cameras"].value,
        ledger.quantities["image_size"].value,
    )
    now = ledger.quantities["precision"].value, ledger.quantities["gradient_checkpointing"].value
    for flags, precision, checkpointing in (
        ("--precision bf16", "bf16", now[1]),
        ("--gradient-checkpointing", now[0], True),
        ("--precision bf16 --gradient-checkpointing", "bf16", True),
    ):
        memory = _memory(ledger, policy, int(cameras or 1), int(side or 1), str(precision), bool(checkpointing))
        if memory.largest(limit) >= 1:
            return [flags]
    return []


def _gib_for(need: float) -> int:
    return math.ceil(need / GOOD_SHARE / GIB)


def _solve_batch(ledger: Ledger, start: int, fits: int) -> tuple[int, int, int]:
    """(micro-batch, accumulation, effective batch) around whatever subset is stated."""
    micro, accumulation, effective = (
        ledger.stated(n) for n in ("samples_per_step", "accumulation", "samples_per_update")
    )
    if effective is None:
        micro, accumulation = micro or start, accumulation or 1
        return micro, accumulation, micro * accumulation
    if micro is not None and accumulation is not None and micro * accumulation != effective:
        raise UserError(
            f"{micro} samples per step x {accumulation} micro-batches = {micro * accumulation}, "
            f"not the {effective} samples per update stated.",
            [
                f"--samples-per-update {micro * accumulation}",
                f"--samples-per-step {largest_divisor(effective, micro)} "
                f"--accumulation {effective // largest_divisor(effective, micro)}",
            ],
        )
    if (micro is not None and effective % micro) or (accumulation is not None and effective % accumulation):
        given = micro if micro is not None else accumulation
        name = "--samples-per-step" if micro is not None else "--accumulation"
        raise UserError(
            f"{effective} samples per update are not a whole number of {given}s: the effective batch would "
            "change silently.",
            [
                f"{name} {largest_divisor(effective, given)}",
                f"--samples-per-update {math.ceil(effective / given) * given}",
            ],
        )
    if micro is None:
        micro = effective // accumulation if accumulation is not None else largest_divisor(effective, max(1, fits))
    return micro, effective // micro, effective


def _write_batch(ledger: Ledger, micro: int, accumulation: int, effective: int, start: int, fits: int) -> None:
    for name, value, unit, reason in (
        (
            "samples_per_step",
            micro,
            "samples",
            _micro_reason(ledger, accumulation, effective, start, fits),
        ),
        (
            "accumulation",
            accumulation,
            "micro-batches",
            "one micro-batch per update" if accumulation == 1 else f"{effective} samples / {micro} in memory",
        ),
        ("samples_per_update", effective, "samples", f"{micro} samples x {counted(accumulation, 'micro-batch')}"),
    ):
        if ledger.stated(name) is not None:
            ledger.adopt(name, value, unit)
        else:
            ledger.settle(name, value, unit, reason)


def _micro_reason(ledger: Ledger, accumulation: int, effective: int, start: int, fits: int) -> str:
    if ledger.stated("samples_per_update") is None:
        return f"a careful start ({start}); grow while memory use stays under {GOOD_SHARE:.0%}"
    if ledger.stated("accumulation") is not None:
        return f"{effective} samples / {accumulation} micro-batches"
    return f"the largest divisor of {effective} that fits ({fits})"


def _remark_poor_divisor(ledger: Ledger, micro: int, effective: int, fits: int) -> None:
    """Remarks where the effective batch has no divisor near the largest that fits, and names a near batch that has."""
    parts = math.ceil(effective / fits)
    if ledger.stated("samples_per_update") is None or micro * 2 * parts > effective:
        return
    ledger.remark(
        f"{effective} samples per update divide only into micro-batches of {micro}, where {fits} fit: "
        f"--samples-per-update {math.ceil(effective / parts) * parts} makes {parts} full ones."
    )


def _workers(ledger: Ledger, machine: Machine, samples: int, cameras: int, side: int) -> None:
    """Loader processes by the formula, with bands and the shared memory they need."""
    best = workers_for(machine.cores, samples)
    formula = f"min({machine.cores} usable cores / 2, 2 x {samples} samples, {MOST_WORKERS})"
    stated = ledger.stated("workers")
    if stated is None:
        ledger.settle("workers", best, "processes", formula)
    else:
        ledger.adopt("workers", stated, "processes")
    workers = best if stated is None else stated
    low, high = min(best, max(1, best // 2)), min(best + best // 5, machine.cores)
    if workers < low:
        verdict = f"too few, the learner will wait for data; {formula} = {best}"
    elif workers > high:
        verdict = (
            f"too many for {counted(machine.cores, 'core')}, they will compete with each other; {formula} = {best}"
        )
    else:
        verdict = f"in the good band {low}-{high}"
    message = f"{counted(workers, 'worker')}: {verdict}"
    ledger.check("workers", low <= workers <= high, message, "docs/planning/dataset.md")
    batch_bytes = samples * cameras * side * side * 3 * 4
    need = workers * PREFETCHED_BATCHES * batch_bytes
    ledger.settle(
        "loader_shm_bytes",
        need,
        "bytes",
        f"{counted(workers, 'worker')} x {PREFETCHED_BATCHES} batches x {show_bytes(batch_bytes)} of float32 images",
    )
    if not machine.given:
        ledger.check(
            "shared-memory",
            need <= machine.shm_bytes * GOOD_SHARE,
            f"loaders need {show_bytes(need)} of {show_bytes(machine.shm_bytes)} /dev/shm",
            "PyTorch loaders pass batches through /dev/shm",
        )


def _show_memory(ledger: Ledger, memory: PolicyMemory, samples: int, machine: Machine) -> None:
    limit = machine.gpus[0].memory_bytes if machine.gpus else machine.ram_bytes
    ledger.settle(
        "fixed_bytes", round(memory.fixed_bytes), "bytes", f"{show_bytes(memory.fixed_bytes)}: {memory.fixed_reason}"
    )
    ledger.settle(
        "sample_bytes",
        round(memory.sample_bytes),
        "bytes",
        f"{show_bytes(memory.sample_bytes)}: {memory.sample_reason}",
    )
    total = memory.total(samples)
    ledger.settle(
        "memory_bytes",
        round(total),
        "bytes",
        f"{show_bytes(memory.fixed_bytes)} + {samples} x {show_bytes(memory.sample_bytes)} = {show_bytes(total)}",
    )
    use = total / limit
    band = "good" if use <= GOOD_SHARE else "warn" if use < DANGER_SHARE else "danger"
    ledger.settle("memory_use", round(use, 4), "share", f"{show_bytes(total)} of {show_bytes(limit)}: {band}")
    if not memory.measured:
        ledger.remark("memory is planned from priors, not measured: start here and watch the first updates.")


def _updates(ledger: Ledger) -> None:
    updates = ledger.setting(
        "total_updates",
        100_000,
        "LeRobot's own default; counted in optimiser updates, so a smaller micro-batch moves no schedule",
    )
    effective = int(ledger.quantities["samples_per_update"].value or 1)
    ledger.settle(
        "total_samples", updates * effective, "samples", f"{counted(updates, 'update')} x {effective} samples"
    )
    ledger.adopt_rest()


def _ladder(ledger: Ledger, samples: int) -> None:
    """What to do on out-of-memory: a quarter less at the same effective batch, then checkpointing, then bf16."""
    effective = int(ledger.quantities["samples_per_update"].value or 1)
    smaller = largest_divisor(effective, max(1, samples * 3 // 4))
    if smaller < samples:
        ledger.alternatives.append(
            f"--samples-per-step {smaller} --accumulation {effective // smaller}: out of memory, step 1: the "
            f"same {effective} samples per update"
        )
    if not ledger.quantities["gradient_checkpointing"].value:
        ledger.alternatives.append("--gradient-checkpointing: out of memory, step 2")
    if ledger.quantities["precision"].value != "bf16":
        ledger.alternatives.append("--precision bf16: out of memory, step 3")
