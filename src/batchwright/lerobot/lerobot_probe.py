"""The advice of `batchwright lerobot probe`: how many workers to take, and what slows a loader down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from batchwright.config.load import Resolved
from batchwright.core.errors import UserError
from batchwright.core.machine import probe_machine
from batchwright.lerobot.lerobot_plan import LeRobotRequest, data_folder, plan_lerobot, policy_words, trace
from batchwright.lerobot.lerobot_python import LeRobotPython, call
from batchwright.lerobot.lerobot_versions import CHUNK_DECODE, find_version
from batchwright.lerobot.loader_probe import CHUNK_DEFECT_FACTOR
from batchwright.planning.memory import GOOD_SHARE, show_bytes
from batchwright.planning.traced_memory import WORKSPACE_BYTES

WITHIN = 0.10
"""The fewest workers within this share of the best are advised."""
MOST_PROBED = 16
LARGEST_BATCH = 16


@dataclass(frozen=True)
class LoaderReport:
    """What a probe of the loader found."""

    samples: int
    """Samples of a probed batch."""
    sweep: tuple[dict[str, Any], ...]
    advised: int
    stated: int | None
    verdicts: dict[int, str]
    findings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "sweep": list(self.sweep),
            "advised_workers": self.advised,
            "verdicts": {str(workers): text for workers, text in self.verdicts.items()},
            "findings": list(self.findings),
        }

    def __str__(self) -> str:
        lines = [f"loader, batches of {self.samples} samples", "", "workers  samples/s  verdict"]
        for row in self.sweep:
            verdict = self.verdicts[row["workers"]]
            lines.append(f"{row['workers']:>7}  {row['samples_per_second']:>9.1f}  {verdict}")
        lines += ["", f"take: --workers {self.advised}"]
        if self.findings:
            lines += ["", "findings", *(f"  - {text}" for text in self.findings)]
        return "\n".join(lines)


def probe(resolved: Resolved, request: LeRobotRequest, python: LeRobotPython, seconds: str) -> LoaderReport:
    """Measures the loader at 0, 1, 2, 4, ... workers and says which number to take."""
    if not request.datasets:
        raise UserError("probe needs a dataset.", ["--dataset DIR"])
    machine, version = probe_machine(), find_version(python.version)
    repo_id, root = data_folder(request, python)
    prefetch = version.prefetch_factor if version else 2
    samples = resolved.config.dataset.samples_per_update or resolved.config.dataset.samples_per_step or 8
    samples = min(samples, LARGEST_BATCH)
    words = [f"--dataset.repo_id={repo_id}", *([f"--dataset.root={root}"] if root else [])]
    question = {
        "words": [*words, "--policy.device=cpu", *policy_words(resolved.config.algo, request)],
        "workers": _counts(machine.cores, resolved.config.dataset.workers),
        "samples": samples,
        "prefetch_factor": prefetch,
        "seconds": _seconds(seconds),
    }
    answer = call(python, "probe", question, request.offline)
    return judge(answer, samples, resolved.config.dataset.workers, prefetch, request.datasets[0].frame_bytes)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 600:
        raise UserError(f"--seconds {text[:20]} is not a time from 0.1 to 600.", ["--seconds 5"])
    return seconds


def _counts(cores: int, stated: int | None) -> list[int]:
    counts = {0, 1, 2, *(2**k for k in range(2, 6) if 2**k <= min(cores, MOST_PROBED)), cores}
    return sorted({count for count in counts if count <= MOST_PROBED} | ({stated} if stated is not None else set()))


def judge(answer: dict[str, Any], samples: int, stated: int | None, prefetch: int, frame_bytes: int) -> LoaderReport:
    """The advice that follows from the measurements."""
    sweep = tuple(answer["sweep"])
    best = max(row["samples_per_second"] for row in sweep)
    good = [row["workers"] for row in sweep if row["samples_per_second"] >= (1 - WITHIN) * best]
    advised = min(good)
    verdicts = {}
    for row in sweep:
        share = row["samples_per_second"] / best
        if row["workers"] in good:
            verdicts[row["workers"]] = f"good ({share:.0%} of the best)"
        else:
            word = "starved" if row["workers"] < advised else "too many"
            verdicts[row["workers"]] = f"{word} ({share:.0%} of the best)"
    return LoaderReport(
        samples, sweep, advised, stated, verdicts, tuple(_findings(answer, advised, samples, prefetch, frame_bytes))
    )


def _findings(answer: dict[str, Any], advised: int, samples: int, prefetch: int, frame_bytes: int) -> list[str]:
    found = []
    alone, whole = answer["sample_seconds_without_chunk"], answer["sample_seconds"]
    if answer["image_keys"] and whole > CHUNK_DEFECT_FACTOR * alone:
        found.append(
            f"{CHUNK_DECODE}: a sample takes {1000 * whole:.1f} ms with its {answer['chunk_size']} actions and "
            f"{1000 * alone:.1f} ms without. Record or convert to video, or take a smaller -- --policy.chunk_size=N."
        )
    if answer["video_keys"]:
        found.append(
            f"frames are decoded from video by {answer['video_backend']}"
            + ("" if answer["torchcodec"] else "; torchcodec, which is quicker, cannot be loaded here")
        )
    free, need = answer["shm_free_bytes"], advised * prefetch * samples * frame_bytes
    if free is not None and advised and need > GOOD_SHARE * free:
        found.append(
            f"/dev/shm has {show_bytes(free)} free, the batches of {advised} workers take {show_bytes(need)}: "
            "docker run --shm-size, or fewer workers."
        )
    return found


@dataclass(frozen=True)
class MemoryReport:
    """Traced and counted memory of real updates."""

    device: str
    rows: tuple[tuple[int, int, int], ...]
    """(samples, traced bytes, counted bytes)."""
    fixed_mb: float
    sample_mb: float

    def to_dict(self) -> dict[str, Any]:
        names = ("samples", "traced_bytes", "counted_bytes")
        rows = [dict(zip(names, row, strict=True)) for row in self.rows]
        return {"device": self.device, "rows": rows, "fixed_mb": self.fixed_mb, "sample_mb": self.sample_mb}

    def __str__(self) -> str:
        lines = [f"memory of real updates, counted by the allocator of {self.device}", ""]
        lines.append("samples     traced    counted  difference")
        for samples, traced, counted in self.rows:
            lines.append(
                f"{samples:>7}  {show_bytes(traced):>9}  {show_bytes(counted):>9}  {traced / counted - 1:>+10.1%}"
            )
        return "\n".join([*lines, "", f"take: --fixed-mb {self.fixed_mb:.0f} --sample-mb {self.sample_mb:.1f}"])


def calibrate(resolved: Resolved, request: LeRobotRequest, python: LeRobotPython) -> MemoryReport:
    """Makes real updates at two batch sizes, on the GPU where there is one; figures for --fixed-mb and --sample-mb."""
    machine = probe_machine()
    stated = resolved.config.dataset
    plan = plan_lerobot(resolved, machine, request, python)
    micro = int(plan["samples_per_step"])
    sizes = sorted({max(1, min(micro, 16) // 4), max(2, min(micro, 16) // 2)})
    precision, checkpointing = str(plan["precision"]), bool(plan["gradient_checkpointing"])
    features = request.datasets[0].features if request.datasets and request.datasets[0].features else None
    question = {
        "words": ["--dataset.repo_id=local/data", *policy_words(resolved.config.algo, request)],
        "features": features,
        "cameras": stated.cameras or 3,
        "image_size": stated.image_size or 224,
        "precision": precision,
        "gradient_checkpointing": checkpointing,
        "sizes": sizes,
        "scratch_vlm": bool(request.datasets),
    }
    answer = call(python, "calibrate", question, request.offline)
    peaks = {int(size): int(peak) for size, peak in answer["peaks"].items()}
    traced = trace(resolved, machine, request, python)[precision, checkpointing]
    workspace = WORKSPACE_BYTES if machine.gpus else 0.0  # a guess, which is not part of what the allocator counts
    rows = tuple((size, round(traced.total(size) - workspace), peaks[size]) for size in sizes)
    low, high = sizes[0], sizes[-1]
    sample = (peaks[high] - peaks[low]) / (high - low)
    fixed = peaks[high] - high * sample + answer["context_bytes"]
    return MemoryReport(answer["device"], rows, fixed / 1e6, sample / 1e6)
