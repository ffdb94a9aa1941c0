"""Memory of LeRobot's policies as `batchwright lerobot plan` traces it, for plans that are made without LeRobot."""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.planning.memory import GIB, PolicyMemory

WORKSPACE_BYTES = 1.0 * GIB
"""A guess: the CUDA context and the workspaces of cuDNN and cuBLAS, which cannot be traced."""
REFERENCE_SIDE = 224


@dataclass(frozen=True)
class TracedPolicy:
    """Traced with LeRobot 0.4.4, AdamW as on a GPU, 14 joints; MB are 1e6 bytes."""

    floor_mb: float
    fixed_mb: float
    sample_mb: float
    """Of a sample without cameras."""
    camera_mb: float
    """Of one camera's frame of 224 x 224; grows with the pixels where the policy does not resize."""


@dataclass(frozen=True)
class CarefulStart:
    """Samples to begin with on 12 GB, as the source states them: upper ends of its ranges."""

    one_dataset: int
    several_datasets: int
    with_accumulation: int


CAREFUL_STARTS = {"act": CarefulStart(24, 16, 12), "smolvla": CarefulStart(20, 16, 8)}
RESIZES = {"act": False, "smolvla": True}
"""Whether a policy brings frames to a size of its own: SmolVLA to 512 x 512."""

# (policy, precision, gradient checkpointing) -> figures. ACT was traced at 1 and 3 cameras of 224 x 224. SmolVLA was in
# fp32, and in bf16 with checkpointing (benchmarks/results/lerobot_memory.json); in its other two modes it was traced at
# 3 only, and all of its sample is put down to cameras.
TRACED = {
    ("act", "fp32", False): TracedPolicy(989.9, 626.3, 36.40, 28.83),
    ("act", "fp32", True): TracedPolicy(989.9, 694.2, 10.43, 10.54),
    ("act", "bf16", False): TracedPolicy(989.9, 722.8, 20.43, 24.35),
    ("act", "bf16", True): TracedPolicy(989.9, 706.8, 6.55, 9.82),
    ("smolvla", "fp32", False): TracedPolicy(2699.8, 1898.9, 74.83, 76.75),
    ("smolvla", "fp32", True): TracedPolicy(2699.8, 1898.9, 0.0, 24.11),
    ("smolvla", "bf16", False): TracedPolicy(2699.8, 2086.6, 0.0, 93.98),
    ("smolvla", "bf16", True): TracedPolicy(2699.8, 2076.3, 14.66, 17.82),
}


def traced_memory(policy: str, cameras: int, side: int, precision: str, checkpointing: bool) -> PolicyMemory:
    """The traced figures scaled to these cameras; exact where they were traced, a few percent off elsewhere."""
    found = TRACED[policy, precision, checkpointing]
    pixels = 1.0 if RESIZES[policy] else (side / REFERENCE_SIDE) ** 2
    sample = found.sample_mb + cameras * pixels * found.camera_mb
    shape = f"{cameras} cameras" + ("" if RESIZES[policy] else f" of {side} x {side}")
    mode = f"{precision}{', checkpointed' if checkpointing else ''}"
    input_bytes = cameras * side**2 * 3 * 4
    return PolicyMemory(
        fixed_bytes=found.fixed_mb * 1e6 + WORKSPACE_BYTES,
        sample_bytes=sample * 1e6,
        fixed_reason=f"traced: weights, gradients, moments {found.fixed_mb:,.0f} MB + 1.0 GiB workspace (a guess)",
        sample_reason=f"traced: {found.sample_mb:g} MB + {found.camera_mb:g} MB per camera, {shape}, {mode}",
        floor_bytes=found.floor_mb * 1e6 + WORKSPACE_BYTES,
        input_bytes=input_bytes,
    )
