"""How far the policy moves in one iteration: too far, hardly at all, and which number is to blame."""

from __future__ import annotations

import math

import numpy as np

from batchwright.doctor.finding import DANGER, GUIDE, NOTE, PPO_PAPER, WARNING, Finding, figure, flag
from batchwright.doctor.reference_ranges import (
    advised_rollout_steps,
    most_blamed_mover,
    outside,
    tuned,
    usual_learning_rate,
)
from batchwright.doctor.run_history import RunHistory

HIGH_KL, LOW_KL = 0.05, 5e-5
HIGH_CLIP_FRACTION, TINY_CLIP_FRACTION = 0.5, 1e-4
AIMED_KL = 0.01
CUT_BY_CLIP = 1000.0
"""Gradients this many times the clip norm are cut to almost nothing, and Adam's epsilon takes the rest."""


def moved_too_far(case: RunHistory) -> float:
    """From 0 to 1: how clearly the policy leaves the one that collected."""
    kl, clipped = case.while_learning("kl"), case.while_learning("clip_fraction")
    if len(kl):
        moved = _ramp(float(np.quantile(kl, 0.75)), HIGH_KL, 4 * HIGH_KL)
    else:  # rows clipped tell less: tuned settings of HalfCheetah clip 60% of them at 0.03 nats
        moved = _ramp(float(np.quantile(clipped, 0.75)), HIGH_CLIP_FRACTION, 0.9) if len(clipped) else 0.0
    return max(moved, 1.0 if _saturated_at_once(case) else 0.0)


def hardly_moves(case: RunHistory) -> bool:
    """Whether the policy stays where it is although the learning rate has not been annealed."""
    kl = case.while_learning("kl")
    return len(kl) > 0 and float(np.quantile(kl, 0.75)) < LOW_KL


def _saturated_at_once(case: RunHistory) -> bool:
    """Choices became certain within the first tenth: one huge step, after which KL and entropy are 0."""
    if case.facts.get("discrete") is False or case.has("action_clip_fraction"):
        return False
    entropy, kl = case.column("entropy"), case.column("kl")
    if len(entropy) < 3 or not np.isfinite(entropy).any():
        return False
    early = entropy[: max(3, len(entropy) // 10)]
    return bool(np.nanmin(early) < 0.02 and np.nanmax(kl[: len(early)]) > HIGH_KL)


def learning_rate_too_high(case: RunHistory) -> Finding | None:
    """The policy moves too far in each iteration, and no other number explains it better."""
    moved, above = moved_too_far(case), outside(case, "learning_rate")
    blamed = most_blamed_mover(case)
    if max(moved, 2 * above) < 0.25 or blamed not in (None, "learning_rate"):
        return None
    rate = case.facts.number("learning_rate") or case.highest("learning_rate")
    kl = _upper(case, "kl")
    confidence = 0.95 if above > 0 else 0.6 * moved
    if "learning_rate" in case.facts.from_preset:
        confidence *= 0.6
    severity = WARNING if confidence >= 0.5 else NOTE
    lower = usual_learning_rate(case) if above > 0 or rate is None else rate / 3
    stop = "" if case.facts.get("algo") != "ppo" else " " + flag("kl_stop", 0.03)
    return Finding(
        "learning-rate-too-high",
        DANGER if above > 0.5 else severity,
        confidence,
        f"the policy moves by {figure(kl)} nats of KL per iteration (about {AIMED_KL} is usual), "
        f"{figure(_upper(case, 'clip_fraction'))} of rows are clipped; the learning rate is {figure(rate)}.",
        "a learning rate that is too high for this task",
        f"{GUIDE}: divergence, wild swings; {PPO_PAPER}",
        (flag("learning_rate", lower), flag("learning_rate", lower) + stop),
        {"kl": kl, "clip_fraction": _upper(case, "clip_fraction"), "learning_rate": rate},
    )


def too_many_epochs(case: RunHistory) -> Finding | None:
    """Many passes over few transitions take the policy too far from the one that collected them."""
    epochs, rollout = case.facts.number("epochs"), case.facts.number("rollout_transitions")
    if epochs is None or epochs < 8 or "epochs" in case.facts.from_preset:
        return None
    moved = moved_too_far(case)
    small = rollout is not None and rollout < 512
    blamed = most_blamed_mover(case)
    if not (small and epochs >= 15) and (moved < 0.5 or epochs < 15):
        return None
    if blamed in ("learning_rate", "clip_range", "minibatch_transitions"):
        return None
    confidence = 0.9 if small and epochs >= 15 else 0.75 if epochs > 20 else 0.55
    return Finding(
        "too-many-epochs",
        WARNING,
        confidence,
        f"{figure(epochs)} epochs over rollouts of {figure(rollout)} transitions: {figure(_upper(case, 'kl'))} nats of "
        f"KL per iteration, {figure(_upper(case, 'clip_fraction'))} of rows clipped.",
        "a small rollout is learned by heart before the next one is collected",
        f"{GUIDE}: overfitting a batch: fewer epochs, a larger batch",
        (_larger_rollout(case), flag("epochs", 4)),
        {"epochs": epochs, "rollout_transitions": rollout, "kl": _upper(case, "kl")},
    )


def clip_range_too_large(case: RunHistory) -> Finding | None:
    """A range that clips nothing: PPO without its guard."""
    above, clip = outside(case, "clip_range"), case.facts.number("clip_range")
    if above <= 0 or case.facts.get("algo") != "ppo":
        return None
    kl, clipped = _upper(case, "kl"), _upper(case, "clip_fraction")
    confidence = 0.6 + 0.35 * max(moved_too_far(case), 1.0 if above > 1 else 0.0)
    return Finding(
        "clip-range-too-large",
        WARNING,
        confidence,
        f"a clip range of {figure(clip)} clips {figure(clipped)} of rows while the policy moves by {figure(kl)} nats "
        "per iteration.",
        "the ratio is free to go anywhere within a rollout",
        f"{PPO_PAPER}: 0.1-0.3",
        (flag("clip_range", 0.2),),
        {"clip_range": clip, "clip_fraction": clipped, "kl": kl},
    )


def clip_range_too_small(case: RunHistory) -> Finding | None:
    """Almost every row is clipped although the policy has hardly moved."""
    below, clip = outside(case, "clip_range"), case.facts.number("clip_range")
    if below >= 0 or clip is None or case.facts.get("algo") != "ppo":
        return None
    kl, clipped = _upper(case, "kl"), _upper(case, "clip_fraction")
    return Finding(
        "clip-range-too-small",
        WARNING,
        0.95 if (clipped or 0) > HIGH_CLIP_FRACTION else 0.7,
        f"a clip range of {figure(clip)} clips {figure(clipped)} of rows at {figure(kl)} nats of KL per iteration.",
        "rows lose their gradient as soon as the policy moves at all",
        f"{PPO_PAPER}: 0.1-0.3",
        (flag("clip_range", 0.2),),
        {"clip_range": clip, "clip_fraction": clipped, "kl": kl},
    )


def gradient_clip_too_tight(case: RunHistory) -> Finding | None:
    """Gradients are cut to almost nothing in every update."""
    norm, allowed = case.typical("gradient_norm"), case.facts.number("max_grad_norm")
    if norm is None or allowed is None or outside(case, "max_grad_norm") >= 0 or norm < CUT_BY_CLIP * allowed:
        return None
    confidence = 0.95 if hardly_moves(case) else 0.7
    return Finding(
        "gradient-clip-too-tight",
        WARNING,
        confidence,
        f"gradients have a norm of {figure(norm)} and are cut to {figure(allowed)}, 1/{figure(round(norm / allowed))} "
        f"of it, in a usual update; the policy moves by {figure(_upper(case, 'kl'))} nats.",
        "the clip leaves steps that Adam's epsilon outweighs",
        f"{GUIDE}: global norm 0.5, 1 or 2",
        (flag("max_grad_norm", 0.5),),
        {"gradient_norm": norm, "max_grad_norm": allowed},
    )


def learning_rate_too_low(case: RunHistory) -> Finding | None:
    """The policy hardly moves, nothing else holds it, and the return does not rise."""
    rate = case.facts.number("learning_rate") or case.highest("learning_rate")
    below = -outside(case, "learning_rate")
    if rate is None or not (hardly_moves(case) or below > 0):
        return None
    if gradient_clip_too_tight(case) or clip_range_too_small(case) or case.facts.number("updates_per_iteration") == 1:
        return None
    kl = _upper(case, "kl")
    confidence = 0.9 if below > 0 else 0.55
    raised = usual_learning_rate(case) if below > 0 else min(3e-3, rate * _factor_to_aim(kl))
    return Finding(
        "learning-rate-too-low",
        WARNING if below > 0 else NOTE,
        confidence,
        f"the policy moves by {figure(kl)} nats of KL per iteration (about {AIMED_KL} is usual); the learning rate is "
        f"{figure(rate)}.",
        "steps that are too small to learn within this run",
        f"{GUIDE}: stuck: raise the learning rate a notch",
        (flag("learning_rate", raised),),
        {"kl": kl, "learning_rate": rate},
    )


def kl_too_high(case: RunHistory) -> Finding | None:
    """The symptom alone: how far the policy moves, whatever drives it."""
    kl = _upper(case, "kl")
    if kl is None or kl < HIGH_KL:
        return None
    rate = case.facts.number("learning_rate")
    flags = [flag("kl_stop", 0.03)] if case.facts.get("algo") != "a2c" else []
    if rate is not None:
        flags.insert(0, flag("learning_rate", rate / max(2.0, math.sqrt(kl / AIMED_KL))))
    return Finding(
        "kl-too-high",
        WARNING if kl > 4 * HIGH_KL else NOTE,
        0.5,
        f"{figure(kl)} nats of KL between the policy that collected and the one updated; about {AIMED_KL} is usual.",
        "too much learning from one rollout: learning rate, epochs, clip range or minibatch",
        f"{PPO_PAPER}; Huang et al., 2022",
        tuple(flags),
        {"kl": kl},
    )


def kl_near_zero(case: RunHistory) -> Finding | None:
    """The symptom alone: a policy that does not move."""
    if not hardly_moves(case) or case.facts.number("updates_per_iteration") == 1:
        return None
    kl = _upper(case, "kl")
    rate = case.facts.number("learning_rate")
    return Finding(
        "kl-near-zero",
        NOTE,
        0.5,
        f"{figure(kl)} nats of KL per iteration: the policy hardly moves.",
        "too little learning from one rollout (learning rate, epochs, gradient clip), or nothing left to learn",
        f"{GUIDE}: stuck",
        () if rate is None else (flag("learning_rate", min(3e-3, rate * _factor_to_aim(kl))),),
        {"kl": kl},
    )


def clip_fraction_out_of_band(case: RunHistory) -> Finding | None:
    """The symptom alone: most rows clipped."""
    clipped = _upper(case, "clip_fraction")
    if clipped is None or clipped < HIGH_CLIP_FRACTION or case.facts.get("algo") != "ppo":
        return None
    return Finding(
        "clip-fraction-high",
        NOTE,
        0.5,
        f"{figure(clipped)} of rows are clipped; 0.05-0.3 is usual.",
        "the policy moves out of the clip range in every rollout",
        PPO_PAPER,
        tuple(flag(name, 4) for name in ("epochs",) if (case.facts.number(name) or 0) > 4),
        {"clip_fraction": clipped},
    )


def _larger_rollout(case: RunHistory) -> str:
    """Flags for a rollout of the usual size, cut and reused as usual."""
    size = tuned(case, "minibatch_transitions") or 64
    return " ".join(
        [
            flag("rollout_steps", advised_rollout_steps(case)),
            flag("minibatch_transitions", size),
            flag("epochs", tuned(case, "epochs") or 4),
        ]
    )


def _factor_to_aim(kl: float | None) -> float:
    """KL grows with the square of the step: by how much the rate may grow to reach the usual one."""
    return 10.0 if not kl or kl < 0 else min(10.0, max(2.0, math.sqrt(AIMED_KL / kl)))


def _upper(case: RunHistory, name: str) -> float | None:
    """The upper quartile while there was a learning rate: what a usual bad iteration looks like."""
    values = case.while_learning(name)
    return float(np.quantile(values, 0.75)) if len(values) else None


def _ramp(value: float, low: float, high: float) -> float:
    return float(np.clip((value - low) / (high - low), 0.0, 1.0))
