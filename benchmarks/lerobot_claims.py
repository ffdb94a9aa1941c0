"""Speed and stability of ACT against batch and loader processes, beside what a text about LeRobot claims.

Runs in LeRobot's interpreter: `PYTHONPATH=src .venv-lerobot/bin/python benchmarks/lerobot_claims.py --json FILE`.
Updates at several batch sizes are timed in CPU seconds of one thread, so that other work on the machine matters little.
Training at several numbers of loader processes is timed by the clock, each number in turn, and set beside what the
probe advised before. The update is that of a small ACT on one core or all, or a wait: like a GPU, it takes no core.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from batchwright.lerobot import torchvision_schemas

torchvision_schemas.declare()

import torch  # noqa: E402

from batchwright.lerobot import chunk_decode, lerobot_config, loader_probe, memory_calibration  # noqa: E402
from batchwright.lerobot.data_order import DataOrder  # noqa: E402
from batchwright.lerobot.lerobot_probe import judge  # noqa: E402
from batchwright.planning.traced_memory import traced_memory  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lerobot"))
from write_dataset import write  # noqa: E402

CLAIMED_SPEED = {4: 0.60, 8: 0.85, 16: 1.00, 32: 1.05}
CLAIMED_STABILITY = {4: 1.00, 8: 0.95, 16: 0.85, 32: 0.60}
ROUNDS, SEEDS = 3, 5
TRAINING_ROUNDS = 5
WORKERS, SAMPLES = (0, 1, 2, 4), 8
STABILITY_SAMPLES = 192
GPU_BYTES = 12 * 2**30
BATCH = "batch"
CORES = torch.get_num_threads()
PARTS = ("images-wait", "images-cpu", "images-cores", "video-wait", "video-cpu", "video-cores", BATCH)
"""Data and update: a wait, one core, or all cores, as PyTorch does it where nothing is stated."""
SMALL = ["--policy.dim_model=32", "--policy.n_heads=2", "--policy.dim_feedforward=64", "--policy.n_encoder_layers=1"]
SMALL += ["--policy.n_vae_encoder_layers=1"]
WAIT_SPEED = 1.5
"""Samples per second of the update that waits, relative to the loader without processes."""
SHORT = ["--policy.chunk_size=4", "--policy.n_action_steps=4"]


def words_of(root: Path, *words: str) -> list[str]:
    first = ["--policy.type=act", "--policy.push_to_hub=false", "--dataset.repo_id=local/toy", "--policy.device=cpu"]
    return [*first, f"--dataset.root={root}", *words]


def config_of(root: Path, *words: str) -> Any:
    return lerobot_config.read_config(words_of(root, *words))


def batch_speeds() -> dict[int, float]:
    """Samples per CPU second of updates of ACT at its real size, one camera of 96 x 96."""
    made, times = {}, {size: [] for size in CLAIMED_SPEED}
    for size in CLAIMED_SPEED:
        policy = config_of(Path(), "--policy.pretrained_backbone_weights=null").policy
        lerobot_config.set_features(policy, lerobot_config.made_up_features(1, 96))
        made[size] = memory_calibration.make_update(policy, size, "cpu", "fp32", False, False)
        made[size].update()
    for _ in range(ROUNDS):
        for size, update in made.items():
            start_seconds = time.process_time()
            update.update()
            times[size].append(time.process_time() - start_seconds)
    return {size: size / statistics.median(found) for size, found in times.items()}


def stability(root: Path) -> dict[int, list[float]]:
    """The loss on the whole dataset after equally many samples, for each seed."""
    config = config_of(root, *SMALL, *SHORT, "--policy.pretrained_backbone_weights=null", "--policy.dropout=0.0")
    dataset = loader_probe.open_dataset(config)
    chunk_decode.skip_unused_images(dataset)
    lerobot_config.set_features(config.policy, dataset.meta.features)
    whole = normalised(torch.utils.data.default_collate([dataset[k] for k in range(len(dataset))]), dataset)
    found: dict[int, list[float]] = {size: [] for size in CLAIMED_STABILITY}
    for seed in range(SEEDS):
        for size, losses in found.items():
            losses.append(train(config.policy, whole, size, seed))
    return found


def normalised(batch: dict[str, Any], dataset: Any) -> dict[str, Any]:
    """Tensors of a batch that the policy reads; actions and states as LeRobot normalises them."""
    for name in ("action", "observation.state"):
        stats = dataset.meta.stats[name]
        mean, std = (torch.as_tensor(stats[part], dtype=torch.float32) for part in ("mean", "std"))
        batch[name] = (batch[name] - mean) / (std + 1e-8)
    return {name: value for name, value in batch.items() if isinstance(value, torch.Tensor)}


def train(policy_config: Any, whole: dict[str, Any], size: int, seed: int) -> float:
    """Trains on batches of one size; the mean loss of all frames afterwards."""
    from batchwright.lerobot.memory_trace import make_policy

    torch.manual_seed(seed)
    policy, frames = make_policy(policy_config), len(whole["action"])
    policy.train()
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-3)
    order = DataOrder(frames, size, seed)
    for update in range(STABILITY_SAMPLES // size):
        batch = {name: value[order.batch(update)] for name, value in whole.items()}
        loss, _ = policy.forward(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        return float(policy.forward(whole)[1]["l1_loss"])


def worker_speeds(root: Path, device: str, seconds: float) -> dict[str, Any]:
    """What the probe advises, and afterwards training with 0, 1, 2, 4 loader processes."""
    words = words_of(root, *SMALL, "--policy.pretrained_backbone_weights=null")
    request = {"words": words, "workers": list(WORKERS), "samples": SAMPLES, "prefetch_factor": 2}
    request |= {"precision": "fp32", "gradient_checkpointing": False, "seconds": seconds * ROUNDS}
    config = lerobot_config.read_config(words)
    dataset = loader_probe.open_dataset(config)
    chunk_decode.skip_unused_images(dataset)
    answer = loader_probe.probe_loader(request | {"with_update": device != "wait"})
    if device != "wait":
        lerobot_config.set_features(config.policy, dataset.meta.features)
        update = memory_calibration.make_update(config.policy, SAMPLES, "cpu", "fp32", False, False).update
        update()
    else:
        alone = answer["sweep"][0]["samples_per_second"]
        update = functools.partial(time.sleep, SAMPLES / (WAIT_SPEED * alone))
        answer |= loader_probe.sweep(dataset, request, update)
    report = judge(answer, SAMPLES, 2, 1)
    rounds: dict[int, list[tuple[float, float]]] = {workers: [] for workers in WORKERS}
    for number in range(TRAINING_ROUNDS):
        for workers, found in rounds.items():
            found.append(train_for(dataset, update, workers, number, seconds))
    speeds = {workers: statistics.median(speed for speed, _ in found) for workers, found in rounds.items()}
    kept = ("decoded_images", "sample_seconds", "sample_seconds_here", "update_samples_per_second", "video_backend")
    return {
        "rows": [worker_row(row, rounds[row["workers"]], report.verdicts[row["workers"]]) for row in answer["sweep"]],
        "advised_workers": report.advised,
        "advised_over_worst": speeds[report.advised] / min(speeds.values()),
        "advised_over_best": speeds[report.advised] / max(speeds.values()),
        "findings": list(report.findings),
        **{name: answer[name] for name in kept},
    }


def worker_row(probed: dict[str, Any], found: list[tuple[float, float]], verdict: str) -> dict[str, Any]:
    """One number of workers: what the probe measured, and what training was."""
    return {
        "workers": probed["workers"],
        "loader_samples_per_second": probed["samples_per_second"],
        "probed_samples_per_second": probed["training_samples_per_second"],
        "verdict": verdict,
        "samples_per_second": statistics.median(speed for speed, _ in found),
        "lowest_to_highest": [min(found)[0], max(found)[0]],
        "busy_share": statistics.median(share for _, share in found),
    }


def train_for(dataset: Any, update: Any, workers: int, seed: int, seconds: float) -> tuple[float, float]:
    """(samples per second, share of time in the update) of some seconds of training."""
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_sampler=DataOrder(len(dataset), SAMPLES, seed).batches(0),
        num_workers=workers,
        prefetch_factor=2 if workers else None,
    )
    batches = iter(loader)
    for _ in range(1 + 2 * workers):
        next(batches)
    start_seconds, busy, count = time.perf_counter(), 0.0, 0
    while time.perf_counter() - start_seconds < seconds or count < 2:
        next(batches)
        update_seconds = time.perf_counter()
        update()
        busy += time.perf_counter() - update_seconds
        count += 1
    total = time.perf_counter() - start_seconds
    return SAMPLES * count / total, busy / total


def batch_rows(speeds: dict[int, float], losses: dict[int, list[float]]) -> list[dict[str, Any]]:
    memory = traced_memory("act", 3, 224, "bf16", False)
    return [
        {
            "samples": size,
            "samples_per_cpu_second": speeds[size],
            "losses": losses[size],
            "memory_use_of_12_gib": memory.total(size) / GPU_BYTES,
            "claimed_speed": CLAIMED_SPEED[size],
            "claimed_stability": CLAIMED_STABILITY[size],
        }
        for size in CLAIMED_SPEED
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, help="parts that it holds are not measured again")
    parser.add_argument("--seconds", type=float, default=2.0, help="time of one measurement of training")
    parser.add_argument("--only", nargs="+", default=PARTS, choices=PARTS, help="parts to measure")
    stated = parser.parse_args()
    from importlib.metadata import version

    found: dict[str, Any] = {"lerobot": version("lerobot"), "torch": torch.__version__, "machine": platform.machine()}
    found |= {"cores": os.cpu_count(), "load": {}, "workers": {}}
    found |= json.loads(stated.json.read_text()) if stated.json.exists() else {}

    def keep(part: str, load: float) -> None:
        found["load"][part] = load
        stated.json.write_text(json.dumps(found, indent=2) + "\n")

    toy = {"episodes": 4, "steps": 30, "cameras": 1, "fps": 10, "seed": 0}
    with tempfile.TemporaryDirectory() as folder:
        for part in stated.only:
            load, root = os.getloadavg()[0], Path(folder) / part
            torch.set_num_threads(CORES if part.endswith("-cores") else 1)
            if part == BATCH and BATCH not in found:
                write(root, side=32, video=False, **toy)
                found[BATCH] = batch_rows(batch_speeds(), stability(root))
                keep(part, load)
            elif part != BATCH and part not in found["workers"]:
                kind, device = part.split("-")
                write(root, side=128, video=kind == "video", **toy)
                found["workers"][part] = worker_speeds(root, device, stated.seconds)
                keep(part, load)


if __name__ == "__main__":
    main()
