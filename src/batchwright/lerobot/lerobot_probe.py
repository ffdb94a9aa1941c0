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
from batchwright.planning.memory import GOOD_SHARE, PolicyMemory, show_bytes
from batchwright.planning.traced_memory import WORKSPACE_BYTES

WITHIN = 0.10
"""The fewest workers within this share of the best are advised."""
MOST_PROBED = 16
LARGEST_BATCH = 16
ABOVE_FLOOR = 1.15
MOST_COUNTED = 64
"""Samples of a real update whose memory is counted, where fewer would do too."""


@dataclass(frozen=True)
class LoaderReport:
    """What a probe of the loader found."""

    samples: int
    """Samples of a probed batch."""
    sweep: tuple[dict[str, Any], ...]
    update_speed: float | None
    """Samples per second that the updates take; None where only the loader was measured."""
    advised: int
    verdicts: dict[int, str]
    findings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "sweep": list(self.sweep),
            "update_samples_per_second": self.update_speed,
            "advised_workers": self.advised,
            "verdicts": {str(workers): text for workers, text in self.verdicts.items()},
            "findings": list(self.findings),
        }

    def __str__(self) -> str:
        lines = [f"loader, batches of {self.samples} samples", "", "workers   loader  training  verdict"]
        for row in self.sweep:
            speed, verdict = row["samples_per_second"], self.verdicts[row["workers"]]
            lines.append(f"{row['workers']:>7}  {speed:>7.1f}  {training_speed(row):>8.1f}  {verdict}")
        lines.append("")
        if self.update_speed is None:
            lines.append("samples per second; the update was not measured")
        else:
            lines.append(
                f"samples per second. The loader by itself, and training with it; the update by itself takes "
                f"{self.update_speed:.1f}."
            )
        lines += ["", f"take: --workers {self.advised}"]
        if self.findings:
            lines += ["", "findings", *(f"  - {text}" for text in self.findings)]
        return "\n".join(lines)


def probe(
    resolved: Resolved, request: LeRobotRequest, python: LeRobotPython, seconds: str, loader_only: bool = False
) -> LoaderReport:
    """Measures the loader at 0, 1, 2, 4, ... workers, and the update; says which number to take."""
    if not request.datasets:
        raise UserError("probe needs a dataset.", ["--dataset DIR"])
    machine, version = probe_machine(), find_version(python.version)
    stated, measured_seconds = resolved.config.dataset, _seconds(seconds)
    repo_id, root = data_folder(request, python)
    prefetch = version.prefetch_factor if version else 2
    samples = min(stated.samples_per_update or stated.samples_per_step or 8, LARGEST_BATCH)
    words = [f"--dataset.repo_id={repo_id}", *([f"--dataset.root={root}"] if root else [])]
    question = {
        "words": [*words, "--policy.device=cpu", *policy_words(resolved.config.algo, request)],
        "workers": _counts(machine.cores, stated.workers),
        "samples": samples,
        "prefetch_factor": prefetch,
        "seconds": measured_seconds,
        "with_update": not loader_only,
        "precision": stated.precision or ("bf16" if machine.gpus else "fp32"),
        "gradient_checkpointing": bool(stated.gradient_checkpointing),
    }
    answer = call(python, "probe", question, request.offline)
    return judge(answer, samples, prefetch, request.datasets[0].frame_bytes)


def training_speed(row: dict[str, Any]) -> float:
    """Samples per second of training at one number of workers; of the loader where the update was left out."""
    measured = row["training_samples_per_second"]
    return float(row["samples_per_second"] if measured is None else measured)


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


def judge(answer: dict[str, Any], samples: int, prefetch: int, frame_bytes: int) -> LoaderReport:
    """The advice that follows from the measurements."""
    sweep, update = tuple(answer["sweep"]), answer["update_samples_per_second"]
    trained = {row["workers"]: training_speed(row) for row in sweep}
    best = max(trained.values())
    advised = min(workers for workers, speed in trained.items() if speed >= (1 - WITHIN) * best)
    verdicts = {}
    for workers, speed in trained.items():
        word = "good" if speed >= (1 - WITHIN) * best else "starved" if workers < advised else "too many"
        verdicts[workers] = f"{word} ({speed / best:.0%} of the best)"
    findings = tuple(_findings(answer, advised, samples, prefetch, frame_bytes))
    return LoaderReport(samples, sweep, update, advised, verdicts, findings)


def _findings(answer: dict[str, Any], advised: int, samples: int, prefetch: int, frame_bytes: int) -> list[str]:
    found = []
    decoded, used = answer["decoded_images"], len(answer["image_keys"])
    if decoded > used:
        here, plain = answer["sample_seconds_here"], answer["sample_seconds"]
        found.append(
            f"{CHUNK_DECODE}: {decoded} are decoded and {used} used, which takes {1000 * plain:.1f} ms per sample. "
            f"batchwright lerobot train reads it in {1000 * here:.1f} ms; with lerobot-train, convert to video or take "
            f"a smaller -- --policy.chunk_size={answer['chunk_size'] // 4 or 1}."
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
    precision, checkpointing = str(plan["precision"]), bool(plan["gradient_checkpointing"])
    traced = trace(resolved, machine, request, python)[precision, checkpointing]
    sizes = probed_sizes(traced, int(plan["samples_per_step"]), int(plan["largest_samples_per_step"]))
    features = request.datasets[0].features if request.datasets and request.datasets[0].features else None
    question = {
        "words": ["--dataset.repo_id=local/data", *policy_words(resolved.config.algo, request)],
        "features": features,
        "cameras": stated.cameras or 3,
        "image_size": stated.image_size or 224,
        "precision": precision,
        "gradient_checkpointing": checkpointing,
        "sizes": list(sizes),
        "scratch_vlm": bool(request.datasets),
    }
    answer = call(python, "calibrate", question, request.offline)
    peaks = {int(size): int(peak) for size, peak in answer["peaks"].items()}
    workspace = WORKSPACE_BYTES if machine.gpus else 0.0  # a guess, which is not part of what the allocator counts
    rows = tuple((size, round(traced.total(size) - workspace), peaks[size]) for size in sizes)
    low, high = sizes
    sample = (peaks[high] - peaks[low]) / (high - low)
    fixed = peaks[high] - high * sample + answer["context_bytes"]
    return MemoryReport(answer["device"], rows, fixed / 1e6, sample / 1e6)


def probed_sizes(traced: PolicyMemory, planned: int, fits: int) -> tuple[int, int]:
    """Two batch sizes that fit and need more than the optimiser's step does, which would hide what a sample takes.

    Where memory allows, both are large enough for the line that larger batches follow.
    """
    above = math.ceil((ABOVE_FLOOR * traced.floor_bytes - traced.fixed_bytes) / traced.sample_bytes)
    low = max(1, above, min(planned, LARGEST_BATCH) // 4)
    straight = (size for size in range(low, MOST_COUNTED // 2 + 1) if traced.line(size)[0] == traced.fixed_bytes)
    larger = next(straight, low)
    low = larger if 2 * larger <= fits else low
    if 2 * low > fits:
        raise UserError(
            f"{2 * low} samples would tell what one takes, and {fits} fit: below that the optimiser's step takes more "
            "memory than any batch.",
            ["take the traced figures of batchwright lerobot plan", "--gradient-checkpointing"],
        )
    return low, 2 * low
