"""Findings about the return: wild swings, no progress, evaluation below training."""

from __future__ import annotations

import numpy as np

from batchwright.config.presets import tuned_preset
from batchwright.doctor.finding import LEVERS, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.run_history import Column, RunHistory

LEAST_ITERATIONS = 10
SMOOTHED_PARTS = 20


def smoothed(history: RunHistory, since: float = 0.0) -> Column:
    """The returns as at most 20 block means: the shape of the curve without its noise, from a fraction on."""
    returns = history.returns()
    returns = returns[int(since * len(returns)) :]
    if len(returns) < 2:
        return returns
    return np.array([part.mean() for part in np.array_split(returns, min(SMOOTHED_PARTS, len(returns)))])


def spread_within(history: RunHistory) -> float:
    """The typical standard deviation of returns within one iteration; 0 where unknown."""
    return history.typical("episode_return_std") or 0.0


def relative_gain(history: RunHistory, since: float) -> float:
    """The gain in return since the fraction `since` of the record, relative to the range of the whole curve."""
    curve = smoothed(history)
    if len(curve) < 4:
        return 0.0
    at = min(len(curve) - 2, int(since * len(curve)))
    span = float(curve.max() - curve.min()) or 1.0
    return float((curve[-3:].mean() - curve[at : at + 2].mean()) / span)


def wild_swings(history: RunHistory) -> Finding | None:
    """Returns whose jumps from one iteration to the next are large compared with their whole range."""
    returns = history.returns()
    if len(returns) < LEAST_ITERATIONS or history.share_done < 0.2:
        return None
    late = returns[len(returns) // 3 :]
    span = float(returns.max() - returns.min())
    jump = float(np.median(np.abs(np.diff(late))))
    trend = abs(float(late[-max(1, len(late) // 4) :].mean() - late[: max(1, len(late) // 4)].mean()))
    if span <= 0 or jump < 0.25 * span or trend > jump:
        return None
    rollout, steps = history.facts.number("rollout_transitions"), history.facts.number("rollout_steps")
    doubled = () if steps is None else (flag("rollout_steps", int(2 * steps)),)
    return Finding(
        "wild-swings",
        NOTE,
        0.5,
        f"the return changes by {figure(jump)} from one iteration to the next; its whole range is {figure(span)}.",
        "each update uses too little data, or takes too large a step",
        f"{LEVERS}: rollout_steps, learning_rate",
        doubled,
        {"median_jump": jump, "range": span, "rollout_transitions": rollout},
    )


def stuck(history: RunHistory) -> Finding | None:
    """A return that has risen by no more than its noise."""
    curve = smoothed(history)
    if len(curve) < 6 or history.share_done < 0.5 or len(history.returns()) < LEAST_ITERATIONS:
        return None
    gain = float(curve[-3:].mean() - curve[:2].mean())
    noise = max(float(np.std(np.diff(curve))), 0.25 * spread_within(history))
    if gain > 1.5 * noise:
        return None
    return Finding(
        "stuck",
        WARNING,
        0.35,
        f"the return was {figure(float(curve[:2].mean()))} at first and is {figure(float(curve[-3:].mean()))} after "
        f"{history.share_done:.0%} of the run; its noise is {figure(noise)}.",
        "the policy finds no better behaviour, or does not learn from what it finds",
        f"{LEVERS}: normalize_obs, entropy_start, gamma",
        general_remedies(history),
        {"first": float(curve[:2].mean()), "last": float(curve[-3:].mean()), "noise": noise},
    )


def general_remedies(history: RunHistory) -> tuple[str, ...]:
    """What helps a run of which nothing else is known: tuned numbers, normalised inputs, more exploration.

    Not a higher learning rate: it repaired one of ten such runs.
    """
    facts = history.facts
    env, algo = facts.get("env"), facts.get("algo")
    preset = tuned_preset(env, algo) if isinstance(env, str) and isinstance(algo, str) else None
    flags = [f"--preset {preset}"] if preset is not None and not facts.from_preset else []
    scaled = [name for name in ("normalize_obs", "normalize_rewards") if facts.get(name) is False]
    if scaled and facts.get("init_from") is None:  # parameters of another run go with its scale of observations
        flags.append(" ".join(flag(name, True) for name in scaled))
    if facts.get("regime") != "replay":
        more = max(0.01, 3 * (facts.number("entropy_start") or 0.0))
        flags.append(f"{flag('entropy_start', more)} {flag('entropy_end', 0.0)}")
    return tuple(flags)


def evaluation_apart(history: RunHistory) -> Finding | None:
    """Evaluations far below the returns of training."""
    evaluated = history.column("eval_mean")
    evaluated = evaluated[np.isfinite(evaluated)]
    returns = history.returns()
    if len(evaluated) == 0 or len(returns) < LEAST_ITERATIONS:
        return None
    training = float(returns[-max(3, len(returns) // 10) :].mean())
    value = float(evaluated[-1])
    span = max(float(returns.max() - returns.min()), 1e-9)
    gap = (value - training) / span
    if gap > -0.5:
        return None
    return Finding(
        "evaluation-below-training",
        NOTE,
        0.6,
        f"the return is {figure(value)} in evaluation, without exploration, and {figure(training)} in training.",
        "the policy depends on its action noise, or normalisers differ between training and evaluation",
        "docs/training/quickstart.md#what-is-shown",
        (flag("entropy_end", 0.0),),
        {"evaluation": value, "training": training, "gap_over_range": gap},
    )


def overfitting_the_batch(history: RunHistory) -> Finding | None:
    """The policy loss falls while evaluations do not rise."""
    evaluated = history.column("eval_mean")
    evaluated = evaluated[np.isfinite(evaluated)]
    loss = history.while_learning("policy_loss")
    if len(evaluated) < 4 or len(loss) < LEAST_ITERATIONS:
        return None
    half = len(evaluated) // 2
    risen = float(evaluated[half:].mean() - evaluated[:half].mean())
    fell = float(np.median(loss[len(loss) // 2 :]) - np.median(loss[: len(loss) // 2]))
    spread = float(evaluated.std()) or 1.0
    epochs = history.facts.number("epochs")
    if risen > 0.1 * spread or fell > -0.02 or (epochs or 0) < 4:
        return None
    return Finding(
        "overfitting-the-batch",
        WARNING,
        0.6,
        f"the policy loss fell by {figure(-fell)} from the first half of the run to the second; evaluations changed by "
        f"{figure(risen)}.",
        "updates overfit the current rollout instead of learning the task",
        f"{LEVERS}: epochs",
        (flag("epochs", max(1, int((epochs or 4) // 4))),),
        {"loss_change": fell, "evaluation_change": risen, "epochs": epochs},
    )
