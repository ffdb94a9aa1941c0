"""Traced memory of LeRobot's policies beside the memory that real updates take on a CPU.

Runs in LeRobot's interpreter: `PYTHONPATH=src .venv-lerobot/bin/python benchmarks/lerobot_memory.py --json FILE`.
The counted peak is what PyTorch's CPU allocator gave out, as its profiler reports it, workspaces of kernels included.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from pathlib import Path
from typing import Any

from batchwright.lerobot import torchvision_schemas

torchvision_schemas.declare()

from batchwright.lerobot import lerobot_config, memory_calibration, memory_trace  # noqa: E402

SIZES = {
    "act": [],
    "small act": [
        "--policy.dim_model=256",
        "--policy.dim_feedforward=1024",
        "--policy.n_encoder_layers=2",
        "--policy.n_vae_encoder_layers=2",
        "--policy.chunk_size=50",
        "--policy.n_action_steps=50",
    ],
    "small smolvla": ["--policy.num_vlm_layers=2", "--policy.resize_imgs_with_padding=[128,128]"],
    "smolvla": ["--policy.load_vlm_weights=true"],
}
"""Policies of real and of smaller size: a CPU is slow. SmolVLA as it is with published weights: those are in bf16."""

# (policy, cameras, side, precision, checkpointing) -> batch sizes.
CASES: dict[tuple[str, int, int, str, bool], tuple[int, ...]] = {
    ("small act", 1, 96, "fp32", False): (2, 16),
    ("small act", 2, 128, "fp32", False): (8,),
    ("small act", 1, 96, "fp32", True): (8, 24),
    ("small act", 1, 96, "bf16", False): (4, 16),
    ("small act", 2, 128, "bf16", True): (12,),
    ("small smolvla", 1, 128, "fp32", False): (2, 6),
    ("small smolvla", 2, 128, "fp32", True): (6,),
    ("small smolvla", 1, 128, "bf16", True): (12,),
    ("act", 1, 96, "fp32", False): (1, 8),
    ("act", 1, 224, "fp32", False): (4,),
    ("act", 3, 224, "fp32", False): (2,),
    ("act", 1, 224, "fp32", True): (8,),
    ("act", 1, 224, "bf16", False): (6,),
    ("act", 3, 224, "bf16", True): (6,),
    ("smolvla", 1, 224, "fp32", False): (1, 8),
    ("smolvla", 3, 224, "fp32", False): (4,),
    ("smolvla", 1, 224, "bf16", True): (16,),
}
NAMES = ("policy", "cameras", "image_size", "precision", "gradient_checkpointing")


def config_of(policy: str, cameras: int, side: int) -> Any:
    words = [
        f"--policy.type={policy.rsplit(maxsplit=1)[-1]}",
        "--policy.push_to_hub=false",
        "--dataset.repo_id=a/b",
        "--policy.device=cpu",
    ]
    config = lerobot_config.read_config(words + SIZES[policy]).policy
    lerobot_config.set_features(config, lerobot_config.made_up_features(cameras, side))
    return config


def measure(shape: tuple[str, int, int, str, bool], sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Traced and counted peaks of one shape at its batch sizes."""
    policy, cameras, side, precision, checkpointing = shape
    start_seconds = time.process_time()
    traced = memory_trace.trace(config_of(policy, cameras, side), precision, checkpointing, foreach=False)
    trace_seconds = time.process_time() - start_seconds
    rows = []
    for samples in sizes:
        total = traced.total(samples)
        counted = memory_calibration.real_peak(
            config_of(policy, cameras, side), samples, "cpu", precision, checkpointing, foreach=False
        )
        found = {"samples": samples, "traced_bytes": total, "counted_bytes": counted, "error": total / counted - 1}
        rows.append(dict(zip(NAMES, shape, strict=True)) | found | {"trace_cpu_seconds": trace_seconds})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="shapes that it holds are not measured again")
    parser.add_argument("--only", nargs="+", default=list(SIZES), metavar="POLICY")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after so long no further shape is begun")
    stated = parser.parse_args()
    from importlib.metadata import version

    import torch

    torch.set_num_threads(1)
    about = {"lerobot": version("lerobot"), "torch": torch.__version__, "machine": platform.machine()}
    rows: list[dict[str, Any]] = json.loads(stated.json.read_text())["cases"] if stated.json.exists() else []
    end_seconds = time.monotonic() + stated.seconds
    for shape, sizes in CASES.items():
        measured = any(tuple(row[name] for name in NAMES) == shape for row in rows)
        if shape[0] in stated.only and not measured and time.monotonic() < end_seconds:
            rows += measure(shape, sizes)
            print(*rows[-len(sizes) :], sep="\n", flush=True)
            stated.json.write_text(json.dumps(about | {"cases": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
