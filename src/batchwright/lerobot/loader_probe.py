"""Measures the real loader of a dataset, inside of LeRobot's interpreter: samples per second by number of workers."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROUNDS = 3
"""Each number of workers is measured so often, in turn: other work on the machine then slows all of them alike."""
WARM_BATCHES = 1


def probe_loader(request: dict[str, Any]) -> dict[str, Any]:
    """Samples per second at each number of workers, alone and in training; decoded images, times of one sample."""
    from batchwright.lerobot.chunk_decode import count_decoded, skip_unused_images
    from batchwright.lerobot.lerobot_config import read_config

    config = read_config(request["words"])
    dataset = open_dataset(config)
    plain = {"decoded_images": count_decoded(dataset, 0), "sample_seconds": _sample_seconds(dataset)}
    skips = skip_unused_images(dataset)  # as in training
    update = _make_update(config, dataset, request) if request["with_update"] else None
    shm = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else None
    return {
        **plain,
        "sample_seconds_here": _sample_seconds(dataset) if skips else plain["sample_seconds"],
        **sweep(dataset, request, update),
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


def sweep(dataset: Any, request: dict[str, Any], update: Callable[[], None] | None) -> dict[str, Any]:
    """Samples per second for each number of workers, medians of the rounds, and of the update by itself.

    With an update each number is measured in training too: on a CPU, loader and update compete for the cores.
    """
    update_seconds = None if update is None else _seconds_of(update, request["seconds"])
    loader: dict[int, list[float]] = {workers: [] for workers in request["workers"]}
    training: dict[int, list[float]] = {workers: [] for workers in request["workers"]}
    for number in range(ROUNDS):
        for workers in request["workers"]:
            loader[workers].append(_measure(dataset, workers, number, request, None))
            if update is not None and (number == 0 or update_seconds < request["seconds"]):
                training[workers].append(_measure(dataset, workers, number, request, update))
    rows = [
        {
            "workers": workers,
            "samples_per_second": statistics.median(speeds),
            "training_samples_per_second": statistics.median(training[workers]) if update is not None else None,
            "rounds": speeds,
        }
        for workers, speeds in loader.items()
    ]
    speed = None if update_seconds is None else request["samples"] / update_seconds
    return {"sweep": rows, "update_samples_per_second": speed}


def _measure(
    dataset: Any, workers: int, seed: int, request: dict[str, Any], update: Callable[[], None] | None
) -> float:
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
        if update is not None:
            update()
        samples += request["samples"]
    return float(samples / (time.perf_counter() - start_seconds))


def _make_update(config: Any, dataset: Any, request: dict[str, Any]) -> Callable[[], None]:
    """An update of this policy, on the GPU where there is one."""
    import torch

    from batchwright.lerobot import memory_calibration
    from batchwright.lerobot.lerobot_config import set_features

    policy = config.policy
    set_features(policy, dataset.meta.features)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mode = request["precision"], request["gradient_checkpointing"], device == "cuda"
    made = memory_calibration.make_update(policy, request["samples"], device, *mode)

    def update() -> None:
        made.update()
        if device == "cuda":
            torch.cuda.synchronize()

    return update


def _seconds_of(update: Callable[[], None], limit_seconds: float) -> float:
    """The median time of an update, after the first."""
    update()
    times: list[float] = []
    while not times or (sum(times) < limit_seconds and len(times) < 50):
        start_seconds = time.perf_counter()
        update()
        times.append(time.perf_counter() - start_seconds)
    return statistics.median(times)


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
