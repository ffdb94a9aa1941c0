"""Measures the real loader of a dataset, inside of LeRobot's interpreter: samples per second by number of workers."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

ROUNDS = 3
"""Each number of workers is measured so often, in turn: other work on the machine then slows all of them alike."""
WARM_BATCHES = 1


def probe_loader(request: dict[str, Any]) -> dict[str, Any]:
    """Samples per second at each number of workers and of the update; decoded images, times of one sample, backend."""
    from batchwright.lerobot.chunk_decode import count_decoded, skip_unused_images
    from batchwright.lerobot.lerobot_config import read_config

    config = read_config(request["words"])
    dataset = open_dataset(config)
    plain = {"decoded_images": count_decoded(dataset, 0), "sample_seconds": _sample_seconds(dataset)}
    skips = skip_unused_images(dataset)  # as in training
    shm = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else None
    return {
        **plain,
        "sample_seconds_here": _sample_seconds(dataset) if skips else plain["sample_seconds"],
        "sweep": _sweep(dataset, request),
        "update_samples_per_second": _update_speed(config, dataset, request) if request["with_update"] else None,
        "chunk_size": config.policy.chunk_size,
        "image_keys": list(dataset.meta.image_keys),
        "video_keys": list(dataset.meta.video_keys),
        "video_backend": getattr(dataset, "video_backend", None),
        "torchcodec": _has_torchcodec(),
        "shm_free_bytes": shm,
    }


def open_dataset(config: Any) -> Any:
    """The dataset as training opens it: with the chunk of actions that the policy wants."""
    from lerobot.datasets.factory import resolve_delta_timestamps
    from lerobot.datasets.lerobot_dataset import LeRobotDataset, LeRobotDatasetMetadata

    place = {"root": config.dataset.root, "revision": config.dataset.revision}
    meta = LeRobotDatasetMetadata(config.dataset.repo_id, **place)
    deltas = resolve_delta_timestamps(config.policy, meta)
    backend = config.dataset.video_backend
    return LeRobotDataset(config.dataset.repo_id, delta_timestamps=deltas, video_backend=backend, **place)


def _sweep(dataset: Any, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The median of the rounds for each number of workers."""
    found: dict[int, list[float]] = {workers: [] for workers in request["workers"]}
    for number in range(ROUNDS):
        for workers, speeds in found.items():
            speeds.append(_measure(dataset, workers, number, request))
    return [
        {"workers": workers, "samples_per_second": statistics.median(speeds), "rounds": speeds}
        for workers, speeds in found.items()
    ]


def _measure(dataset: Any, workers: int, seed: int, request: dict[str, Any]) -> float:
    """Samples per second of one number of workers: batches are drawn at random for some seconds, after the first."""
    import torch

    from batchwright.lerobot.data_order import DataOrder

    order = DataOrder(len(dataset), request["samples"], seed)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_sampler=order.batches(0),
        num_workers=workers,
        prefetch_factor=request["prefetch_factor"] if workers else None,
    )
    batches = iter(loader)
    for _ in range(WARM_BATCHES + workers * request["prefetch_factor"]):  # what was ready before is not counted
        next(batches)
    samples, start_seconds = 0, time.perf_counter()
    while samples == 0 or time.perf_counter() - start_seconds < request["seconds"] / ROUNDS:
        next(batches)
        samples += request["samples"]
    return samples / (time.perf_counter() - start_seconds)


def _update_speed(config: Any, dataset: Any, request: dict[str, Any]) -> float:
    """Samples per second that updates of this policy take, on the GPU where there is one."""
    import torch

    from batchwright.lerobot import memory_calibration
    from batchwright.lerobot.lerobot_config import set_features

    policy = config.policy
    set_features(policy, dataset.meta.features)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mode = request["precision"], request["gradient_checkpointing"], device == "cuda"
    update = memory_calibration.make_update(policy, request["samples"], device, *mode).update
    update()
    times: list[float] = []
    while not times or (sum(times) < request["seconds"] and len(times) < 50):
        start_seconds = time.perf_counter()
        update()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start_seconds)
    return float(request["samples"] / statistics.median(times))


def _sample_seconds(dataset: Any, least_seconds: float = 1.0) -> float:
    """The median time of reading one sample in this process."""
    times: list[float] = []
    index = 0
    dataset[0]
    while sum(times) < least_seconds and len(times) < 50:
        index = (index + 7919) % len(dataset)
        start_seconds = time.perf_counter()
        dataset[index]
        times.append(time.perf_counter() - start_seconds)
    return statistics.median(times)


def _has_torchcodec() -> bool:
    try:
        import torchcodec  # noqa: F401
    except Exception:  # it raises errors of many kinds where a library of FFmpeg is missing
        return False
    return True
