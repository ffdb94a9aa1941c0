"""Bytes: of one transition, one batch, the buffer; and the memory of a policy as fixed + per sample x batch."""

from __future__ import annotations

import math
from dataclasses import dataclass

DTYPE_BYTES = {"float32": 4, "float16": 2, "uint8": 1, "int32": 4, "int64": 8, "float64": 8, "bool": 1, "int8": 1}
MIB, GIB = 1024**2, 1024**3

# Share of a memory that a plan may fill: good to here, a warning above, danger from the second figure.
GOOD_SHARE, DANGER_SHARE = 0.90, 0.95

# Share of RAM that a buffer takes where its size is not stated: as much again is left for activations and compiled
# programs, the processes of environments, files on their way to disk, and whatever else the machine does.
DEFAULT_BUFFER_SHARE = 0.5

# Of a frame stack: how far back it reaches.
AGE_BYTES = 1

# Reward (float32) and whether it terminated (one byte) beside each stored transition.
REWARD_AND_END_BYTES = 4 + 1


@dataclass(frozen=True)
class TransitionBytes:
    """Bytes of the parts of one transition at the stored type."""

    obs: int
    action: int

    @property
    def batch(self) -> int:
        """One transition in a batch: observation, action, reward, ends, next observation."""
        return 2 * self.obs + self.action + REWARD_AND_END_BYTES

    @property
    def batch_without_next(self) -> int:
        return self.obs + self.action + REWARD_AND_END_BYTES

    def stored(self, with_next: bool, stacked_frames: int = 1) -> int:
        """One transition in the buffer; without its own next observation, neighbours share frames."""
        if with_next:
            return self.batch
        if stacked_frames == 1:
            return self.batch_without_next
        return self.obs // stacked_frames + AGE_BYTES + self.action + REWARD_AND_END_BYTES


def transition_bytes(obs_shape: tuple[int, ...], obs_dtype: str, action_size: int, discrete: bool) -> TransitionBytes:
    """Bytes of one transition; a discrete action is one int32, others float32 per dimension."""
    return TransitionBytes(math.prod(obs_shape) * DTYPE_BYTES[obs_dtype], 4 if discrete else 4 * action_size)


def show_bytes(count: float) -> str:
    """Bytes in a readable unit."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", 1024)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


@dataclass(frozen=True)
class PolicyMemory:
    """Memory of training a policy: `fixed_bytes + sample_bytes x samples`."""

    fixed_bytes: float
    sample_bytes: float
    fixed_reason: str
    sample_reason: str
    measured: bool = False

    def total(self, samples: int) -> float:
        return self.fixed_bytes + self.sample_bytes * samples

    def largest(self, memory_bytes: float, share: float = GOOD_SHARE) -> int:
        """The most samples that keep within a share of the memory; 0 where not even the fixed part fits."""
        return max(0, math.floor((memory_bytes * share - self.fixed_bytes) / self.sample_bytes))


@dataclass(frozen=True)
class PolicyPrior:
    """Estimates for a policy before anything is measured."""

    parameters: float
    trainable: float
    sample_mb_low: float
    sample_mb_high: float
    sample_mb: float
    start_samples: int
    """Where to begin: the top of the range that the source calls safe on 12 GB."""
    source: str


# Per-sample figures are for 3 cameras of 224 x 224 (docs/planning/dataset.md); parameter counts are published ones.
PRIORS = {
    "act": PolicyPrior(
        52e6, 52e6, 50, 80, 60, 24, "50-80 MB per sample; 52 M parameters as LeRobot builds it by default"
    ),
    "smolvla": PolicyPrior(
        450e6,
        100e6,
        150,
        300,
        200,
        16,
        "150-300 MB per sample; 450 M parameters, 100 M trained (Shukor et al., 2025)",
    ),
}
REFERENCE_CAMERAS, REFERENCE_SIDE = 3, 224
WORKSPACE_BYTES = 1.0 * GIB
"""A guess: the CUDA context and the workspaces of cuDNN and cuBLAS."""
FP32_ACTIVATIONS = 1.6
"""A guess: the source's figures go with bf16; in fp32 activations double, norms and losses were fp32 already."""
CHECKPOINTED_ACTIVATIONS = 0.4
"""A guess: block inputs and one block's activations remain."""


def prior_memory(policy: str, cameras: int, image_side: int, precision: str, checkpointing: bool) -> PolicyMemory:
    """Memory from priors: weights, gradients and Adam's two moments are fixed; activations scale with pixels."""
    prior = PRIORS[policy]
    fixed = prior.parameters * 4 + prior.trainable * 12 + WORKSPACE_BYTES
    pixels = cameras * image_side**2 / (REFERENCE_CAMERAS * REFERENCE_SIDE**2)
    sample = prior.sample_mb_high * 1e6 * pixels
    factors = [f"{prior.sample_mb_high:g} MB at 3 x 224 x 224"]
    if pixels != 1:
        factors.append(f"x {pixels:.3g} pixels")
    if precision == "fp32":
        sample *= FP32_ACTIVATIONS
        factors.append(f"x {FP32_ACTIVATIONS} for fp32 (a guess)")
    if checkpointing:
        sample *= CHECKPOINTED_ACTIVATIONS
        factors.append(f"x {CHECKPOINTED_ACTIVATIONS} for checkpointing (a guess)")
    fixed_reason = (
        f"{prior.parameters / 1e6:.0f} M weights x 4 B + {prior.trainable / 1e6:.0f} M trained x 12 B "
        f"(gradient, two Adam moments) + {show_bytes(WORKSPACE_BYTES)} workspace (a guess)"
    )
    return PolicyMemory(fixed, sample, fixed_reason, "prior, upper end: " + " ".join(factors))
