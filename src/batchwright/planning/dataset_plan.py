"""The dataset plan: samples, accumulation, workers, precision, and memory as max(floor, fixed + per sample x batch)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from batchwright.config.load import Resolved
from batchwright.config.schema import DATASET
from batchwright.core.errors import UserError
from batchwright.core.machine import GIB, Machine
from batchwright.planning.ledger import Ledger
from batchwright.planning.loader_plan import plan_loader
from batchwright.planning.memory import DANGER_SHARE, GOOD_SHARE, PolicyMemory, show_bytes
from batchwright.planning.memory_ladder import Rung, ladder, show_sizes
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.quantity import counted
from batchwright.planning.traced_memory import CAREFUL_STARTS, traced_memory

MOST_RECORDS = 1000
"""Lines of metrics of a whole run, at most."""
CHECKPOINTS = 10
MODES = (("fp32", False), ("fp32", True), ("bf16", False), ("bf16", True))
"""Precision and gradient checkpointing."""


@dataclass(frozen=True)
class DatasetTask:
    """What the planner is told of the data and the policy; the defaults are for a plan without LeRobot."""

    memory: dict[tuple[str, bool], PolicyMemory] | None = None
    """By precision and checkpointing, as traced at the shapes of the dataset."""
    frames: int | None = None
    cameras: int | None = None
    image_size: int | None = None
    frame_bytes: int | None = None
    """Of one sample's images in the loader."""
    datasets: int | None = None
    prefetch_factor: int = 2
    workers: int | None = None
    """As measured."""


def plan_dataset(resolved: Resolved, machine: Machine, task: DatasetTask | None = None) -> Plan:
    """Every number of training on recorded data."""
    ledger, task = Ledger(resolved), task or DatasetTask()
    ledger.refuse_foreign(DATASET)
    policy = ledger.config.algo
    _settle_shapes(ledger, task)
    precision = ledger.setting("precision", "bf16" if machine.gpus else "fp32", "bf16 on a GPU, fp32 on a CPU", unit="")
    checkpointing = ledger.setting(
        "gradient_checkpointing", False, "only when memory runs short: updates take 5-13% longer", unit=""
    )
    ledger.setting("processes", 1, "one process, one GPU")
    memories = _memories(ledger, policy, task)
    memory = memories[str(precision), bool(checkpointing)]
    _settle_batch(ledger, policy, memory, memories, machine)
    plan_loader(ledger, machine, task.prefetch_factor, _frame_bytes(ledger, task), task.workers)
    _settle_memory(ledger, memory, memories, machine)
    _settle_updates(ledger, task)
    _list_rungs(ledger)
    facts = TaskFacts(name=ledger.stated("dataset"))
    return Plan(
        DATASET,
        policy,
        ledger.quantities,
        tuple(ledger.checks),
        tuple(ledger.remarks),
        tuple(ledger.alternatives),
        facts,
        machine.describe(),
    )


def _settle_shapes(ledger: Ledger, task: DatasetTask) -> None:
    """Cameras, image size and number of datasets: as stated, as the dataset has them, else those of the source."""
    for name, found, default, reason in (
        ("cameras", task.cameras, 3, "what the source's figures are for"),
        ("image_size", task.image_size, 224, "what the source's figures are for"),
        ("datasets", task.datasets, 1, "one dataset"),
    ):
        if found is None:
            ledger.setting(name, default, reason)
            continue
        stated, origin = ledger.stated(name), ledger.resolved.origin(name)
        is_pinned = origin is not None and origin.kind != "preset"  # a preset describes what it was made for
        if is_pinned and stated != found:
            raise UserError(f"{ledger.place(name)}, but the data has {found}.", [ledger.without(name)])
        ledger.settle(name, found, name if name != "image_size" else "pixels", "read from the data")


def _frame_bytes(ledger: Ledger, task: DatasetTask) -> int:
    cameras, side = (int(ledger.quantities[name].value or 1) for name in ("cameras", "image_size"))
    return task.frame_bytes or cameras * side * side * 3 * 4


def _memories(ledger: Ledger, policy: str, task: DatasetTask) -> dict[tuple[str, bool], PolicyMemory]:
    """The memory of each mode: measured figures where the user has them, else traced ones."""
    cameras, side = (int(ledger.quantities[name].value or 1) for name in ("cameras", "image_size"))
    fixed, sample = ledger.stated("fixed_mb"), ledger.stated("sample_mb")
    found = {}
    for precision, checkpointing in MODES:
        traced = (task.memory or {}).get((precision, checkpointing))
        memory = traced or traced_memory(policy, cameras, side, precision, checkpointing)
        if fixed is not None or sample is not None:
            memory = replace(memory, small_batches=())
        if fixed is not None:
            memory = replace(memory, fixed_bytes=fixed * 1e6, fixed_reason=ledger.place("fixed_mb"), floor_bytes=0.0)
        if sample is not None:
            memory = replace(memory, sample_bytes=sample * 1e6, sample_reason=ledger.place("sample_mb"))
        if sample is not None and fixed is not None:
            memory = replace(memory, input_bytes=0.0)
        found[precision, checkpointing] = replace(memory, measured=fixed is not None and sample is not None)
    return found


def _limit(machine: Machine) -> tuple[int, str]:
    if machine.gpus:
        return machine.gpus[0].memory_bytes, "GPU memory"
    return machine.ram_bytes, "RAM (no GPU)"


def _settle_batch(
    ledger: Ledger,
    policy: str,
    memory: PolicyMemory,
    memories: dict[tuple[str, bool], PolicyMemory],
    machine: Machine,
) -> None:
    """The micro-batch: as stated, else a careful start that fits; with accumulation up to the effective batch."""
    limit, where = _limit(machine)
    fits = memory.largest(limit)
    if fits < 1:
        need = max(memory.total(1), memory.floor_bytes)
        raise UserError(
            f"{show_bytes(limit)} {where} cannot hold {policy}: {show_bytes(need)} for one sample is above "
            f"{GOOD_SHARE:.0%}.",
            [*_modes_that_fit(ledger, memories, limit), f"--gpu-memory-gb {math.ceil(need / GOOD_SHARE / GIB)}"],
        )
    fixed, one = (show_bytes(part) for part in memory.line(fits))
    reason = f"({GOOD_SHARE:.0%} of {show_bytes(limit)} {where} - {fixed}) / {one}"
    ledger.settle("largest_samples_per_step", fits, "samples", reason)
    start, why = _careful_start(ledger, policy, fits)
    fits = memory.largest(limit, samples_per_update=_share(ledger, ledger.stated("samples_per_update") or 0)) or 1
    micro, effective = _solve_batch(ledger, start, _growing_start(ledger, policy, fits), fits)
    _write_batch(ledger, micro, effective, why, fits)
    use = memory.total(micro, _share(ledger, effective)) / limit
    _warn_of_memory(ledger, use, f"{show_bytes(limit)} {where}", micro, fits)


def _share(ledger: Ledger, samples: int) -> int:
    """Samples of an update that one process takes, at most."""
    return math.ceil(samples / int(ledger.quantities["processes"].value or 1))


def _growing_start(ledger: Ledger, policy: str, fits: int) -> int | None:
    """Where a micro-batch that is to grow begins; None where it is not."""
    return min(CAREFUL_STARTS[policy].with_accumulation, fits) if ledger.stated("grow") else None


def _modes_that_fit(ledger: Ledger, memories: dict[tuple[str, bool], PolicyMemory], limit: int) -> list[str]:
    """Flags that make one sample fit, the mildest set only."""
    now = str(ledger.quantities["precision"].value), bool(ledger.quantities["gradient_checkpointing"].value)
    for flags, mode in (
        ("--gradient-checkpointing", (now[0], True)),
        ("--precision bf16", ("bf16", now[1])),
        ("--precision bf16 --gradient-checkpointing", ("bf16", True)),
    ):
        if mode != now and memories[mode].largest(limit) >= 1:
            return [flags]
    return []


def _careful_start(ledger: Ledger, policy: str, fits: int) -> tuple[int, str]:
    """Where to begin: the upper end of the source's range for this case, or what fits."""
    starts, datasets = CAREFUL_STARTS[policy], int(ledger.quantities["datasets"].value or 1)
    accumulates = (ledger.stated("accumulation") or 1) > 1
    if accumulates:
        start, case = starts.with_accumulation, "with accumulation"
    elif datasets > 1:
        start, case = starts.several_datasets, f"{datasets} datasets"
    else:
        start, case = starts.one_dataset, "one dataset"
    if start > fits:
        return fits, f"the most that fit ({fits}); a careful start would be {start}"
    return start, f"a careful start ({case}); {fits} fit"


def _solve_batch(ledger: Ledger, start: int, growing_start: int | None, fits: int) -> tuple[int, int]:
    """(micro-batch, effective batch) around whatever subset is stated; micro-batches need not divide it."""
    micro, accumulation, effective = (
        ledger.stated(name) for name in ("samples_per_step", "accumulation", "samples_per_update")
    )
    processes = int(ledger.quantities["processes"].value or 1)
    if effective is None and (micro or accumulation or growing_start is None):
        micro = micro or start
        return micro, micro * (accumulation or 1) * processes
    effective = effective or start * processes
    if effective < processes:
        raise UserError(
            f"{effective} samples per update cannot be shared by {processes} processes.",
            [f"--samples-per-update {processes}", f"--processes {effective}"],
        )
    share = math.ceil(effective / processes)
    if micro is not None and accumulation is not None and math.ceil(share / micro) != accumulation:
        raise UserError(
            f"{share} samples{' of each process' if processes > 1 else ''} in micro-batches of {micro} are "
            f"{math.ceil(share / micro)}, not the {accumulation} stated.",
            [f"--accumulation {math.ceil(share / micro)}", f"--samples-per-step {math.ceil(share / accumulation)}"],
        )
    if micro is None and accumulation is None:
        micro = growing_start
    if micro is None:
        parts = accumulation or math.ceil(share / max(1, fits))
        if parts > share:
            raise UserError(f"{share} samples cannot make {parts} micro-batches.", [f"--accumulation {share}"])
        micro = math.ceil(share / parts)
    return min(micro, share), effective


def _write_batch(ledger: Ledger, micro: int, effective: int, why: str, fits: int) -> None:
    processes = int(ledger.quantities["processes"].value or 1)
    share = math.ceil(effective / processes)
    sizes = show_sizes(share, micro)
    if ledger.stated("grow") and micro < share:
        why = f"a careful start that grows up to {share} while memory allows"
    elif ledger.stated("samples_per_update") is not None:
        why = f"{share} samples in the fewest micro-batches of at most {fits}, of near-equal size"
    if ledger.stated("accumulation") is not None and ledger.stated("samples_per_update") is not None:
        why = f"{share} samples / {ledger.stated('accumulation')} micro-batches"
    by_process = f" x {processes} processes" if processes > 1 else ""
    for name, value, unit, reason in (
        ("samples_per_step", micro, "samples", why),
        ("accumulation", -(-share // micro), "micro-batches", f"{share} = {sizes}, each weighted by its samples"),
        ("samples_per_update", effective, "samples", f"{sizes}{by_process}"),
    ):
        if ledger.stated(name) is not None and ledger.stated(name) == value:
            ledger.adopt(name, value, unit)
        else:
            ledger.settle(name, value, unit, reason)


def _warn_of_memory(ledger: Ledger, use: float, limit: str, micro: int, fits: int) -> None:
    effective = int(ledger.quantities["samples_per_update"].value or 1)
    if use >= DANGER_SHARE:
        lower = math.ceil(effective / math.ceil(effective / fits))
        ledger.remark(
            f"danger: {micro} samples need {use:.0%} of {limit}; expect to run out of memory. --samples-per-update "
            f"{effective} --samples-per-step {lower} keeps the samples per update."
        )
    elif use > GOOD_SHARE:
        ledger.remark(
            f"{micro} samples use {use:.0%} of {limit}; good is up to {GOOD_SHARE:.0%}, danger from {DANGER_SHARE:.0%}."
        )


def _settle_memory(
    ledger: Ledger, memory: PolicyMemory, memories: dict[tuple[str, bool], PolicyMemory], machine: Machine
) -> None:
    limit, _ = _limit(machine)
    micro, effective = (int(ledger.quantities[name].value or 1) for name in ("samples_per_step", "samples_per_update"))
    share = math.ceil(effective / int(ledger.quantities["processes"].value or 1))
    for name, value, reason in (
        ("floor_bytes", memory.floor_bytes, "of the optimiser's step, whatever the batch"),
        ("fixed_bytes", memory.fixed_bytes, memory.fixed_reason),
        ("sample_bytes", memory.sample_bytes, memory.sample_reason),
    ):
        ledger.settle(name, round(value), "bytes", f"{show_bytes(value)}: {reason}")
    total = memory.total(micro, share)
    waiting = f" + {share - micro} x {show_bytes(memory.input_bytes)} waiting" if share > micro else ""
    fixed, one = memory.line(micro)
    formula = f"{show_bytes(fixed)} + {micro} x {show_bytes(one)}{waiting}"
    formula += "" if fixed == memory.fixed_bytes else ", as traced for small batches,"
    if total <= memory.floor_bytes:
        formula = f"the floor is above {formula}"
    ledger.settle("planned_memory_bytes", round(total), "bytes", f"{formula} = {show_bytes(total)}")
    use = total / limit
    band = "good" if use <= GOOD_SHARE else "warn" if use < DANGER_SHARE else "danger"
    ledger.settle("memory_use", round(use, 4), "share", f"{show_bytes(total)} of {show_bytes(limit)}: {band}")
    if not memory.measured:
        for (precision, checkpointing), other in memories.items():
            mode = f"{precision}{'_checkpointed' if checkpointing else ''}"
            reason = f"most samples in memory at once in {mode.replace('_', ', ')}: (90% - fixed) / per sample"
            ledger.settle(f"safe_samples_{mode}", other.largest(limit), "samples", reason)
        if machine.gpus:
            ledger.remark(
                "the memory is traced, the 1 GiB for CUDA's context and workspaces is a guess: batchwright lerobot "
                "probe --memory measures it on a GPU."
            )


def _settle_updates(ledger: Ledger, task: DatasetTask) -> None:
    updates = int(
        ledger.setting(
            "total_updates",
            100_000,
            "LeRobot's own default; counted in optimiser updates, so a smaller micro-batch moves no schedule",
        )
    )
    effective = int(ledger.quantities["samples_per_update"].value or 1)
    ledger.settle(
        "total_samples", updates * effective, "samples", f"{counted(updates, 'update')} x {effective} samples"
    )
    if task.frames:
        ledger.settle("frames", task.frames, "frames", "read from the data")
        epochs = round(updates * effective / task.frames, 2)
        ledger.settle("total_epochs", epochs, "epochs", f"{updates * effective} samples / {task.frames} frames")
    block = int(
        ledger.setting(
            "updates_per_iteration", math.ceil(updates / MOST_RECORDS), f"at most {MOST_RECORDS} lines of metrics"
        )
    )
    iterations = math.ceil(updates / block)
    ledger.settle("iterations", iterations, "iterations", f"{counted(updates, 'update')} / {block}, rounded up")
    ledger.setting("checkpoint_every", math.ceil(iterations / CHECKPOINTS), f"{CHECKPOINTS} checkpoints in all")
    ledger.setting("seed", 1000, "LeRobot's own default")
    ledger.setting("grow", False, "the micro-batch stays as planned", unit="")
    ledger.adopt_rest()


def _list_rungs(ledger: Ledger) -> None:
    """What happens on out-of-memory: about a quarter less at the same samples per update, then checkpointing, bf16."""
    values = {name: quantity.value for name, quantity in ledger.quantities.items()}
    share = math.ceil(int(values["samples_per_update"] or 1) / int(values["processes"] or 1))
    first = Rung(int(values["samples_per_step"] or 1), bool(values["gradient_checkpointing"]), str(values["precision"]))
    before = first
    for number, rung in enumerate(ladder(first), 1):
        flags = []
        if rung.samples_per_step != before.samples_per_step:
            flags.append(
                f"--samples-per-update {values['samples_per_update']} --samples-per-step {rung.samples_per_step}"
            )
        flags += ["--gradient-checkpointing"] if rung.gradient_checkpointing > before.gradient_checkpointing else []
        flags += ["--precision bf16"] if rung.precision != before.precision else []
        what = f" ({show_sizes(share, rung.samples_per_step)})" if "--samples" in flags[0] else ""
        ledger.alternatives.append(f"out of memory, rung {number}: {flags[0]}{what}")
        before = rung
