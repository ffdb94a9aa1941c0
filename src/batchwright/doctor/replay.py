"""Replay training: the replay ratio, over-estimated values, and returns that teach a reward model nothing."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import DANGER, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.run_history import RunHistory

REPLAY_RATIO_PAPER = "Fedus et al., 2020; D'Oro et al., 2023"
LOW_RATIO, HIGH_RATIO = 0.02, 8.0
OVERESTIMATION_PAPER = "van Hasselt et al., 2016; Fujimoto et al., 2018"


def replay_ratio(case: RunHistory) -> Finding | None:
    """Updates per environment step far from 1: hardly used data, or a critic fitted to old data."""
    ratio = case.typical("updates_per_step", 0.3)
    if ratio is None:
        ratio = case.facts.number("updates_per_step")
    if ratio is None or case.facts.get("regime") != "replay" or LOW_RATIO <= ratio <= HIGH_RATIO:
        return None
    steps = case.facts.number("steps_per_iteration")
    wanted = None if steps is None else max(1, round(steps * (1.0 if ratio < 1 else 2.0)))
    low = ratio < LOW_RATIO
    return Finding(
        "replay-ratio",
        WARNING,
        0.85,
        f"{figure(ratio)} updates per environment step; {figure(LOW_RATIO)} to {figure(HIGH_RATIO)} is usual.",
        "data is collected and hardly learned from" if low else "the critic is fitted to a buffer that hardly changes",
        REPLAY_RATIO_PAPER,
        () if wanted is None else (flag("updates_per_iteration", wanted),),
        {"updates_per_step": ratio},
    )


def q_overestimation(case: RunHistory) -> Finding | None:
    """Values that no return of this task can reach, or that run away."""
    q, gamma = case.column("q_mean"), case.facts.number("gamma") or 0.99
    if not np.isfinite(q).any():
        return None
    q = q[np.isfinite(q)]
    late = float(np.median(q[-max(1, len(q) // 10) :]))
    length = case.typical("episode_length") or case.episode_steps
    best = case.highest("episode_return_max" if case.has("episode_return_max") else "episode_return")
    if best is None or length is None:
        return None
    low = case.typical("episode_return") or 0.0
    per_step = max(abs(best), abs(low)) / max(length, 1.0)
    reachable = max(per_step * min(length, 1 / (1 - min(gamma, 0.9999))), 1e-6)
    if late <= best + 2 * reachable or late < 10 * reachable:
        return None
    return Finding(
        "q-overestimation",
        DANGER,
        0.85,
        f"values are {figure(late)} on average; the best return seen is {figure(best)} over {figure(length)} steps, "
        f"worth about {figure(reachable)} at gamma {figure(gamma)}.",
        "the maximum over noisy values feeds on itself: too many updates per step, or too high a learning rate",
        OVERESTIMATION_PAPER,
        tuple(flag("learning_rate", rate / 3) for rate in [case.facts.number("learning_rate")] if rate is not None),
        {"q_mean": late, "best_return": best, "reachable": reachable},
    )


def rrd_constant_returns(case: RunHistory) -> Finding | None:
    """Episodes that all have the same return: a reward model learns a constant."""
    if not case.facts.get("redistribute"):
        return None
    spread = case.column("episode_return_std")
    returns = case.returns()
    if len(returns) < 5:
        return None
    overall = float(returns.std())
    within = float(np.nanmax(spread)) if np.isfinite(spread).any() else 0.0
    size = max(float(np.abs(returns).mean()), 1e-9)
    if max(overall, within) > 1e-3 * size:
        return None
    return Finding(
        "rrd-constant-returns",
        DANGER,
        0.95,
        f"all episodes return {figure(float(returns.mean()))}, with a spread of {figure(max(overall, within))}.",
        "return decomposition learns from differences between episodes; there are none (success-only data): train "
        "without --redistribute, or on episodes of differing success",
        "Ren et al., 2022; S1",
        evidence={"return_mean": float(returns.mean()), "return_std": max(overall, within)},
    )


def reward_model_variance(case: RunHistory) -> Finding | None:
    """A reward model whose predictions do not vary although returns do."""
    variance = case.typical("reward_model_variance", 0.5)
    returns = case.returns()
    if variance is None or len(returns) < 5 or float(returns.std()) < 1e-3 * max(1e-9, float(np.abs(returns).mean())):
        return None
    if variance > 1e-8:
        return None
    return Finding(
        "reward-model-flat",
        NOTE,
        0.6,
        f"the reward model's predictions vary by {figure(variance)}; returns spread by {figure(float(returns.std()))}.",
        "it predicts the mean return per step: too few updates or too small a learning rate",
        "Ren et al., 2022",
        evidence={"reward_model_variance": variance},
    )
