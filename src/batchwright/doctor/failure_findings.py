"""Findings about broken numbers: NaN and infinity, and a first probability ratio other than 1."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from batchwright.doctor.finding import DANGER, LEVERS, MEASURED, PPO_DETAILS, Finding, figure, flag
from batchwright.doctor.reference_ranges import advised_learning_rate
from batchwright.doctor.run_history import RunHistory
from batchwright.planning.quantity import counted

FROM_ENVIRONMENT = re.compile(r"^(observation|reward)")
LARGEST_FIRST_RATIO_ERROR = 1e-2
LOSSES = ("loss", "policy_loss", "value_loss", "gradient_norm", "critic_loss")


def nan_from_environment(history: RunHistory) -> Finding | None:
    """Observations or rewards that are NaN or infinite; no training setting repairs them."""
    bad = [event for event in _nonfinite_events(history) if _is_from_environment(event)]
    if not bad:
        return None
    first = bad[0]
    what = str(first["message"]).split(";")[0]
    return Finding(
        "nan-from-environment",
        DANGER,
        1.0,
        f"{what}, first in iteration {first['iteration']}; updates of {counted(len(bad), 'iteration')} were undone.",
        "the environment returns NaN or infinite numbers; no training setting causes or repairs this",
        f"{MEASURED}: NaN rewards, infinite observations",
        evidence={"first_iteration": first["iteration"], "iterations": len(bad)},
        began=int(first["iteration"]),
    )


def divergence(history: RunHistory) -> Finding | None:
    """Parameters or losses that became NaN or infinite in an update, and the iteration where it began."""
    events = _nonfinite_events(history)
    bad = [event for event in events if not _is_from_environment(event)]
    first_bad_loss = _first_bad_loss(history, {int(event["iteration"]) for event in events})
    if not bad and first_bad_loss is None:
        return None
    began = int(bad[0]["iteration"]) if bad else first_bad_loss
    rate, norm = history.facts.number("learning_rate"), history.facts.number("max_grad_norm")
    lower = advised_learning_rate(history, (rate or 3e-4) / 10)
    clip = flag("max_grad_norm", min(0.5, (norm or 0.5)) if (norm or 0) > 0.5 else (norm or 0.5) / 2)
    highest_norm = history.highest("gradient_norm")
    return Finding(
        "divergence",
        DANGER,
        0.9,
        f"losses or parameters became NaN or infinite in iteration {began}"
        + (f"; the highest gradient norm is {figure(highest_norm)}." if highest_norm is not None else "."),
        "updates that are too large: learning rate, gradient clipping, or the scale of rewards and observations",
        f"{LEVERS}: learning_rate, max_grad_norm",
        (f"{flag('learning_rate', lower)} {clip}", "--normalize-obs --normalize-rewards"),
        {"began": began, "gradient_norm": highest_norm, "learning_rate": rate},
        began,
    )


def _nonfinite_events(history: RunHistory) -> list[Mapping[str, Any]]:
    return [event for event in history.events if event.get("kind") == "non-finite"]


def _is_from_environment(event: Mapping[str, Any]) -> bool:
    return FROM_ENVIRONMENT.match(str(event.get("message", ""))) is not None


def _first_bad_loss(history: RunHistory, reported: set[int]) -> int | None:
    """The first iteration with a NaN or infinite loss or gradient norm; iterations in `reported` are skipped.

    `reported` holds the iterations of events, which count from 1; records count from 0.
    """
    for index, record in enumerate(history.records):
        if history.iteration_at(index) + 1 in reported:
            continue
        named = record.get("nonfinite")
        if (isinstance(named, list) and set(named) & set(LOSSES)) or _has_bad_loss(record):
            return history.iteration_at(index)
    return None


def _has_bad_loss(record: Mapping[str, Any]) -> bool:
    """Whether a loss is NaN or infinite in a record that was not read from `metrics.jsonl`, such as a foreign log."""
    values = (record.get("loss"), record.get("policy_loss"), record.get("value_loss"), record.get("critic_loss"))
    return any(type(value) is float and not math.isfinite(value) for value in values)


def first_ratio_not_one(history: RunHistory) -> Finding | None:
    """A probability ratio other than 1 in the first minibatch, before any update."""
    errors = history.column("first_ratio_error")
    bad = np.flatnonzero(errors > LARGEST_FIRST_RATIO_ERROR)
    if len(bad) == 0:
        return None
    worst = float(np.nanmax(errors))
    return Finding(
        "first-ratio-not-one",
        DANGER,
        0.95,
        f"before the first update the probability ratio differs from 1 by up to {figure(worst)}, in {len(bad)} of "
        f"{len(errors)} iterations.",
        "stored log-probs or actions differ from those of the acting policy: a normaliser that changes within a "
        "rollout, dropout, another dtype, or clipped actions in the buffer",
        PPO_DETAILS,
        evidence={"largest_error": worst, "iterations": len(bad)},
        began=history.iteration_at(int(bad[0])),
    )
