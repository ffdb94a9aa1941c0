"""Names that other trainers and texts use for our settings, and what each maps to.

"Batch size" has a different meaning in each of them; the regime decides which of our settings it is.
"""

from __future__ import annotations

from batchwright.config.schema import DATASET, FIELDS, ON_POLICY, RECORDED, REPLAY

ALIASES = {
    "rollout_batch_size": "rollout_episodes",
    "update_epochs": "epochs",
    "mini_epochs": "epochs",
    "n_epochs": "epochs",
    "minibatch_size": "minibatch_transitions",
    "minibatch": "minibatch_transitions",
    "n_envs": "num_envs",
    "num_actors": "num_envs",
    "n_steps": "rollout_steps",
    "horizon_length": "rollout_steps",
    "total_timesteps": "total_steps",
    "train_batches": "updates_per_iteration",
    "rrd_batch_size": "rrd_timesteps_per_update",
    "rrd_sample_size": "subsequence_timesteps",
    "buffer_size": "replay_transitions",
    "num_workers": "workers",
    "gradient_accumulation_steps": "accumulation",
}

BATCH_SIZE_BY_REGIME = {
    ON_POLICY: "minibatch_transitions",
    REPLAY: "transitions_per_update",
    DATASET: "samples_per_step",
    RECORDED: "rrd_timesteps_per_update",
}

# Sections in which other trainers keep these names; they only group, and add no meaning.
FOREIGN_SECTIONS = ("trainer", "training")

# What decides the meaning of "batch_size" in a file that names neither algorithm nor policy.
REPLAY_MARKS = frozenset({"train_batches", "rrd_batch_size", "rrd_sample_size"})
DATASET_MARKS = frozenset({"num_workers", "gradient_accumulation_steps"})


def canonical(key: str, regime: str) -> str | None:
    """Our name for a key as written (any case), or None where it is unknown."""
    folded = key.lower()
    if folded in FIELDS:
        return folded
    if folded == "batch_size":
        return BATCH_SIZE_BY_REGIME[regime]
    return ALIASES.get(folded)


def known_keys() -> list[str]:
    """Every key that may be written in a file."""
    return [*FIELDS, *ALIASES, "batch_size", "preset"]
