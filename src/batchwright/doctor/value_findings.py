"""Findings about the critic, the discount and the scale of rewards."""

from __future__ import annotations

import math

import numpy as np

from batchwright.doctor.finding import (
    DANGER,
    HORIZON,
    MEASURED,
    NOTE,
    PPO_DETAILS,
    WARNING,
    Finding,
    figure,
    flag,
)
from batchwright.doctor.outcome_findings import stuck
from batchwright.doctor.policy_steps import hardly_moves
from batchwright.doctor.reference_ranges import outside, tuned
from batchwright.doctor.run_history import RunHistory

MYOPIC_SHARE = 1 / 30
"""Horizon over episode length below which late rewards do not count; the planner offers at least a quarter."""
LONG_SHARE = 20.0
SHORT_EPISODE = 8
SB3_LOGGER = "https://stable-baselines3.readthedocs.io/en/master/common/logger.html: explained_variance"
LARGE_TARGETS, SMALL_TARGETS = 2e3, 2e-3
"""Alarms by themselves."""
ODD_LARGE, ODD_SMALL = 60.0, 0.3
"""Hints: causes of harm where the record shows some."""
MASKED = 1.0
"""Decades that it counts for where the policy hardly moves: the value loss takes the whole clipped gradient."""


def gamma_too_myopic(history: RunHistory) -> Finding | None:
    """A horizon of 1 / (1 - gamma) steps that covers only a small part of an episode."""
    gamma, steps = history.facts.number("gamma"), history.episode_steps
    if gamma is None or steps is None or steps < SHORT_EPISODE or gamma >= 1:
        return None
    horizon = 1 / (1 - gamma)
    share = horizon / steps
    if share >= MYOPIC_SHARE:
        return None
    better = tuned(history, "gamma") or round(min(0.999, max(0.99, 1 - 4 / steps)), 4)
    confidence = 0.9 if horizon <= 5 else 0.6
    return Finding(
        "gamma-too-myopic",
        WARNING if "gamma" not in history.facts.from_preset else NOTE,
        confidence,
        f"gamma {figure(gamma)} has a horizon of {figure(horizon)} steps; episodes last up to {figure(steps)}.",
        "rewards beyond the horizon hardly count",
        f"{HORIZON}: gamma from 1 - 1/(0.25 T) to 1 - 1/T",
        (flag("gamma", better),),
        {"gamma": gamma, "horizon_steps": horizon, "episode_steps": steps},
        hint=True,
    )


def gamma_too_long(history: RunHistory) -> Finding | None:
    """A horizon far longer than an episode."""
    gamma, steps = history.facts.number("gamma"), history.episode_steps
    if gamma is None or steps is None:
        return None
    horizon = 1 / (1 - gamma) if gamma < 1 else np.inf
    if horizon < LONG_SHARE * steps:
        return None
    explained = history.typical("explained_variance", 0.3)
    poor_values = explained is not None and explained < 0.5
    better = tuned(history, "gamma") or round(min(0.99, 1 - 1 / max(steps, 4.0)), 4)
    length = f"a horizon of {figure(horizon)} steps" if np.isfinite(horizon) else "an infinite horizon"
    return Finding(
        "gamma-too-long",
        WARNING if poor_values or horizon > 5 * LONG_SHARE * steps else NOTE,
        0.9 if poor_values else 0.7,
        f"gamma {figure(gamma)} has {length}; episodes last up to {figure(steps)} steps"
        + (f", and the explained variance is {figure(explained)}." if explained is not None else "."),
        "credit is spread over more steps than an episode has; values become large and are learned slowly",
        f"{HORIZON}: gamma up to 1 - 1/T",
        (flag("gamma", better),),
        {"gamma": gamma, "horizon_steps": None if np.isinf(horizon) else horizon, "episode_steps": steps},
        hint=True,
    )


def reward_scale(history: RunHistory) -> Finding | None:
    """Value targets whose standard deviation is far from 1; components have one scale each."""
    spread, size = history.typical("target_std"), history.typical("reward_abs_mean")
    own_scales = history.facts.get("component_weights") is not None and history.facts.get("component_norm") != "none"
    if spread is None or history.facts.get("popart") or own_scales or not size:
        return None
    normalised = bool(history.facts.get("normalize_rewards"))
    # Once a task is solved, targets hardly vary: take the scale from the first half.
    spread = history.highest("target_std", 0.0, 0.5) if spread < ODD_SMALL else spread
    assert spread is not None
    spread = max(spread, 1e-9, _promised_spread(history, size))
    too_large = spread > ODD_LARGE
    if normalised or ODD_SMALL < spread < ODD_LARGE:
        return None
    clear = spread > LARGE_TARGETS or spread < SMALL_TARGETS or _largest_discounted_return(history) < SMALL_TARGETS
    beyond = math.log10(spread / ODD_LARGE if too_large else ODD_SMALL / spread)
    beyond += MASKED if too_large and hardly_moves(history) else 0.0
    loss, norm = history.typical("value_loss"), history.typical("gradient_norm")
    return Finding(
        "reward-scale",
        DANGER if clear and too_large else WARNING,
        0.95 if clear else min(0.9, 0.55 + 0.2 * beyond),
        f"the mean absolute reward is {figure(size)} and the standard deviation of value targets {figure(spread)}; "
        f"near 1 is learned best. The value loss is {figure(loss)}, the gradient norm {figure(norm)}.",
        "the value loss outweighs the policy gradient"
        if too_large
        else "the critic's initial noise outweighs its targets",
        f"{PPO_DETAILS}: reward scaling; {MEASURED}: rewards x 1e4 and x 1e-4",
        _scaling_flags(history),
        {"reward_abs_mean": size, "target_std": spread, "value_loss": loss, "gradient_norm": norm},
        hint=not clear,
        seen=True,
    )


def _promised_spread(history: RunHistory, reward_size: float) -> float:
    """The spread of targets that rewards of this size lead to once episodes are as long as they can be.

    An eighth of what the horizon adds up to, as in tasks of ours that are learned well; 0 where it is not large.
    """
    gamma, steps = history.facts.number("gamma"), history.episode_steps
    if gamma is None or steps is None:
        return 0.0
    promised = reward_size * min(steps, 1 / max(1 - gamma, 1e-4)) / 8
    return promised if promised > ODD_LARGE else 0.0


def _scaling_flags(history: RunHistory) -> tuple[str, ...]:
    """Flags that bring value targets near 1; runs with reward components refuse a normaliser of their sum."""
    if history.facts.get("component_norm") is None:
        return flag("normalize_rewards", True), "--popart --no-normalize-rewards"
    return ("--component-balance --component-norm scale",)


def _largest_discounted_return(history: RunHistory) -> float:
    """The largest return within the horizon of gamma; infinite where no episode has ended."""
    returns, length = history.returns(), history.typical("episode_length")
    if not len(returns) or not length:
        return np.inf
    horizon = 1 / max(1e-6, 1 - (history.facts.number("gamma") or 0.99))
    return float(np.abs(returns).max()) * min(1.0, horizon / length)


def values_not_learned(history: RunHistory) -> Finding | None:
    """A low explained variance with a value weight that is too small to train the critic."""
    below = outside(history, "value_weight") < 0 or history.facts.number("value_rate_factor") == 0
    explained = history.typical("explained_variance", 0.2)
    if not below or explained is None or explained > 0.5 or not (history.facts.get("baseline") is not False):
        return None
    weight = history.facts.number("value_weight")
    return Finding(
        "values-not-learned",
        WARNING,
        0.95,
        f"the explained variance is {figure(explained)} at a value weight of {figure(weight)}.",
        "the critic is not trained, so advantages are plain returns plus noise",
        f"{PPO_DETAILS}: value coefficient 0.5; {MEASURED}: value weight 0",
        (flag("value_weight", 0.5),),
        {"explained_variance": explained, "value_weight": weight},
        hint=True,
    )


def explained_variance_negative(history: RunHistory) -> Finding | None:
    """The symptom alone: late in the run the critic predicts worse than a constant.

    Once a task is solved, targets hardly vary and nothing is left to explain: an alarm only where the run is stuck.
    """
    late = history.column("explained_variance")
    late = late[len(late) // 3 :]
    late = late[np.isfinite(late)]
    if len(late) < 3 or float(np.median(late)) > -0.05:
        return None
    explained = float(np.median(late))
    factor = history.facts.number("value_rate_factor") or 1.0
    return Finding(
        "explained-variance-negative",
        WARNING if explained < -0.5 and stuck(history) is not None else NOTE,
        0.5,
        f"the explained variance is {figure(explained)}: worse than predicting a constant.",
        "the critic lags behind, or the scale of its targets keeps changing",
        SB3_LOGGER,
        (flag("value_rate_factor", 2 * factor), *_scaling_flags(history)[:1]),
        {"explained_variance": explained},
    )
