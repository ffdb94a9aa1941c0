"""Findings about time and memory."""

from __future__ import annotations

from batchwright.doctor.finding import DANGER, LEVERS, NOTE, WARNING, Finding, flag
from batchwright.doctor.run_history import RunHistory

BOUND_SHARE = 0.8
WARN_MEMORY, DANGER_MEMORY = 0.90, 0.95
BUSY_ACCELERATOR = 0.70


def environment_bound(history: RunHistory) -> Finding | None:
    """Collection takes at least 80% of an iteration."""
    share = _collect_share(history)
    if share is None or share < BOUND_SHARE:
        return None
    envs = history.facts.number("num_envs")
    return Finding(
        "environment-bound",
        NOTE,
        0.5,
        f"collection takes {share:.0%} of an iteration.",
        "the updates wait for the environments",
        "docs/training/speed.md#what-to-turn",
        () if envs is None else (f"{flag('num_envs', int(2 * envs))} --hold transitions-per-update", "--engine auto"),
        {"collect_share": share},
    )


def update_bound(history: RunHistory) -> Finding | None:
    """Updates take at least 80% of an iteration."""
    share = _collect_share(history)
    if share is None or 1 - share < BOUND_SHARE:
        return None
    size = history.facts.number("minibatch_transitions")
    return Finding(
        "update-bound",
        NOTE,
        0.5,
        f"updates take {1 - share:.0%} of an iteration.",
        "many small updates; larger minibatches or fewer epochs take less time per transition",
        "docs/training/speed.md#what-to-turn",
        () if size is None else (flag("minibatch_transitions", int(2 * size)),),
        {"update_share": 1 - share},
    )


def accelerator_idle(history: RunHistory) -> Finding | None:
    """An accelerator that is busy less than 70% of the time."""
    use = history.typical("accelerator_use", 0.1)
    if use is None or use >= BUSY_ACCELERATOR:
        return None
    envs = history.facts.number("num_envs")
    return Finding(
        "accelerator-idle",
        NOTE,
        0.7,
        f"the accelerator is busy {use:.0%} of the time; the aim is at least {BUSY_ACCELERATOR:.0%} during updates.",
        "it waits for environments, or minibatches are too small to fill it",
        f"{LEVERS}: num_envs, minibatch_transitions",
        () if envs is None else (flag("num_envs", int(2 * envs)),),
        {"accelerator_use": use},
    )


def memory_near_limit(history: RunHistory) -> Finding | None:
    """Memory use above 90% of the limit, other programs under it included; a danger from 95%."""
    used, limit = history.highest("machine_memory_bytes"), history.highest("memory_limit_bytes")
    if used is None or not limit or used < WARN_MEMORY * limit:
        return None
    share, own = used / limit, history.highest("memory_bytes")
    of_run = "" if own is None else f", {own / 2**30:.2f} GiB of them by this run"
    envs, capacity = history.facts.number("num_envs"), history.facts.number("replay_transitions")
    flags: tuple[str, ...] = () if envs is None or envs < 2 else (flag("num_envs", int(envs) // 2),)
    if capacity is not None:
        flags = (flag("replay_transitions", int(capacity * 0.75)),)
    return Finding(
        "memory-near-limit",
        DANGER if share >= DANGER_MEMORY else WARNING,
        0.9,
        f"{used / 2**30:.2f} GiB of {limit / 2**30:.2f} GiB of memory are in use ({share:.0%}){of_run}.",
        "the process is killed when it reaches the limit",
        "docs/planning/dataset.md#memory: a warning above 90%, a danger from 95%",
        flags,
        {"machine_memory_bytes": used, "memory_limit_bytes": limit} | ({} if own is None else {"memory_bytes": own}),
    )


def _collect_share(history: RunHistory) -> float | None:
    collect, update = history.typical("collect_seconds", 0.1), history.typical("update_seconds", 0.1)
    if collect is None or update is None or collect + update <= 0:
        return None
    return collect / (collect + update)
