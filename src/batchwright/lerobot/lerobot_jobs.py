"""Jobs inside of LeRobot's interpreter: a request as JSON on standard input, the answer as the last line of output."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.lerobot import torchvision_schemas


def trace_memory(request: dict[str, Any]) -> dict[str, Any]:
    """Traced memory of each wanted combination of precision and checkpointing."""
    from batchwright.lerobot import lerobot_config, memory_trace

    features = request["features"] or lerobot_config.made_up_features(request["cameras"], request["image_size"])
    found = []
    for precision, checkpointing in request["cases"]:
        config = lerobot_config.read_config(request["words"])
        lerobot_config.set_features(config.policy, features)
        if config.policy.type == "smolvla" and not request["scratch_vlm"]:
            config.policy.load_vlm_weights = True
        traced = memory_trace.trace(config.policy, precision, checkpointing, request["foreach"])
        found.append({"precision": precision, "gradient_checkpointing": checkpointing, **traced.to_dict()})
    return {"traced": found, "chunk_size": config.policy.chunk_size}


def merge(request: dict[str, Any]) -> dict[str, Any]:
    """Merges datasets into one folder; it appears whole or not at all."""
    from lerobot.datasets.aggregate import aggregate_datasets

    target = Path(request["target"])
    if not (target / "meta" / "info.json").is_file():
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            aggregate_datasets(
                repo_ids=request["repo_ids"],
                aggr_repo_id=request["repo_id"],
                roots=[Path(root) for root in request["roots"]],
                aggr_root=partial,
            )
            partial.rename(target)
        except OSError:
            if not (target / "meta" / "info.json").is_file():  # another process was quicker
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return {"root": str(target)}


def probe(request: dict[str, Any]) -> dict[str, Any]:
    """Measures the loader, see `loader_probe`."""
    from batchwright.lerobot.loader_probe import probe_loader

    return probe_loader(request)


def calibrate(request: dict[str, Any]) -> dict[str, Any]:
    """Measures the memory of real updates on this machine's device, see `memory_calibration`."""
    from batchwright.lerobot.memory_calibration import calibrate_memory

    return calibrate_memory(request)


JOBS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "trace": trace_memory,
    "merge": merge,
    "probe": probe,
    "calibrate": calibrate,
}


def main() -> int:
    torchvision_schemas.declare()
    request = json.loads(sys.stdin.read())
    try:
        answer = JOBS[sys.argv[1]](request)
    except UserError as error:
        answer = error.to_json()
    print("\n" + json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
