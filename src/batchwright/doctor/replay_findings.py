"""Findings about replay training: the replay ratio, overestimated Q values, reward models without a signal."""

from __future__ import annotations

import math

import numpy as np

from batchwright.doctor.finding import DANGER, MEASURED, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.levers import stated_numbers
from batchwright.doctor.reference_ranges import advised_learning_rate
from batchwright.doctor.run_history import RunHistory
from batchwright.doctor.value_level import BEHIND, per_step_reward, value_level

REPLAY_RATIO_PAPERS = "Fedus et al., 2020 (arXiv:2007.06700); D'Oro et al., 2023 (replay ratio barrier, ICLR)"
LOW_RATIO, HIGH_RATIO = 0.02, 8.0
OVERESTIMATION_PAPERS = "van Hasselt et al., 2016 (arXiv:1509.06461); Fujimoto et al., 2018 (arXiv:1802.09477)"
LARGE_VALUES, SMALL_VALUES = 3e3, 0.3
"""What single rewards add up to within the horizon: beyond these, temperatures and Huber limits of usual size fail."""
ODD_VALUES = 1e3
"""From here on they are a suspect in a harmed run."""
FEW_TARGETS, ENOUGH_TARGETS = 8, 50
"""Times that a target follows its critic in a run: SAC on Pendulum learns with 27, DQN on CartPole with 117."""
FEW_UPDATES = ("replay-ratio", "warm-up-too-long")
"""Stated numbers that explain why a target has hardly followed."""
RRD_PAPER = "Ren et al., 2022 (arXiv:2111.13485)"


def replay_ratio(history: RunHistory) -> Finding | None:
    """Updates per environment step outside 0.02 to 8: hardly used data, or a critic fitted to old data."""
    ratio = history.typical("updates_per_step", 0.3)
    if ratio is None:
        ratio = history.facts.number("updates_per_step")
    if ratio is None or history.facts.get("regime") != "replay" or LOW_RATIO <= ratio <= HIGH_RATIO:
        return None
    steps = history.facts.number("steps_per_iteration")
    advised = None if steps is None else max(1, round(steps * (1.0 if ratio < 1 else 2.0)))
    low = ratio < LOW_RATIO
    return Finding(
        "replay-ratio",
        WARNING,
        0.85,
        f"{figure(ratio)} updates per environment step; {figure(LOW_RATIO)} to {figure(HIGH_RATIO)} is typical.",
        "collected data is hardly learned from" if low else "the critic overfits a buffer that hardly changes",
        REPLAY_RATIO_PAPERS,
        () if advised is None else (flag("updates_per_iteration", advised),),
        {"updates_per_step": ratio},
        hint=True,
    )


def q_overestimation(history: RunHistory) -> Finding | None:
    """Q values far above any return that this task has given."""
    q, gamma = history.column("q_mean"), history.facts.number("gamma") or 0.99
    if not np.isfinite(q).any():
        return None
    q = q[np.isfinite(q)]
    late = float(np.median(q[-max(1, len(q) // 10) :]))
    length = history.typical("episode_length") or history.episode_steps
    best = history.highest("episode_return_max" if history.has("episode_return_max") else "episode_return")
    if best is None or length is None:
        return None
    low = history.typical("episode_return") or 0.0
    per_step = max(abs(best), abs(low)) / max(length, 1.0)
    reachable = max(per_step * min(length, 1 / (1 - min(gamma, 0.9999))), 1e-6)
    if late <= best + 2 * reachable or late < 10 * reachable:
        return None
    rate = history.facts.number("learning_rate")
    return Finding(
        "q-overestimation",
        DANGER,
        0.85,
        f"Q values average {figure(late)}; the best return so far is {figure(best)} over {figure(length)} steps, "
        f"worth about {figure(reachable)} at gamma {figure(gamma)}.",
        "bootstrapping amplifies overestimated values: too many updates per step, or too high a learning rate",
        OVERESTIMATION_PAPERS,
        () if rate is None else (flag("learning_rate", advised_learning_rate(history, rate / 3)),),
        {"q_mean": late, "best_return": best, "reachable": reachable},
    )


def target_lag(history: RunHistory) -> Finding | None:
    """A target that has followed the critic a few times in all, and Q values far below what returns are worth."""
    polyak, every = history.facts.number("polyak"), history.facts.number("updates_per_target")
    updates, level = history.highest("updates_total"), value_level(history)
    if not polyak or not every or not updates or level is None or history.share_done < 0.5:
        return None
    followed = updates * polyak / every
    if followed >= FEW_TARGETS or level.ratio >= BEHIND or "updates_per_target" in history.facts.from_preset:
        return None
    if any(one.name in FEW_UPDATES for one in stated_numbers(history)):
        return None
    copies = max(1, int(updates * polyak / ENOUGH_TARGETS))
    faster = flag("updates_per_target", copies) if polyak == 1 else flag("polyak", min(1.0, ENOUGH_TARGETS / updates))
    return Finding(
        "target-too-slow",
        WARNING,
        0.75,
        f"in {figure(updates)} updates the target has followed the critic {figure(followed)} times. Q values average "
        f"{figure(level.q)}; recent returns are worth {figure(level.expected)} at this gamma.",
        "targets lag behind what has been learned: each time, values reach one step further back",
        f"Mnih et al., 2015 (DQN, doi:10.1038/nature14236): target network; {MEASURED}",
        (faster,),
        {"followed": followed, "q_mean": level.q, "worth_of_returns": level.expected},
        hint=True,
        seen=True,
    )


def scale_of_replayed_rewards(history: RunHistory) -> Finding | None:
    """Rewards that add up to values far from those which step sizes, temperatures and Huber limits are made for."""
    size, length = per_step_reward(history), history.episode_steps
    if history.facts.get("regime") != "replay" or not size or length is None or history.facts.get("redistribute"):
        return None
    gamma = min(history.facts.number("gamma") or 0.99, 0.9999)
    worth = size * min(length, 1 / (1 - gamma))
    if SMALL_VALUES < worth < ODD_VALUES:
        return None
    large = worth >= ODD_VALUES
    beyond = max(0.0, math.log10(worth / LARGE_VALUES)) if large else math.log10(SMALL_VALUES / worth)
    loss, norm = history.typical("critic_loss"), history.typical("gradient_norm")
    return Finding(
        "reward-scale",
        WARNING,
        min(0.9, 0.6 + 0.2 * beyond),
        f"rewards average {figure(size)} a step, so that values reach about {figure(worth)}; near 1 to 100 is learned "
        f"best. The critic's loss is {figure(loss)}, the gradient norm {figure(norm)}.",
        "errors of values are far larger than step sizes, temperature and Huber limit suit: scale rewards down"
        if large
        else "values are smaller than the critic's initial noise and the entropy bonus: scale rewards up",
        f"Haarnoja et al., 2018 (SAC, arXiv:1801.01290): reward scale; {MEASURED}",
        (),
        {"reward_per_step": size, "value": worth, "critic_loss": loss, "gradient_norm": norm},
        hint=True,
        seen=True,
    )


def rrd_constant_returns(history: RunHistory) -> Finding | None:
    """Episodes that all have the same return: a reward model can only learn a constant."""
    if not history.facts.get("redistribute"):
        return None
    stds = history.column("episode_return_std")
    returns = history.returns()
    if len(returns) < 5:
        return None
    within = float(np.nanmax(stds)) if np.isfinite(stds).any() else 0.0
    size = max(float(np.abs(returns).mean()), 1e-9)
    spread = max(float(returns.std()), within)
    if spread > 1e-3 * size:
        return None
    return Finding(
        "rrd-constant-returns",
        DANGER,
        0.95,
        f"all episodes return {figure(float(returns.mean()))}; their standard deviation is {figure(spread)}.",
        "return decomposition learns from differences between episodes, and there are none (success-only data): train "
        "without --redistribute, or on episodes with different returns",
        f"{RRD_PAPER}; docs/training/recorded.md#returns-that-are-all-the-same",
        evidence={"return_mean": float(returns.mean()), "return_std": spread},
    )


def reward_model_variance(history: RunHistory) -> Finding | None:
    """A reward model whose predictions do not vary although returns do."""
    variance = history.typical("reward_model_variance", 0.5)
    returns = history.returns()
    if variance is None or len(returns) < 5 or float(returns.std()) < 1e-3 * max(1e-9, float(np.abs(returns).mean())):
        return None
    if variance > 1e-8:
        return None
    return Finding(
        "reward-model-flat",
        NOTE,
        0.6,
        f"the variance of the reward model's predictions is {figure(variance)}; returns have a standard deviation of "
        f"{figure(float(returns.std()))}.",
        "it predicts a constant reward: too few updates or too small a learning rate",
        RRD_PAPER,
        evidence={"reward_model_variance": variance},
    )
