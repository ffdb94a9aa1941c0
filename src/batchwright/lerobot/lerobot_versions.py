"""What each version of LeRobot calls its flags, and which of its defects matter here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeRobotVersion:
    """One line of versions that behave alike."""

    prefix: str
    """The beginning of the version's number."""
    python: str
    prefetch_factor: int
    """Batches that each loader process keeps ready."""
    eval_flag: str
    """The flag that says how often an environment is evaluated."""
    resumes_data_order: bool
    """Whether its own resume goes on with the next sample; ours does with every version."""
    defects: tuple[str, ...]


CHUNK_DECODE = (
    "image datasets decode chunk_size x cameras images per sample, of which one per camera is used "
    "(huggingface/lerobot issue 4392)"
)
NO_ACCUMULATION = "lerobot-train has no gradient accumulation"

VERSIONS = (
    LeRobotVersion(
        "0.4.4",
        "3.10 or 3.11",
        2,
        "eval_freq",
        False,
        (
            CHUNK_DECODE,
            NO_ACCUMULATION,
            "--policy.use_amp is accepted and ignored",
            "ACCELERATE_GRADIENT_ACCUMULATION_STEPS divides the gradient and still steps each batch",
            "several datasets are refused",
        ),
    ),
    LeRobotVersion(
        "0.6.",
        "3.12 or newer",
        4,
        "env_eval_freq",
        True,
        (CHUNK_DECODE, NO_ACCUMULATION, "several datasets are refused"),
    ),
)

REPLACED_FLAGS = {
    "--bf16": "--precision bf16",
    "--gradient_checkpointing": "--gradient-checkpointing",
    "--gradient_accumulation_steps": "--accumulation",
    "--batch_size": "--samples-per-step",
    "--num_workers": "--workers",
    "--steps": "--total-updates",
    "--dataset.streaming": "a dataset in a folder, whose frames are drawn in a known order",
    "--policy.type": "--policy",
    "--policy.path": "--policy-path",
    "--policy.vlm_model_name": "--vlm",
    "--dataset.repo_id": "--dataset",
    "--dataset.root": "--dataset",
    "--policy.use_amp": "--precision bf16",
    "--save_freq": "--checkpoint-every",
    "--seed": "--seed",
    "--output_dir": "--run-dir",
    "--resume": "batchwright resume RUN",
}
"""Flags of LeRobot, or of texts about it, that the plan decides here."""


def find_version(version: str) -> LeRobotVersion | None:
    """The entry of a version; None for one that was never tried."""
    return next((entry for entry in VERSIONS if version.startswith(entry.prefix)), None)


def describe_version(version: str) -> str:
    """One line: the version, and whether it is known."""
    if find_version(version) is not None:
        return f"LeRobot {version}"
    known = ", ".join(entry.prefix + ("x" if entry.prefix.endswith(".") else "") for entry in VERSIONS)
    return f"LeRobot {version}, which was never tried with this version of Batchwright (tried: {known})"
