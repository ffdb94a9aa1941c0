"""Where the time and the memory go."""

from __future__ import annotations

from batchwright.doctor.finding import DANGER, GUIDE, NOTE, WARNING, Finding, flag
from batchwright.doctor.run_history import RunHistory

BOUND_SHARE = 0.8
WARN_MEMORY, DANGER_MEMORY = 0.90, 0.95
BUSY_ACCELERATOR = 0.70


def environment_bound(case: RunHistory) -> Finding | None:
    """Most of the time goes into the environments."""
    share = _collect_share(case)
    if share is None or share < BOUND_SHARE:
        return None
    envs = case.facts.number("num_envs")
    return Finding(
        "environment-bound",
        NOTE,
        0.5,
        f"{share:.0%} of an iteration is collection.",
        "the learner waits for environments",
        f"{GUIDE}: more environments until the CPU is 80-90% busy",
        () if envs is None else (f"{flag('num_envs', int(2 * envs))} --hold transitions-per-update", "--engine auto"),
        {"collect_share": share},
    )


def update_bound(case: RunHistory) -> Finding | None:
    """Most of the time goes into updates."""
    share = _collect_share(case)
    if share is None or 1 - share < BOUND_SHARE:
        return None
    size = case.facts.number("minibatch_transitions")
    return Finding(
        "update-bound",
        NOTE,
        0.5,
        f"{1 - share:.0%} of an iteration is the update.",
        "many small updates; larger minibatches or fewer epochs take less time per transition",
        f"{GUIDE}: throughput",
        () if size is None else (flag("minibatch_transitions", int(2 * size)),),
        {"update_share": 1 - share},
    )


def accelerator_idle(case: RunHistory) -> Finding | None:
    """An accelerator that is used less than 70% of the time during updates."""
    use = case.typical("accelerator_use", 0.1)
    if use is None or use >= BUSY_ACCELERATOR:
        return None
    envs = case.facts.number("num_envs")
    return Finding(
        "accelerator-idle",
        NOTE,
        0.7,
        f"the accelerator is busy {use:.0%} of the time; at least {BUSY_ACCELERATOR:.0%} during updates is the aim.",
        "it waits for environments, or its batches are too small to fill it",
        f"{GUIDE}: if the GPU idles while collecting, add environments first",
        () if envs is None else (flag("num_envs", int(2 * envs)),),
        {"accelerator_use": use},
    )


def memory_near_limit(case: RunHistory) -> Finding | None:
    """Memory at 90% of what the process may use; 95% is danger."""
    used, limit = case.highest("memory_bytes"), case.highest("memory_limit_bytes")
    if used is None or not limit or used < WARN_MEMORY * limit:
        return None
    share = used / limit
    envs, capacity = case.facts.number("num_envs"), case.facts.number("replay_transitions")
    flags: tuple[str, ...] = () if envs is None or envs < 2 else (flag("num_envs", int(envs) // 2),)
    if capacity is not None:
        flags = (flag("replay_transitions", int(capacity * 0.75)),)
    return Finding(
        "memory-near-limit",
        DANGER if share >= DANGER_MEMORY else WARNING,
        0.9,
        f"{used / 2**30:.2f} GiB of {limit / 2**30:.2f} GiB are used ({share:.0%}).",
        "the next growth ends the process",
        "S3: good to 90%, warn above, danger from 95%",
        flags,
        {"memory_bytes": used, "memory_limit_bytes": limit},
    )


def _collect_share(case: RunHistory) -> float | None:
    collect, update = case.typical("collect_seconds", 0.1), case.typical("update_seconds", 0.1)
    if collect is None or update is None or collect + update <= 0:
        return None
    return collect / (collect + update)
