"""How much is collected and how it is cut."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import GUIDE, NOTE, WARNING, Finding, figure, flag
from batchwright.doctor.reference_ranges import advised_rollout_steps, outside, tuned, usual_minibatch, usual_rollout
from batchwright.doctor.run_history import RunHistory
from batchwright.planning.quantity import counted

NOISE_PAPER = "McCandlish et al., 2018"
FEW_UPDATES = 8
FEW_ITERATIONS = 12


def minibatch_too_small(case: RunHistory) -> Finding | None:
    """Minibatches below 32, or below ten rows for each action dimension."""
    size, actions = case.facts.number("minibatch_transitions"), case.facts.number("action_size") or 1.0
    rollout = case.facts.number("rollout_transitions")
    least = max(32.0, 10 * actions)
    if size is None or size >= least or "minibatch_transitions" in case.facts.from_preset:
        return None
    if rollout is not None and rollout <= least:
        return None  # the rollout is the matter, not its cut
    noise = case.typical("gradient_noise_scale")
    return Finding(
        "minibatch-too-small",
        WARNING if size < least / 2 else NOTE,
        0.95 if size < least / 3 else 0.6,
        f"updates see {figure(size)} transitions; at least {figure(least)} for {figure(actions)} action dimensions"
        + (f". The gradient's noise scale is {figure(noise)} transitions." if noise is not None else "."),
        "gradients that are mostly noise, and many of them",
        f"{GUIDE}: 32-256 per update, at least 10 x the action dimensions",
        (flag("minibatch_transitions", usual_minibatch(case)),),
        {"minibatch_transitions": size, "action_size": actions, "gradient_noise_scale": noise},
    )


def too_few_minibatches(case: RunHistory) -> Finding | None:
    """A few updates on giant minibatches: what was collected is hardly used."""
    parts, updates = case.facts.number("minibatches"), case.facts.number("updates_per_iteration")
    size = case.facts.number("minibatch_transitions")
    if parts is None or updates is None or size is None or case.facts.get("algo") != "ppo":
        return None
    if parts >= 4 or updates >= FEW_UPDATES or size < 512 or "minibatch_transitions" in case.facts.from_preset:
        return None
    better = usual_minibatch(case)
    return Finding(
        "too-few-minibatches",
        WARNING if updates < FEW_UPDATES / 1.5 else NOTE,
        0.9 if parts == 1 else 0.6,
        f"{counted(int(parts), 'minibatch')} of {figure(size)} transitions: {counted(int(updates), 'update')} per "
        "iteration.",
        "few, costly updates: the same data in smaller minibatches teaches more",
        f"{GUIDE}: 4-32 minibatches per epoch",
        (flag("minibatch_transitions", better),),
        {"minibatches": parts, "updates_per_iteration": updates, "minibatch_transitions": size},
    )


def too_many_minibatches(case: RunHistory) -> Finding | None:
    """Far more minibatches than the guide's 32; a note, as tuned presets go beyond."""
    parts = case.facts.number("minibatches")
    if parts is None or parts <= 128 or "minibatch_transitions" in case.facts.from_preset:
        return None
    return Finding(
        "too-many-minibatches",
        NOTE,
        0.4,
        f"{figure(parts)} minibatches per epoch.",
        "many small updates: slow on an accelerator, noisy",
        f"{GUIDE}: 4-32 minibatches per epoch",
        (flag("minibatches", 32),),
        {"minibatches": parts},
    )


def rollout_too_small(case: RunHistory) -> Finding | None:
    """Rollouts that are a fraction of what the algorithm starts with, or far below the gradient's noise scale."""
    rollout, envs = case.facts.number("rollout_transitions"), case.facts.number("num_envs")
    if rollout is None or envs is None or "rollout_steps" in case.facts.from_preset:
        return None
    usual = usual_rollout(case)
    noise = case.typical("gradient_noise_scale", 0.1, 0.6)
    tiny = outside(case, "rollout_transitions") < 0 and rollout < usual / 4
    noisy = noise is not None and noise > 20 * rollout
    if not tiny and not (noisy and rollout < usual):
        return None
    steps = advised_rollout_steps(case) if tiny else -(-int(2 * rollout) // int(envs))
    small = case.facts.number("minibatch_transitions") or 0
    size = tuned(case, "minibatch_transitions") or 64
    cut = f" {flag('minibatch_transitions', size)}" if small < size else ""
    return Finding(
        "rollout-too-small",
        WARNING if tiny else NOTE,
        0.9 if tiny else 0.4,
        f"{figure(rollout)} transitions are collected per iteration; {case.facts.get('algo')} starts with {usual}"
        + (f", and the gradient's noise scale is {figure(noise)}." if noise is not None else "."),
        "each update is ruled by a handful of steps",
        f"{GUIDE}: returns swing: double the rollout; {NOISE_PAPER}",
        (flag("rollout_steps", steps) + cut,),
        {"rollout_transitions": rollout, "gradient_noise_scale": noise},
    )


def rollout_too_large(case: RunHistory) -> Finding | None:
    """So much per iteration that the run has few of them, or far more than the gradient's noise scale."""
    rollout, iterations = case.facts.number("rollout_transitions"), case.facts.number("iterations")
    steps, envs = case.facts.number("rollout_steps"), case.facts.number("num_envs")
    if rollout is None or iterations is None or steps is None or envs is None:
        return None
    usual = usual_rollout(case)
    noise = case.typical("gradient_noise_scale", 0.0, 0.5)
    few = iterations < FEW_ITERATIONS and rollout > 2 * usual
    quiet = noise is not None and rollout > 20 * max(noise, 64) and rollout > 4 * usual
    if not few and not quiet:
        return None
    halved = max(-(-usual // int(envs)), int(steps) // 2) if not few else advised_rollout_steps(case)
    return Finding(
        "rollout-too-large",
        WARNING if few else NOTE,
        0.9 if few else 0.5,
        f"{figure(rollout)} transitions per iteration leave {figure(iterations)} iterations in the run"
        + (f"; the gradient's noise scale is {figure(noise)}." if noise is not None else "."),
        "the policy is hardly ever renewed: most data comes from an old one",
        f"{GUIDE}: learning crawls: halve the rollout; {NOISE_PAPER}",
        (flag("rollout_steps", halved),),
        {"rollout_transitions": rollout, "iterations": iterations, "gradient_noise_scale": noise},
    )


def too_few_episodes(case: RunHistory) -> Finding | None:
    """Rollouts in which hardly an episode ends: returns come from a few long trajectories."""
    ended = case.column("episodes")
    ended = ended[: max(1, len(ended) // 2)]
    if not np.isfinite(ended).all() or len(ended) == 0:
        return None
    mean = float(ended.mean())
    whole_returns = case.facts.get("algo") == "reinforce"
    if mean >= (4 if whole_returns else 0.1) or "rollout_steps" in case.facts.from_preset:
        return None
    length, rollout = case.episode_steps or 0.0, case.facts.number("rollout_transitions") or 0.0
    envs = int(case.facts.number("num_envs") or 1)
    more = 16
    return Finding(
        "too-few-episodes",
        WARNING if whole_returns else NOTE,
        0.95 if whole_returns and mean < 2 else 0.6 if whole_returns else 0.3,
        f"{figure(mean)} episodes end per rollout of {figure(rollout)} transitions.",
        "an update is ruled by one trajectory, or by a piece of one",
        f"{GUIDE}: 16-64 episodes per rollout",
        (f"{flag('num_envs', max(envs, more))} {flag('rollout_steps', max(64, int(min(length, 500)) // 2))}",),
        {"episodes_per_rollout": mean, "rollout_transitions": rollout},
    )
