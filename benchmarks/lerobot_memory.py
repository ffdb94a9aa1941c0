"""Traced memory of LeRobot's policies beside the memory that real updates take on a CPU.

Runs in LeRobot's interpreter: `PYTHONPATH=src .venv-lerobot/bin/python benchmarks/lerobot_memory.py --json FILE`.
The counted peak is what PyTorch's CPU allocator gave out, as its profiler reports it, workspaces of kernels included.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

from batchwright.lerobot import torchvision_schemas

torchvision_schemas.declare()

from batchwright.lerobot import lerobot_config, memory_calibration, memory_trace  # noqa: E402

TINY_VLM = ["--policy.num_vlm_layers=4", "--policy.resize_imgs_with_padding=[128,128]"]

# (policy, cameras, side, precision, checkpointing, samples); SmolVLA with 4 layers and small frames: a CPU is slow.
CASES = [
    ("act", 1, 96, "fp32", False, 1),
    ("act", 1, 96, "fp32", False, 8),
    ("act", 1, 224, "fp32", False, 4),
    ("act", 3, 96, "fp32", False, 8),
    ("act", 3, 224, "fp32", False, 2),
    ("act", 2, 128, "fp32", True, 8),
    ("act", 1, 224, "fp32", True, 8),
    ("act", 1, 96, "bf16", False, 8),
    ("act", 2, 128, "bf16", True, 8),
    ("smolvla", 1, 128, "fp32", False, 1),
    ("smolvla", 1, 128, "fp32", False, 4),
    ("smolvla", 2, 128, "fp32", False, 4),
    ("smolvla", 1, 128, "fp32", True, 4),
    ("smolvla", 1, 128, "bf16", False, 4),
]


def config_of(policy: str, cameras: int, side: int) -> Any:
    words = [f"--policy.type={policy}", "--policy.push_to_hub=false", "--dataset.repo_id=a/b", "--policy.device=cpu"]
    config = lerobot_config.read_config(words + (TINY_VLM if policy == "smolvla" else [])).policy
    lerobot_config.set_features(config, lerobot_config.made_up_features(cameras, side))
    return config


def measure(case: tuple[str, int, int, str, bool, int]) -> dict[str, Any]:
    policy, cameras, side, precision, checkpointing, samples = case
    start_seconds = time.perf_counter()
    traced = memory_trace.trace(config_of(policy, cameras, side), precision, checkpointing, foreach=False)
    trace_seconds = time.perf_counter() - start_seconds
    total = max(traced.floor_bytes, traced.fixed_bytes + samples * traced.sample_bytes)
    counted = memory_calibration.real_peak(
        config_of(policy, cameras, side), samples, "cpu", precision, checkpointing, foreach=False
    )
    names = ("policy", "cameras", "image_size", "precision", "gradient_checkpointing", "samples")
    found = {"traced_bytes": total, "counted_bytes": counted, "error": total / counted - 1}
    return dict(zip(names, case, strict=True)) | found | {"trace_seconds": trace_seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    target = parser.parse_args().json
    from importlib.metadata import version

    import torch

    about = {"lerobot": version("lerobot"), "torch": torch.__version__, "machine": platform.machine()}
    rows = []
    for case in CASES:
        rows.append(measure(case))
        print(rows[-1], flush=True)
        target.write_text(json.dumps(about | {"cases": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
