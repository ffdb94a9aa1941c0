"""Findings about rollout size, minibatch size and episodes per rollout."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import LEVERS, NOTE, RULES_OF_THUMB, WARNING, Finding, figure, flag
from batchwright.doctor.noise_scale import NoiseScale, noise_scale
from batchwright.doctor.reference_ranges import (
    advised_rollout_steps,
    outside,
    reference_minibatch,
    reference_rollout,
    transitions_per_step,
    tuned,
)
from batchwright.doctor.run_history import RunHistory
from batchwright.planning.quantity import counted

NOISE_PAPER = "McCandlish et al., 2018 (gradient noise scale, arXiv:1812.06162)"
FEW_UPDATES = 8
FEW_ITERATIONS = 24
"""Runs of 6 and 12 iterations learned least of all sizes on three tasks (benchmarks/batch_sweep.py)."""


def _evidence(noise: NoiseScale | None) -> dict[str, float | int | str | None]:
    if noise is None:
        return {"policy_noise_scale": None}
    return {"policy_noise_scale": noise.transitions, "noise_scale_low": noise.low, "noise_scale_high": noise.high}


def minibatch_too_small(history: RunHistory) -> Finding | None:
    """Minibatches of fewer than 32 transitions, or of fewer than ten per action dimension."""
    size, actions = history.facts.number("minibatch_transitions"), history.facts.number("action_size") or 1.0
    rollout = history.facts.number("rollout_transitions")
    least = max(32.0, 10 * actions)
    if size is None or size >= least or "minibatch_transitions" in history.facts.from_preset:
        return None
    if rollout is not None and rollout <= least:
        return None  # the rollout is too small, not the minibatch
    noise = noise_scale(history)
    return Finding(
        "minibatch-too-small",
        WARNING if size < least / 2 else NOTE,
        0.95 if size < least / 3 else 0.6,
        f"minibatches have {figure(size)} transitions; at least {figure(least)} are advised for "
        f"{counted(int(actions), 'action dimension')}"
        + (f". The noise scale of the policy's gradient is {noise}." if noise is not None else "."),
        "each gradient averages too few transitions and is mostly noise",
        f"{RULES_OF_THUMB}: at least 32 transitions and 10 per action dimension",
        (flag("minibatch_transitions", reference_minibatch(history)),),
        {"minibatch_transitions": size, "action_size": actions} | _evidence(noise),
        hint=True,
    )


def too_few_minibatches(history: RunHistory) -> Finding | None:
    """Fewer than four large minibatches, however often they are used: few updates of the rollout (batch_sweep.py)."""
    parts, updates = history.facts.number("minibatches"), history.facts.number("updates_per_iteration")
    size = history.facts.number("minibatch_transitions")
    if parts is None or updates is None or size is None or history.facts.get("algo") != "ppo":
        return None
    if parts >= 4 or size < 512 or "minibatch_transitions" in history.facts.from_preset:
        return None
    better = reference_minibatch(history)
    return Finding(
        "too-few-minibatches",
        WARNING if updates < FEW_UPDATES / 1.5 else NOTE,
        0.9 if parts == 1 else 0.6,
        f"{counted(int(parts), 'minibatch')} of {figure(size)} transitions: {counted(int(updates), 'update')} per "
        "iteration.",
        "few large gradient steps: smaller minibatches learn more from the same rollout",
        f"{RULES_OF_THUMB}: 4-32 minibatches per epoch",
        (flag("minibatch_transitions", better),),
        {"minibatches": parts, "updates_per_iteration": updates, "minibatch_transitions": size},
        hint=True,
    )


def too_many_minibatches(history: RunHistory) -> Finding | None:
    """More than 128 minibatches per epoch; only a note, because some tuned presets use more than 32 too."""
    parts = history.facts.number("minibatches")
    if parts is None or parts <= 128 or "minibatch_transitions" in history.facts.from_preset:
        return None
    return Finding(
        "too-many-minibatches",
        NOTE,
        0.4,
        f"{figure(parts)} minibatches per epoch.",
        "many small gradient steps: noisy, and slow on an accelerator",
        f"{RULES_OF_THUMB}: 4-32 minibatches per epoch",
        (flag("minibatches", 32),),
        {"minibatches": parts},
    )


def rollout_too_small(history: RunHistory) -> Finding | None:
    """Rollouts far below the algorithm's default size, or far below the gradient noise scale."""
    rollout, envs = history.facts.number("rollout_transitions"), history.facts.number("num_envs")
    if rollout is None or envs is None or "rollout_steps" in history.facts.from_preset:
        return None
    default = reference_rollout(history)
    noise = noise_scale(history, begin=0.1, end=0.6)
    tiny = outside(history, "rollout_transitions") < 0 and rollout < default / 4
    noisy = noise is not None and noise.low > 20 * rollout
    if not tiny and not (noisy and rollout < default):
        return None
    steps = advised_rollout_steps(history) if tiny else -(-int(2 * rollout) // transitions_per_step(history))
    small = history.facts.number("minibatch_transitions") or 0
    size = tuned(history, "minibatch_transitions") or 64
    cut = f" {flag('minibatch_transitions', size)}" if small < size else ""
    return Finding(
        "rollout-too-small",
        WARNING if tiny else NOTE,
        0.9 if tiny else 0.4,
        f"a rollout has {figure(rollout)} transitions; the default of {history.facts.get('algo')} is {default}"
        + (f", and the noise scale of the policy's gradient is {noise}." if noise is not None else "."),
        "each update rests on a handful of transitions",
        f"{LEVERS}; {NOISE_PAPER}",
        (flag("rollout_steps", steps) + cut,),
        {"rollout_transitions": rollout} | _evidence(noise),
        hint=True,
    )


def rollout_too_large(history: RunHistory) -> Finding | None:
    """Rollouts so large that the run has few iterations, or far above the gradient noise scale."""
    rollout, iterations = history.facts.number("rollout_transitions"), history.facts.number("iterations")
    steps, envs = history.facts.number("rollout_steps"), history.facts.number("num_envs")
    if rollout is None or iterations is None or steps is None or envs is None:
        return None
    default = reference_rollout(history)
    noise = noise_scale(history, end=0.5)
    few = iterations < FEW_ITERATIONS and rollout > 2 * default
    quiet = noise is not None and rollout > 20 * max(noise.high, 64) and rollout > 4 * default
    if not few and not quiet:
        return None
    least = -(-default // transitions_per_step(history))
    halved = max(least, int(steps) // 2) if not few else advised_rollout_steps(history)
    return Finding(
        "rollout-too-large",
        WARNING if few else NOTE,
        0.9 if few else 0.5,
        f"{figure(rollout)} transitions per iteration leave {figure(iterations)} iterations in the run"
        + (f"; the noise scale of the policy's gradient is {noise}." if noise is not None else "."),
        "the policy is updated too rarely: much of the run's data comes from an outdated policy",
        f"{LEVERS}; {NOISE_PAPER}",
        (flag("rollout_steps", halved),),
        {"rollout_transitions": rollout, "iterations": iterations} | _evidence(noise),
        hint=True,
    )


def too_few_episodes(history: RunHistory) -> Finding | None:
    """Rollouts in which hardly any episode ends: returns come from a few long trajectories."""
    ended = history.column("episodes")
    ended = ended[: max(1, len(ended) // 2)]
    if not np.isfinite(ended).all() or len(ended) == 0:
        return None
    mean = float(ended.mean())
    whole_returns = history.facts.get("algo") == "reinforce"
    if mean >= (4 if whole_returns else 0.1) or "rollout_steps" in history.facts.from_preset:
        return None
    length, rollout = history.episode_steps or 0.0, history.facts.number("rollout_transitions") or 0.0
    envs = int(history.facts.number("num_envs") or 1)
    more = 16
    return Finding(
        "too-few-episodes",
        WARNING if whole_returns else NOTE,
        0.95 if whole_returns and mean < 2 else 0.6 if whole_returns else 0.3,
        f"{figure(mean)} episodes end per rollout of {figure(rollout)} transitions.",
        "a single trajectory, or a part of one, dominates an update",
        f"{RULES_OF_THUMB}: 16-64 episodes per rollout",
        (f"{flag('num_envs', max(envs, more))} {flag('rollout_steps', max(64, int(min(length, 500)) // 2))}",),
        {"episodes_per_rollout": mean, "rollout_transitions": rollout},
        hint=True,
    )
