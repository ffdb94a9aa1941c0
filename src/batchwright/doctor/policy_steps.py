"""Findings about the size of policy updates: KL and clip fraction too high or too low, and the setting behind it."""

from __future__ import annotations

import math

import numpy as np

from batchwright.doctor.finding import (
    DANGER,
    LEVERS,
    MEASURED,
    NOTE,
    PPO_DETAILS,
    PPO_PAPER,
    WARNING,
    Finding,
    figure,
    flag,
)
from batchwright.doctor.reference_ranges import (
    advised_learning_rate,
    advised_rollout_steps,
    main_kl_driver,
    outside,
    tuned,
)
from batchwright.doctor.run_history import RunHistory

HIGH_KL, LOW_KL = 0.05, 5e-5
HIGH_CLIP_FRACTION, TINY_CLIP_FRACTION = 0.5, 1e-4
TYPICAL_KL = 0.01
CUT_BY_CLIP = 1000.0
"""Gradients this many times above `max_grad_norm` become so small by clipping that Adam's epsilon dominates them."""


def moved_too_far(history: RunHistory) -> float:
    """From 0 to 1: how clearly updates take the policy too far from the one that collected."""
    kl, clipped = history.while_learning("kl"), history.while_learning("clip_fraction")
    if len(kl):
        moved = _ramp(float(np.quantile(kl, 0.75)), HIGH_KL, 4 * HIGH_KL)
    else:  # less reliable than KL: tuned settings of HalfCheetah clip 60% of rows at 0.03 nats
        moved = _ramp(float(np.quantile(clipped, 0.75)), HIGH_CLIP_FRACTION, 0.9) if len(clipped) else 0.0
    return max(moved, 1.0 if _saturated_at_once(history) else 0.0)


def hardly_moves(history: RunHistory) -> bool:
    """Whether KL is near 0 although the learning rate has not been annealed."""
    kl = history.while_learning("kl")
    return len(kl) > 0 and float(np.quantile(kl, 0.75)) < LOW_KL


def _saturated_at_once(history: RunHistory) -> bool:
    """Whether a discrete policy became deterministic within the first tenth of the run, after one huge step."""
    return _first_leap(history) is not None


def _first_leap(history: RunHistory) -> int | None:
    """The record of the huge step after which a discrete policy was deterministic; None where there was none."""
    if history.facts.get("discrete") is False or history.has("action_clip_fraction"):
        return None
    entropy, kl = history.column("entropy"), history.column("kl")
    early = max(3, len(entropy) // 10)
    if len(entropy) < 3 or not np.isfinite(entropy[:early]).any() or not np.isfinite(kl[:early]).any():
        return None
    leap = int(np.nanargmax(kl[:early]))
    return leap if np.nanmin(entropy[:early]) < 0.02 and kl[leap] > HIGH_KL else None


def learning_rate_too_high(history: RunHistory) -> Finding | None:
    """KL is too high, and no other setting explains it better than the learning rate."""
    moved, above = moved_too_far(history), outside(history, "learning_rate")
    driver = main_kl_driver(history)
    if max(moved, 2 * above) < 0.25 or driver not in (None, "learning_rate"):
        return None
    rate = history.facts.number("learning_rate") or history.highest("learning_rate")
    kl = _upper(history, "kl")
    confidence = 0.95 if above > 0 else 0.6 * moved
    if "learning_rate" in history.facts.from_preset:
        confidence *= 0.6
    severity = WARNING if confidence >= 0.5 else NOTE
    lower = advised_learning_rate(history, None if rate is None else rate / 3)
    stop = "" if history.facts.get("algo") != "ppo" else " " + flag("kl_stop", 0.03)
    leap = _first_leap(history)
    if leap is None:
        evidence = f"KL is {figure(kl)} nats per iteration (about {TYPICAL_KL} is typical), the clip fraction is "
        evidence += figure(_upper(history, "clip_fraction"))
    else:
        kl = float(history.column("kl")[leap])
        evidence = f"KL was {figure(kl)} nats in iteration {history.iteration_at(leap)} (about {TYPICAL_KL} is typical)"
        evidence += ", and the policy has been nearly deterministic since"
    return Finding(
        "learning-rate-too-high",
        DANGER if above > 0.5 else severity,
        confidence,
        f"{evidence}; the learning rate is {figure(rate)}.",
        "the learning rate is too high for this task",
        f"{LEVERS}: learning_rate; {MEASURED}: learning rate x 100",
        (flag("learning_rate", lower), flag("learning_rate", lower) + stop),
        {"kl": kl, "clip_fraction": _upper(history, "clip_fraction"), "learning_rate": rate},
        began=None if leap is None else history.iteration_at(leap),
        hint=moved < 0.25,
    )


def too_many_epochs(history: RunHistory) -> Finding | None:
    """Many epochs over few transitions take the policy too far from the one that collected them."""
    epochs, rollout = history.facts.number("epochs"), history.facts.number("rollout_transitions")
    if epochs is None or epochs < 8 or "epochs" in history.facts.from_preset:
        return None
    moved = moved_too_far(history)
    small = rollout is not None and rollout < 512
    driver = main_kl_driver(history)
    if not (small and epochs >= 15) and (moved < 0.5 or epochs < 15):
        return None
    if driver in ("learning_rate", "clip_range", "minibatch_transitions"):
        return None
    kl = _upper(history, "kl")
    confidence = 0.9 if small and epochs >= 15 else 0.75 if epochs > 20 else 0.55
    return Finding(
        "too-many-epochs",
        WARNING,
        confidence,
        f"{figure(epochs)} epochs over rollouts of {figure(rollout)} transitions: KL is {figure(kl)} nats per "
        f"iteration, the clip fraction {figure(_upper(history, 'clip_fraction'))}.",
        "updates overfit a small rollout before the next one is collected",
        f"{LEVERS}: epochs; {MEASURED}: 20 epochs on a small rollout",
        (_larger_rollout(history), flag("epochs", 4)),
        {"epochs": epochs, "rollout_transitions": rollout, "kl": kl},
        hint=moved < 0.5,
    )


def clip_range_too_large(history: RunHistory) -> Finding | None:
    """A clip range so large that PPO's clipping never acts."""
    above, clip = outside(history, "clip_range"), history.facts.number("clip_range")
    if above <= 0 or history.facts.get("algo") != "ppo":
        return None
    kl, clipped = _upper(history, "kl"), _upper(history, "clip_fraction")
    confidence = 0.6 + 0.35 * max(moved_too_far(history), 1.0 if above > 1 else 0.0)
    return Finding(
        "clip-range-too-large",
        WARNING,
        confidence,
        f"with a clip range of {figure(clip)} the clip fraction is {figure(clipped)} and KL is {figure(kl)} nats per "
        "iteration.",
        "clipping never acts: nothing bounds the probability ratio within an iteration",
        f"{PPO_PAPER}: clip ranges of 0.1-0.3",
        (flag("clip_range", 0.2),),
        {"clip_range": clip, "clip_fraction": clipped, "kl": kl},
        hint=moved_too_far(history) < 0.25,
    )


def clip_range_too_small(history: RunHistory) -> Finding | None:
    """A clip range so small that almost every row is clipped although KL is low."""
    below, clip = outside(history, "clip_range"), history.facts.number("clip_range")
    if below >= 0 or clip is None or history.facts.get("algo") != "ppo":
        return None
    kl, clipped = _upper(history, "kl"), _upper(history, "clip_fraction")
    return Finding(
        "clip-range-too-small",
        WARNING,
        0.95 if (clipped or 0) > HIGH_CLIP_FRACTION else 0.7,
        f"with a clip range of {figure(clip)} the clip fraction is {figure(clipped)} at a KL of {figure(kl)} nats per "
        "iteration.",
        "transitions lose their gradient as soon as the policy changes at all",
        f"{PPO_PAPER}: clip ranges of 0.1-0.3",
        (flag("clip_range", 0.2),),
        {"clip_range": clip, "clip_fraction": clipped, "kl": kl},
        hint=(clipped or 0) <= HIGH_CLIP_FRACTION,
    )


def gradient_clip_too_tight(history: RunHistory) -> Finding | None:
    """Gradient clipping reduces gradients to almost nothing in every update."""
    norm, allowed = history.typical("gradient_norm"), history.facts.number("max_grad_norm")
    if norm is None or allowed is None or outside(history, "max_grad_norm") >= 0 or norm < CUT_BY_CLIP * allowed:
        return None
    confidence = 0.95 if hardly_moves(history) else 0.7
    return Finding(
        "gradient-clip-too-tight",
        WARNING,
        confidence,
        f"a typical gradient norm is {figure(norm)} and is clipped to {figure(allowed)}, "
        f"1/{figure(round(norm / allowed))} of it; KL is {figure(_upper(history, 'kl'))} nats per iteration.",
        "clipped gradients are so small that Adam's epsilon dominates them",
        f"{PPO_DETAILS}: global gradient clipping at 0.5",
        (flag("max_grad_norm", 0.5),),
        {"gradient_norm": norm, "max_grad_norm": allowed},
        hint=not hardly_moves(history),
    )


def learning_rate_too_low(history: RunHistory) -> Finding | None:
    """KL is near 0, or the learning rate is below its reference range, and no other setting explains it."""
    rate = history.facts.number("learning_rate") or history.highest("learning_rate")
    below = 0.0 if history.facts.get("init_from") else -outside(history, "learning_rate")  # fine-tuning is meant so
    if rate is None or not (hardly_moves(history) or below > 0):
        return None
    if (
        gradient_clip_too_tight(history)
        or clip_range_too_small(history)
        or history.facts.number("updates_per_iteration") == 1
    ):
        return None
    kl = _upper(history, "kl")
    confidence = 0.9 if below > 0 else 0.55
    raised = advised_learning_rate(history, min(3e-3, rate * _rate_factor(kl)))
    return Finding(
        "learning-rate-too-low",
        WARNING if below > 0 else NOTE,
        confidence,
        f"KL is {figure(kl)} nats per iteration (about {TYPICAL_KL} is typical); the learning rate is {figure(rate)}.",
        "updates are too small to learn within this run",
        f"{LEVERS}: learning_rate; {MEASURED}: learning rate / 100",
        (flag("learning_rate", raised),),
        {"kl": kl, "learning_rate": rate},
        hint=not hardly_moves(history),
    )


def kl_too_high(history: RunHistory) -> Finding | None:
    """The symptom alone: KL is too high, whatever the cause."""
    kl = _upper(history, "kl")
    if kl is None or kl < HIGH_KL:
        return None
    rate = history.facts.number("learning_rate")
    flags = [flag("kl_stop", 0.03)] if history.facts.get("algo") != "a2c" else []
    if rate is not None:
        lower = rate / max(2.0, math.sqrt(kl / TYPICAL_KL))
        flags.insert(0, flag("learning_rate", advised_learning_rate(history, lower)))
    return Finding(
        "kl-too-high",
        WARNING if kl > 4 * HIGH_KL else NOTE,
        0.5,
        f"KL between the collecting and the updated policy is {figure(kl)} nats per iteration; about {TYPICAL_KL} is "
        "typical.",
        "too much learning from one rollout: learning rate, epochs, clip range or minibatch",
        f"{PPO_PAPER}; {PPO_DETAILS}",
        tuple(flags),
        {"kl": kl},
        hint=True,
    )


def kl_near_zero(history: RunHistory) -> Finding | None:
    """The symptom alone: KL is near 0."""
    if not hardly_moves(history) or history.facts.number("updates_per_iteration") == 1:
        return None
    kl = _upper(history, "kl")
    rate = history.facts.number("learning_rate")
    raised = None if rate is None else advised_learning_rate(history, min(3e-3, rate * _rate_factor(kl)))
    return Finding(
        "kl-near-zero",
        NOTE,
        0.5,
        f"KL is {figure(kl)} nats per iteration: the policy hardly changes.",
        "too little learning from one rollout (learning rate, epochs, gradient clipping), or nothing left to learn",
        f"{LEVERS}: learning_rate, epochs, max_grad_norm",
        () if raised is None else (flag("learning_rate", raised),),
        {"kl": kl},
    )


def clip_fraction_high(history: RunHistory) -> Finding | None:
    """The symptom alone: at least half of the rows are clipped."""
    clipped = _upper(history, "clip_fraction")
    if clipped is None or clipped < HIGH_CLIP_FRACTION or history.facts.get("algo") != "ppo":
        return None
    return Finding(
        "clip-fraction-high",
        NOTE,
        0.5,
        f"the clip fraction is {figure(clipped)}; 0.05-0.3 is typical.",
        "the policy leaves the clip range in every iteration",
        PPO_PAPER,
        tuple(flag(name, 4) for name in ("epochs",) if (history.facts.number(name) or 0) > 4),
        {"clip_fraction": clipped},
    )


def _larger_rollout(history: RunHistory) -> str:
    """Flags for rollout, minibatch and epochs of the reference size."""
    size = tuned(history, "minibatch_transitions") or 64
    return " ".join(
        [
            flag("rollout_steps", advised_rollout_steps(history)),
            flag("minibatch_transitions", size),
            flag("epochs", tuned(history, "epochs") or 4),
        ]
    )


def _rate_factor(kl: float | None) -> float:
    """The factor on the learning rate that brings KL to its typical value; KL grows with the square of the step."""
    return 10.0 if not kl or kl < 0 else min(10.0, max(2.0, math.sqrt(TYPICAL_KL / kl)))


def _upper(history: RunHistory, name: str) -> float | None:
    """The upper quartile over the iterations with a substantial learning rate."""
    values = history.while_learning(name)
    return float(np.quantile(values, 0.75)) if len(values) else None


def _ramp(value: float, low: float, high: float) -> float:
    return float(np.clip((value - low) / (high - low), 0.0, 1.0))
