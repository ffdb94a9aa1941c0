"""What became of the return: swings, standing still, evaluation beside training."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import GUIDE, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.run_history import Column, RunHistory

LEAST_ITERATIONS = 10
SMOOTHED_PARTS = 20


def smoothed(case: RunHistory) -> Column:
    """Returns in at most 20 means of neighbours: the shape of the curve without its noise."""
    returns = case.returns()
    if len(returns) < 2:
        return returns
    return np.array([part.mean() for part in np.array_split(returns, min(SMOOTHED_PARTS, len(returns)))])


def spread_within(case: RunHistory) -> float:
    """The usual spread of returns among the episodes of one iteration; 0 where nobody knows."""
    return case.typical("episode_return_std") or 0.0


def relative_gain(case: RunHistory, since: float) -> float:
    """What the return has gained after a share of the record, in units of the whole curve's range."""
    curve = smoothed(case)
    if len(curve) < 4:
        return 0.0
    at = min(len(curve) - 2, int(since * len(curve)))
    span = float(curve.max() - curve.min()) or 1.0
    return float((curve[-3:].mean() - curve[at : at + 2].mean()) / span)


def wild_swings(case: RunHistory) -> Finding | None:
    """Returns that jump between neighbouring iterations by much of all that was ever gained."""
    returns = case.returns()
    if len(returns) < LEAST_ITERATIONS or case.share_done < 0.2:
        return None
    late = returns[len(returns) // 3 :]
    span = float(returns.max() - returns.min())
    jump = float(np.median(np.abs(np.diff(late))))
    trend = abs(float(late[-max(1, len(late) // 4) :].mean() - late[: max(1, len(late) // 4)].mean()))
    if span <= 0 or jump < 0.25 * span or trend > jump:
        return None
    rollout, steps = case.facts.number("rollout_transitions"), case.facts.number("rollout_steps")
    doubled = () if steps is None else (flag("rollout_steps", int(2 * steps)),)
    return Finding(
        "wild-swings",
        NOTE,
        0.5,
        f"the return jumps by {figure(jump)} from one iteration to the next, over a range of {figure(span)} in all.",
        "each update sees too little, or takes too large a step",
        f"{GUIDE}: wild swings: double the rollout, normalise advantages and returns",
        doubled,
        {"median_jump": jump, "range": span, "rollout_transitions": rollout},
    )


def stuck(case: RunHistory) -> Finding | None:
    """A return that has not left its beginning by more than its noise."""
    curve = smoothed(case)
    if len(curve) < 6 or case.share_done < 0.5 or len(case.returns()) < LEAST_ITERATIONS:
        return None
    gain = float(curve[-3:].mean() - curve[:2].mean())
    noise = max(float(np.std(np.diff(curve))), 0.25 * spread_within(case))
    if gain > 1.5 * noise:
        return None
    rate = case.facts.number("learning_rate")
    flags = [] if rate is None else [flag("learning_rate", min(3e-3, 3 * rate))]
    epochs = case.facts.number("epochs")
    flags += [flag("epochs", int(2 * epochs))] if epochs is not None and epochs < 4 else []
    return Finding(
        "stuck",
        WARNING,
        0.35,
        f"the return was {figure(float(curve[:2].mean()))} at first and is {figure(float(curve[-3:].mean()))} after "
        f"{case.share_done:.0%} of the run; its noise is {figure(noise)}.",
        "nothing that pays is found, or nothing that is found is learned",
        f"{GUIDE}: stuck: learning rate up a notch, 2 epochs, more entropy, higher gamma",
        tuple(flags),
        {"first": float(curve[:2].mean()), "last": float(curve[-3:].mean()), "noise": noise},
    )


def evaluation_apart(case: RunHistory) -> Finding | None:
    """The policy without exploration is far worse, or far better, than the one that trains."""
    evaluated = case.column("eval_mean")
    seen = np.flatnonzero(np.isfinite(evaluated))
    returns = case.returns()
    if len(seen) == 0 or len(returns) < LEAST_ITERATIONS:
        return None
    training = float(returns[-max(3, len(returns) // 10) :].mean())
    value = float(evaluated[seen[-1]])
    span = max(float(returns.max() - returns.min()), 1e-9)
    gap = (value - training) / span
    if gap > -0.5:
        return None
    return Finding(
        "evaluation-below-training",
        NOTE,
        0.6,
        f"without exploration the return is {figure(value)}, in training it is {figure(training)}.",
        "the policy leans on its noise, or normalisers differ between the two",
        f"{GUIDE}: evaluation protocol",
        (flag("entropy_end", 0.0),),
        {"evaluation": value, "training": training, "gap_over_range": gap},
    )


def overfitting_the_batch(case: RunHistory) -> Finding | None:
    """The training loss falls while evaluations stand still."""
    evaluated = case.column("eval_mean")
    evaluated = evaluated[np.isfinite(evaluated)]
    loss = case.while_learning("policy_loss")
    if len(evaluated) < 4 or len(loss) < LEAST_ITERATIONS:
        return None
    half = len(evaluated) // 2
    risen = float(evaluated[half:].mean() - evaluated[:half].mean())
    fell = float(np.median(loss[len(loss) // 2 :]) - np.median(loss[: len(loss) // 2]))
    spread = float(evaluated.std()) or 1.0
    epochs = case.facts.number("epochs")
    if risen > 0.1 * spread or fell > -0.02 or (epochs or 0) < 4:
        return None
    return Finding(
        "overfitting-the-batch",
        WARNING,
        0.6,
        f"the policy loss fell by {figure(-fell)} from the first half of the run to the second, evaluations moved by "
        f"{figure(risen)}.",
        "updates fit the rollout at hand and not the task",
        f"{GUIDE}: overfitting a batch: fewer epochs, a larger rollout, more entropy",
        (flag("epochs", max(1, int((epochs or 4) // 4))),),
        {"loss_change": fell, "evaluation_change": risen, "epochs": epochs},
    )
