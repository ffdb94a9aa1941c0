"""Memory of one update of a policy, traced with fake tensors: no GPU, no allocation, a few seconds.

What is counted: weights, gradients, optimiser state, activations, the batch. What is not: the CUDA context, the
workspaces of cuDNN and cuBLAS, and what the allocator holds back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from batchwright.lerobot import activation_checkpointing
from batchwright.lerobot.live_memory import LiveMemory
from batchwright.lerobot.smolvlm_stand_in import without_files

TRACED_SAMPLES = (2, 4, 8, 16, 32, 64)
"""Batch sizes whose peaks are traced. Between two of them, and above the last, memory is a straight line."""


@dataclass(frozen=True)
class TracedMemory:
    """Peak = max(floor, fixed + sample x micro-batch + input x samples that wait for their micro-batch).

    At small batches one of `small_batches`, (fixed, sample) too, is higher: activations are freed while gradients
    appear, so that the peak moves from the start of the backward pass to its end as batches become smaller.
    """

    floor_bytes: int
    """Of the optimiser's step, whatever the batch."""
    fixed_bytes: int
    sample_bytes: int
    input_bytes: int
    """Of one sample as it comes out of the loader, on the device."""
    parameters: int
    trainable: int
    small_batches: tuple[tuple[int, int], ...] = ()

    def total(self, samples: int) -> int:
        """The peak of a whole batch in bytes."""
        lines = ((self.fixed_bytes, self.sample_bytes), *self.small_batches)
        return max(self.floor_bytes, *(fixed + samples * sample for fixed, sample in lines))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def trace(policy_config: Any, precision: str, checkpointing: bool, foreach: bool) -> TracedMemory:
    """The memory of training a policy of LeRobot whose features are set; `foreach` as AdamW does it on a GPU."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cpu"):
        sizes = (1, *TRACED_SAMPLES)
        counted = count_updates(policy_config, sizes, precision, checkpointing, foreach, LiveMemory(fake=True))
    floor, *peaks = counted.peak_bytes
    *small, (fixed, sample) = _lines_between(TRACED_SAMPLES, peaks)
    return TracedMemory(
        floor_bytes=floor,
        fixed_bytes=fixed,
        sample_bytes=sample,
        small_batches=tuple(line for line in small if 0 < line[1] < sample),
        input_bytes=counted.input_bytes,
        parameters=counted.parameters,
        trainable=counted.trainable,
    )


def _lines_between(sizes: Sequence[int], peaks: Sequence[int]) -> list[tuple[int, int]]:
    """(fixed, sample) of the line through each pair of neighbours; the curve is convex, so the highest line holds."""
    lines = []
    for low, high, first, second in zip(sizes, sizes[1:], peaks, peaks[1:], strict=False):
        sample = (second - first) / (high - low)
        lines.append((round(first - low * sample), round(sample)))
    return lines


@dataclass(frozen=True)
class Counted:
    """Peaks of consecutive updates."""

    peak_bytes: tuple[int, ...]
    input_bytes: int
    parameters: int
    trainable: int


def count_updates(
    config: Any, sizes: tuple[int, ...], precision: str, checkpointing: bool, foreach: bool, memory: LiveMemory
) -> Counted:
    """Builds the policy and makes one update for each batch size while `memory` counts.

    The first one ends with two steps of the optimiser, whose peak is the same at any batch size and is reached once all
    of its state exists; the others end after the backward pass.
    """
    peaks: list[int] = []
    with memory:
        policy = make_policy(config)
        policy.train()
        memory.count([*policy.parameters(), *policy.buffers()])
        if checkpointing:
            activation_checkpointing.enable(policy)
        optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-5, foreach=foreach)
        for samples in sizes:
            batch = make_batch(config, samples)
            memory.peak_bytes = memory.live_bytes
            _backward(policy, batch, precision)
            if not peaks:
                torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0, foreach=foreach)
                optimizer.step()
                optimizer.step()
            optimizer.zero_grad()
            peaks.append(memory.peak_bytes)
            input_bytes = sum(tensor.nbytes for tensor in batch.values()) // samples
            del batch
    counts = [(parameter.numel(), parameter.requires_grad) for parameter in policy.parameters()]
    trainable = sum(size for size, trained in counts if trained)
    return Counted(tuple(peaks), input_bytes, sum(size for size, _ in counts), trainable)


def _backward(policy: Any, batch: dict[str, torch.Tensor], precision: str) -> None:
    with autocast("cpu", precision):
        loss, _ = policy.forward(dict(batch))
    loss.backward()


@contextlib.contextmanager
def autocast(device: str, precision: str) -> Iterator[None]:
    """bf16 where the precision asks for it."""
    with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
        yield


def make_policy(config: Any) -> Any:
    """The policy with weights of no meaning; nothing is downloaded."""
    from lerobot.policies.factory import get_policy_class

    if config.type == "act":
        config.pretrained_backbone_weights = None
        return get_policy_class("act")(config)
    loads, config.load_vlm_weights = config.load_vlm_weights, False
    try:
        with without_files(config.vlm_model_name):
            policy = get_policy_class(config.type)(config)
    finally:
        config.load_vlm_weights = loads
    if loads:
        policy.model.vlm_with_expert.vlm = _as_bf16(policy.model.vlm_with_expert.vlm)
    return policy


def _as_bf16(module: torch.nn.Module) -> torch.nn.Module:
    """Weights in bf16, as LeRobot loads them; `.to()` cannot swap fake parameters."""
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            if parameter.is_floating_point():
                cast = torch.nn.Parameter(parameter.data.bfloat16(), requires_grad=parameter.requires_grad)
                setattr(owner, name, cast)
    return module


def make_batch(config: Any, samples: int) -> dict[str, torch.Tensor]:
    """One batch with the shapes that LeRobot's processors give it; the instruction has the most tokens allowed."""
    batch = {name: torch.rand(samples, *feature.shape) for name, feature in config.input_features.items()}
    action = config.output_features["action"].shape
    batch["action"] = torch.rand(samples, config.chunk_size, *action)
    batch["action_is_pad"] = torch.zeros(samples, config.chunk_size, dtype=torch.bool)
    if config.type == "smolvla":
        length = config.tokenizer_max_length
        batch["observation.language.tokens"] = torch.ones(samples, length, dtype=torch.long)
        batch["observation.language.attention_mask"] = torch.ones(samples, length, dtype=torch.bool)
    return batch
