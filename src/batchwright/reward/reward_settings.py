"""Numbers of a plan that a reward model's run needs, typed."""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.core.errors import UserError
from batchwright.planning.network_plan import hidden_sizes
from batchwright.planning.plan import Plan
from batchwright.runs.run_settings import RunSettings

NUMBERS = (
    *("iterations", "updates_per_iteration", "subsequences_per_update", "subsequence_timesteps", "learning_rate"),
    *("weight_decay", "held_out_episodes", "recording_bytes", "drawn_bytes"),
)
"""Quantities that a run computes with or shows: each must be a number."""


@dataclass(frozen=True)
class RewardSettings(RunSettings):
    """What each update draws and how it steps, beside the numbers that every run has."""

    iterations: int
    redistribute: str
    """`rrd`, `rrd-unbiased` or `full`."""
    updates_per_iteration: int
    subsequences_per_update: int
    subsequence_timesteps: int
    learning_rate: float
    weight_decay: float
    hidden: tuple[int, ...]
    """Units of each layer; empty for the convolutional network."""
    held_out_episodes: int
    """Episodes that measure the fit and are not learned from."""
    frames_on_disk: bool
    """Whether observations are kept in memory-mapped files."""
    recording_digest: str
    """Of the episodes, lengths and returns that the run was started with."""

    @classmethod
    def from_plan(cls, plan: Plan) -> RewardSettings:
        for name in NUMBERS:
            if not isinstance(plan[name], (int, float)):
                text = f"plan.json is damaged: {name} is {plan[name]!r:.40}, not a number."
                raise UserError(text, ["train anew in another --run-dir"])
        return cls(
            **vars(RunSettings.from_plan(plan)),
            redistribute=plan["redistribute"],
            updates_per_iteration=plan["updates_per_iteration"],
            subsequences_per_update=plan["subsequences_per_update"],
            subsequence_timesteps=plan["subsequence_timesteps"],
            learning_rate=plan["learning_rate"],
            weight_decay=plan["weight_decay"],
            hidden=hidden_sizes(plan) or (),
            held_out_episodes=plan["held_out_episodes"],
            frames_on_disk=plan["frames_on_disk"],
            recording_digest=plan["recording_digest"],
        )
