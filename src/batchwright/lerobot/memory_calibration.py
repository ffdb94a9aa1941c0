"""Counts the memory of real updates on this machine's device, to be set beside the traced figures."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from batchwright.lerobot import activation_checkpointing
from batchwright.lerobot.lerobot_config import made_up_features, read_config, set_features
from batchwright.lerobot.memory_trace import autocast, make_batch, make_policy


def calibrate_memory(request: dict[str, Any]) -> dict[str, Any]:
    """The peak of real updates for each batch size: of CUDA's allocator, or of the CPU's as the profiler sees it."""
    config = read_config(request["words"]).policy
    features = request["features"] or made_up_features(request["cameras"], request["image_size"])
    set_features(config, features)
    if config.type == "smolvla" and not request["scratch_vlm"]:
        config.load_vlm_weights = True
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mode = request["precision"], request["gradient_checkpointing"], device == "cuda"
    peaks = {size: real_peak(config, size, device, *mode) for size in request["sizes"]}
    context = _context_bytes() if device == "cuda" else 0
    return {"device": device, "peaks": peaks, "context_bytes": context}


@dataclass(frozen=True)
class RealUpdate:
    """A policy that is trained on one made-up batch."""

    update: Callable[[], None]
    tensors: Callable[[], list[Any]]
    """What stays in memory between two updates: weights, buffers, optimiser state, the batch."""


def make_update(
    config: Any, samples: int, device: str, precision: str, checkpointing: bool, foreach: bool
) -> RealUpdate:
    """A policy with weights of no meaning, its optimiser and a batch, on a device."""
    torch.manual_seed(0)
    with torch.device(device):
        policy = make_policy(config).to(device)
    policy.train()
    if checkpointing:
        activation_checkpointing.enable(policy)
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-5, foreach=foreach)
    batch = {name: value.to(device) for name, value in make_batch(config, samples).items()}

    def update() -> None:
        with autocast(device, precision):
            loss, _ = policy.forward(dict(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0, foreach=foreach)
        del loss
        optimizer.step()
        optimizer.zero_grad()

    def tensors() -> list[Any]:
        moments = [value for state in optimizer.state.values() for value in state.values()]
        return [*policy.parameters(), *policy.buffers(), *batch.values(), *moments]

    return RealUpdate(update, tensors)


def real_peak(config: Any, samples: int, device: str, precision: str, checkpointing: bool, foreach: bool) -> int:
    """The peak in bytes of two updates at one batch size, weights included."""
    made = make_update(config, samples, device, precision, checkpointing, foreach)
    made.update()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        made.update()
        return int(torch.cuda.max_memory_allocated())
    return _bytes(made.tensors()) + _profiled_peak(made.update)


def _bytes(tensors: list[Any]) -> int:
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def _profiled_peak(update: Any) -> int:
    """What the CPU's allocator gave out beyond what it had given before, at most; workspaces of kernels included."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        update()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_bytes())["traceEvents"]
    changes = sorted((event["ts"], int(event["args"]["Bytes"])) for event in events if event.get("name") == "[memory]")
    live = peak = 0
    for _, change in changes:
        live += change
        peak = max(peak, live)
    return peak


def _context_bytes() -> int:
    """What CUDA holds beside the allocator's own: its context and the workspaces of libraries."""
    free, total = torch.cuda.mem_get_info()
    return int(total - free - torch.cuda.memory_reserved())
