"""Names of metrics for other tools, in the groups that TensorBoard and W&B show: rollout, train, eval, time."""

from __future__ import annotations

from collections.abc import Mapping

from batchwright.watch.metric_log import is_time_valued

ROLLOUT, TRAIN, EVAL, TIME = "rollout", "train", "eval", "time"
ROLLOUT_NAMES = ("env_steps", "transitions", "surplus_steps", "success_rate", "replay_transitions", "epsilon")
STEP = "env_steps"
"""What tools draw over; it keeps its name."""


def grouped_name(name: str) -> str:
    """`rollout/episode_return`, `train/entropy`, `eval/mean`, `time/collect_seconds` for the names of a record."""
    if name in (STEP, "iteration"):
        return name
    if name.startswith("eval_") and not is_time_valued(name):
        return f"{EVAL}/{name.removeprefix('eval_')}"
    if is_time_valued(name):
        return f"{TIME}/{name}"
    if name.startswith(("episode", "component/", "agent/", "info/")) or name in ROLLOUT_NAMES:
        return f"{ROLLOUT}/{name}"
    return f"{TRAIN}/{name}"


def grouped(numbers: Mapping[str, float]) -> dict[str, float]:
    """A record's numbers by their grouped names."""
    return {grouped_name(name): value for name, value in numbers.items()}
