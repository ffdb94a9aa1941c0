"""Findings of training on recorded data: the loader, the device, the loss, the ladder."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import DANGER, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.run_history import RunHistory

DATASET_PAGE = "docs/training/lerobot.md"
STARVED_SHARE = 0.3
"""Of an update's time that is spent waiting for the batch."""
LEAST_RECORDS = 10
WARN_MEMORY, DANGER_MEMORY = 0.90, 0.95


def loss_not_finite(history: RunHistory) -> Finding | None:
    """Updates that were left out because the loss or the gradient was NaN or infinite."""
    bad = [event for event in history.events if event.get("kind") in ("non-finite", "diverged")]
    if not bad:
        return None
    rate = history.facts.number("learning_rate") or history.highest("learning_rate")
    return Finding(
        "loss-not-finite",
        DANGER,
        0.9,
        f"{len(bad)} times the loss or the gradient was not finite; first: {bad[0]['message']}.",
        "a learning rate that is too high, or frames and actions in the data that are not finite",
        f"{DATASET_PAGE}#what-the-doctor-says",
        () if not rate else (flag("learning_rate", rate / 10),),
        {"events": len(bad)},
        int(bad[0]["iteration"]),
    )


def loader_starved(history: RunHistory) -> Finding | None:
    """The updates wait for data."""
    waiting, updating = history.typical("loader_seconds", 0.1), history.typical("update_seconds", 0.1)
    if waiting is None or updating is None or waiting + updating <= 0 or len(history.records) < 3:
        return None
    share = waiting / (waiting + updating)
    if share < STARVED_SHARE:
        return None
    workers = history.facts.number("workers") or 0
    return Finding(
        "loader-starved",
        WARNING,
        0.9,
        f"{share:.0%} of the time is spent waiting for the loader, with {figure(workers)} workers.",
        "the loader decodes fewer samples per second than the updates take",
        f"{DATASET_PAGE}#the-loader",
        ("batchwright lerobot probe --dataset DIR", flag("workers", int(max(1, 2 * workers)))),
        {"loader_share": share, "workers": workers},
    )


def device_memory_near_limit(history: RunHistory) -> Finding | None:
    """The GPU's memory is nearly full."""
    used, limit = history.highest("accelerator_memory_bytes"), history.highest("accelerator_memory_limit_bytes")
    if used is None or not limit or used < WARN_MEMORY * limit:
        return None
    samples = history.facts.number("samples_per_step") or 1
    return Finding(
        "device-memory-near-limit",
        DANGER if used >= DANGER_MEMORY * limit else WARNING,
        0.9,
        f"{used / 2**30:.2f} GiB of {limit / 2**30:.2f} GiB of GPU memory are in use ({used / limit:.0%}).",
        "one longer batch or another program on the GPU makes the run go down the ladder",
        "docs/planning/dataset.md#memory",
        (flag("samples_per_step", max(1, int(0.75 * samples))), "--gradient-checkpointing"),
        {"used_bytes": used, "limit_bytes": limit},
    )


def rung_taken(history: RunHistory) -> Finding | None:
    """Memory ran out, and the run went down the ladder."""
    rungs = [event for event in history.events if event.get("kind") == "rung"]
    if not rungs:
        return None
    last = rungs[-1]
    samples = last.get("samples_per_step")
    flags = [f"--samples-per-step {samples}"] if isinstance(samples, int) else []
    flags += ["--gradient-checkpointing"] if last.get("gradient_checkpointing") is True else []
    flags += ["--precision bf16"] if last.get("precision") == "bf16" else []
    return Finding(
        "rung-taken",
        NOTE,
        1.0,
        f"memory ran out {len(rungs)} times; last: {last['message']}.",
        "the planned micro-batch needs more memory than there is; the samples per update are kept",
        f"{DATASET_PAGE}#out-of-memory",
        (" ".join(flags),) if flags else (),
        {"rungs": len(rungs)},
        int(rungs[0]["iteration"]),
    )


def loss_not_falling(history: RunHistory) -> Finding | None:
    """The loss of the last quarter is not below that of the first."""
    loss = history.column("loss")
    loss = loss[np.isfinite(loss)]
    if len(loss) < LEAST_RECORDS or history.share_done < 0.2:
        return None
    quarter = max(2, len(loss) // 4)
    first, last = float(np.median(loss[:quarter])), float(np.median(loss[-quarter:]))
    if last < first - max(0.02 * abs(first), float(np.std(loss[-quarter:])) * 0.1):
        return None
    rate = history.facts.number("learning_rate") or history.highest("learning_rate")
    return Finding(
        "loss-not-falling",
        WARNING,
        0.6,
        f"the loss was {figure(first)} in the first quarter of the record and is {figure(last)} in the last.",
        "a learning rate that is too low or too high, or data whose actions do not follow from the observations",
        f"{DATASET_PAGE}#what-the-doctor-says",
        () if not rate else (flag("learning_rate", rate * 3), flag("learning_rate", rate / 3)),
        {"first": first, "last": last},
    )


def gradient_norm_rising(history: RunHistory) -> Finding | None:
    """The gradient norm has become many times what it was."""
    norms = history.column("gradient_norm")
    norms = norms[np.isfinite(norms)]
    if len(norms) < LEAST_RECORDS:
        return None
    quarter = max(2, len(norms) // 4)
    first, last = float(np.median(norms[:quarter])), float(np.median(norms[-quarter:]))
    if first <= 0 or last < 5 * first:
        return None
    rate = history.facts.number("learning_rate") or history.highest("learning_rate")
    return Finding(
        "gradient-norm-rising",
        WARNING,
        0.6,
        f"the gradient norm was {figure(first)} at first and is {figure(last)} now.",
        "updates that are too large: training is about to diverge",
        f"{DATASET_PAGE}#what-the-doctor-says",
        () if not rate else (flag("learning_rate", rate / 3),),
        {"first": first, "last": last},
    )
