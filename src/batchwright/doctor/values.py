"""Values, discount and the scale of rewards."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import DANGER, GUIDE, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.outcome import stuck
from batchwright.doctor.reference_ranges import outside, tuned
from batchwright.doctor.run_history import RunHistory

MYOPIC_SHARE = 1 / 30
"""Horizon over episode length below which the far end of an episode cannot be seen; S2 asks for a quarter."""
LONG_SHARE = 20.0
SHORT_EPISODE = 8
LARGE_TARGETS, SMALL_TARGETS = 2e3, 2e-2
LOW_EXPLAINED = 0.05


def gamma_too_myopic(case: RunHistory) -> Finding | None:
    """A horizon of 1 / (1 - gamma) steps that is a small part of an episode."""
    gamma, steps = case.facts.number("gamma"), case.episode_steps
    if gamma is None or steps is None or steps < SHORT_EPISODE or gamma >= 1:
        return None
    horizon = 1 / (1 - gamma)
    share = horizon / steps
    if share >= MYOPIC_SHARE:
        return None
    better = tuned(case, "gamma") or round(min(0.999, max(0.99, 1 - 4 / steps)), 4)
    confidence = 0.9 if horizon <= 5 else 0.6
    return Finding(
        "gamma-too-myopic",
        WARNING if "gamma" not in case.facts.from_preset else NOTE,
        confidence,
        f"gamma {figure(gamma)} looks {figure(horizon)} steps ahead; episodes last up to {figure(steps)}.",
        "rewards that come later than the horizon do not count",
        f"{GUIDE}: too myopic: gamma = 1 - 1/(0.25 T .. T)",
        (flag("gamma", better),),
        {"gamma": gamma, "horizon_steps": horizon, "episode_steps": steps},
    )


def gamma_too_long(case: RunHistory) -> Finding | None:
    """A horizon far beyond the end of an episode: values sum up what never comes."""
    gamma, steps = case.facts.number("gamma"), case.episode_steps
    if gamma is None or steps is None:
        return None
    horizon = 1 / (1 - gamma) if gamma < 1 else np.inf
    if horizon < LONG_SHARE * steps:
        return None
    explained = case.typical("explained_variance", 0.3)
    fuzzy = explained is not None and explained < 0.5
    better = tuned(case, "gamma") or round(min(0.99, 1 - 1 / max(steps, 4.0)), 4)
    far = f"{figure(horizon)} steps" if np.isfinite(horizon) else "without end"
    return Finding(
        "gamma-too-long",
        WARNING if fuzzy or horizon > 5 * LONG_SHARE * steps else NOTE,
        0.9 if fuzzy else 0.7,
        f"gamma {figure(gamma)} looks ahead {far}; episodes last up to {figure(steps)} steps"
        + (f", values explain {figure(explained)} of their targets." if explained is not None else "."),
        "credit is spread over more steps than there are, values grow without bound and lag behind",
        f"{GUIDE}: credit too fuzzy: lower gamma; 1 - 1/T",
        (flag("gamma", better),),
        {"gamma": gamma, "horizon_steps": None if np.isinf(horizon) else horizon, "episode_steps": steps},
    )


def reward_scale(case: RunHistory) -> Finding | None:
    """Value targets far from 1 on the scale that values are learned on."""
    spread, size = case.typical("target_std"), case.typical("reward_abs_mean")
    if spread is None or case.facts.get("popart") or not size:
        return None
    normalised = bool(case.facts.get("normalize_rewards"))
    # At the end of a solved task all targets are alike: the first half tells the scale.
    spread = case.highest("target_std", 0.0, 0.5) if spread < SMALL_TARGETS else spread
    assert spread is not None
    too_large, too_small = spread > LARGE_TARGETS, spread < SMALL_TARGETS or _worth(case) < SMALL_TARGETS
    if normalised or not (too_large or too_small):
        return None
    loss, norm = case.typical("value_loss"), case.typical("gradient_norm")
    return Finding(
        "reward-scale",
        DANGER if too_large else WARNING,
        0.95,
        f"rewards are {figure(size)} on average and value targets spread by {figure(spread)}; near 1 is learned best. "
        f"The value loss is {figure(loss)}, the gradient norm {figure(norm)}.",
        "the value loss drowns the policy's gradient" if too_large else "values start as noise that outweighs them",
        f"{GUIDE}: reward normalisation",
        _scaling_flags(case),
        {"reward_abs_mean": size, "target_std": spread, "value_loss": loss, "gradient_norm": norm},
    )


def _scaling_flags(case: RunHistory) -> tuple[str, ...]:
    """What brings value targets near 1. Components have a scale each: one scale for their sum is refused with them."""
    norm = case.facts.get("component_norm")
    if norm is None:
        return flag("normalize_rewards", True), "--popart --no-normalize-rewards"
    return (flag("component_norm", "scale"),) if norm == "none" else ()


def _worth(case: RunHistory) -> float:
    """The most that a return has been worth within the horizon; infinite where no episode has ended."""
    returns, length = case.returns(), case.typical("episode_length")
    if not len(returns) or not length:
        return np.inf
    horizon = 1 / max(1e-6, 1 - (case.facts.number("gamma") or 0.99))
    return float(np.abs(returns).max()) * min(1.0, horizon / length)


def values_not_learned(case: RunHistory) -> Finding | None:
    """Values that explain nothing, with a weight that does not let them learn."""
    below = outside(case, "value_weight") < 0 or case.facts.number("value_rate_factor") == 0
    explained = case.typical("explained_variance", 0.2)
    if not below or explained is None or explained > 0.5 or not (case.facts.get("baseline") is not False):
        return None
    weight = case.facts.number("value_weight")
    return Finding(
        "values-not-learned",
        WARNING,
        0.95,
        f"values explain {figure(explained)} of the variance of their targets, at a value weight of {figure(weight)}.",
        "the critic is not trained: advantages are plain returns with noise",
        f"{GUIDE}: value-loss weight about 0.5",
        (flag("value_weight", 0.5),),
        {"explained_variance": explained, "value_weight": weight},
    )


def explained_variance_negative(case: RunHistory) -> Finding | None:
    """The symptom alone: values that are worse than a constant, late in the run.

    Where a task is solved all targets are alike, and nothing is left to explain: an alarm only where it is not.
    """
    late = case.column("explained_variance")
    late = late[len(late) // 3 :]
    late = late[np.isfinite(late)]
    if len(late) < 3 or float(np.median(late)) > -0.05:
        return None
    explained = float(np.median(late))
    factor = case.facts.number("value_rate_factor") or 1.0
    return Finding(
        "explained-variance-negative",
        WARNING if explained < -0.5 and stuck(case) is not None else NOTE,
        0.5,
        f"values explain {figure(explained)} of the variance of their targets: worse than a constant.",
        "the critic lags behind, or the scale of its targets moves",
        f"{GUIDE}: stronger baseline",
        (flag("value_rate_factor", 2 * factor), *_scaling_flags(case)[:1]),
        {"explained_variance": explained},
    )
