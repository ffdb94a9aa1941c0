"""Measures the real loader of a dataset, inside of LeRobot's interpreter: samples per second by number of workers."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

CHUNK_DEFECT_FACTOR = 2.0
"""A sample with its chunk of actions that takes this many times as long as one without is the defect."""
WARM_BATCHES = 1


def probe_loader(request: dict[str, Any]) -> dict[str, Any]:
    """Samples per second at each number of workers, time of one sample with and without its chunk, video backend."""
    from batchwright.lerobot.lerobot_config import read_config

    config = read_config(request["words"])
    dataset = _dataset(config, with_chunk=True)
    sizes = [_measure(dataset, workers, request) for workers in request["workers"]]
    alone = {
        "sample_seconds": _sample_seconds(dataset),
        "sample_seconds_without_chunk": _sample_seconds(_dataset(config, with_chunk=False)),
    }
    shm = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else None
    return {
        "sweep": sizes,
        **alone,
        "chunk_size": config.policy.chunk_size,
        "image_keys": list(dataset.meta.image_keys),
        "video_keys": list(dataset.meta.video_keys),
        "video_backend": getattr(dataset, "video_backend", None),
        "torchcodec": _has_torchcodec(),
        "shm_free_bytes": shm,
    }


def _dataset(config: Any, with_chunk: bool) -> Any:
    from lerobot.datasets.factory import resolve_delta_timestamps
    from lerobot.datasets.lerobot_dataset import LeRobotDataset, LeRobotDatasetMetadata

    place = {"root": config.dataset.root, "revision": config.dataset.revision}
    meta = LeRobotDatasetMetadata(config.dataset.repo_id, **place)
    deltas = resolve_delta_timestamps(config.policy, meta) if with_chunk else None
    backend = config.dataset.video_backend
    return LeRobotDataset(config.dataset.repo_id, delta_timestamps=deltas, video_backend=backend, **place)


def _measure(dataset: Any, workers: int, request: dict[str, Any]) -> dict[str, Any]:
    """One number of workers: batches are drawn at random for some seconds, after the first."""
    import torch

    from batchwright.lerobot.data_order import DataOrder

    order = DataOrder(len(dataset), request["samples"], 0)
    start_seconds = time.perf_counter()
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_sampler=order.batches(0),
        num_workers=workers,
        prefetch_factor=request["prefetch_factor"] if workers else None,
    )
    batches = iter(loader)
    for _ in range(WARM_BATCHES + workers * request["prefetch_factor"]):  # what was ready before is not counted
        next(batches)
    first_seconds = time.perf_counter() - start_seconds
    samples, start_seconds = 0, time.perf_counter()
    while samples == 0 or time.perf_counter() - start_seconds < request["seconds"]:
        next(batches)
        samples += request["samples"]
    seconds = time.perf_counter() - start_seconds
    del batches, loader
    return {"workers": workers, "samples_per_second": samples / seconds, "start_seconds": first_seconds}


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
    return sorted(times)[len(times) // 2]


def _has_torchcodec() -> bool:
    try:
        import torchcodec  # noqa: F401
    except Exception:  # it raises errors of many kinds where a library of FFmpeg is missing
        return False
    return True
