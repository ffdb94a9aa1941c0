"""Numbers that are no numbers, and a ratio that should be 1."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from batchwright.doctor.finding import DANGER, GUIDE, Finding, figure, flag
from batchwright.doctor.reference_ranges import outside, usual_learning_rate
from batchwright.doctor.run_history import RunHistory

FROM_ENVIRONMENT = re.compile(r"^(observation|reward)")
LARGEST_FIRST_RATIO_ERROR = 1e-2
LOSSES = ("loss", "policy_loss", "value_loss", "gradient_norm", "critic_loss")


def nan_from_environment(case: RunHistory) -> Finding | None:
    """Observations or rewards that are not finite: nothing the learner does can mend them."""
    seen = [event for event in case.events if event.get("kind") == "non-finite"]
    bad = [event for event in seen if FROM_ENVIRONMENT.match(str(event.get("message", "")))]
    if not bad:
        return None
    first = bad[0]
    what = str(first["message"]).split(";")[0]
    return Finding(
        "nan-from-environment",
        DANGER,
        1.0,
        f"{what}, first in iteration {first['iteration']}; {len(bad)} iterations in all were undone.",
        "the environment returns numbers that are not finite; the learner's settings have no part in it",
        f"{GUIDE}: divergence or NaN; TRAPS: where it began",
        evidence={"first_iteration": first["iteration"], "iterations": len(bad)},
        began=int(first["iteration"]),
    )


def divergence(case: RunHistory) -> Finding | None:
    """Parameters or losses that became NaN or infinite in the update, and where that began."""
    bad = [
        event
        for event in case.events
        if event.get("kind") == "non-finite" and not FROM_ENVIRONMENT.match(str(event.get("message", "")))
    ]
    lost = _lost_losses(case, {int(e["iteration"]) for e in case.events if e.get("kind") == "non-finite"})
    if not bad and lost is None:
        return None
    began = int(bad[0]["iteration"]) if bad else lost
    rate, norm = case.facts.number("learning_rate"), case.facts.number("max_grad_norm")
    lower = usual_learning_rate(case) if outside(case, "learning_rate") > 0 else (rate or 3e-4) / 10
    clip = flag("max_grad_norm", min(0.5, (norm or 0.5)) if (norm or 0) > 0.5 else (norm or 0.5) / 2)
    grew = case.highest("gradient_norm")
    return Finding(
        "divergence",
        DANGER,
        0.9,
        f"losses or parameters stopped being finite in iteration {began}"
        + (f"; the gradient norm had reached {figure(grew)}." if grew is not None else "."),
        "updates that are too large: learning rate, gradient clip, or the scale of rewards and observations",
        f"{GUIDE}: divergence or NaN: lower the learning rate, clip harder, check scales",
        (f"{flag('learning_rate', lower)} {clip}", "--normalize-obs --normalize-rewards"),
        {"began": began, "gradient_norm": grew, "learning_rate": rate},
        began,
    )


def _lost_losses(case: RunHistory, told: set[int]) -> int | None:
    """The first iteration whose loss or gradient norm was not finite, those that events tell of left out.

    Events count the iterations that are done, records count from 0.
    """
    for index, record in enumerate(case.records):
        if case.iteration_at(index) + 1 in told:
            continue
        named = record.get("nonfinite")
        if (isinstance(named, list) and set(named) & set(LOSSES)) or _is_lost(record):
            return case.iteration_at(index)
    return None


def _is_lost(record: Mapping[str, Any]) -> bool:
    """Whether a record that was not written yet, or was by another trainer, has a loss that is no number."""
    values = (record.get("loss"), record.get("policy_loss"), record.get("value_loss"), record.get("critic_loss"))
    return any(type(value) is float and not math.isfinite(value) for value in values)


def first_ratio_not_one(case: RunHistory) -> Finding | None:
    """The ratio of the first minibatch must be 1: nothing has been updated yet."""
    errors = case.column("first_ratio_error")
    bad = np.flatnonzero(errors > LARGEST_FIRST_RATIO_ERROR)
    if len(bad) == 0:
        return None
    worst = float(np.nanmax(errors))
    return Finding(
        "first-ratio-not-one",
        DANGER,
        0.95,
        f"before any update the ratio was off 1 by up to {figure(worst)}, in {len(bad)} of {len(errors)} iterations.",
        "what is stored is not what was done: a normaliser that moves within a rollout, dropout, another dtype, or "
        "clipped actions in the buffer",
        "Huang et al., 2022 (37 details of PPO)",
        evidence={"largest_error": worst, "iterations": len(bad)},
        began=case.iteration_at(int(bad[0])),
    )
