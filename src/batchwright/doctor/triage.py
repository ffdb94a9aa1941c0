"""All findings of a run in the order in which they should be read: causes before what they bring about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchwright.doctor import (
    batches,
    broken,
    components,
    exploration,
    machine,
    outcome,
    policy_steps,
    replay,
    scales,
    values,
)
from batchwright.doctor.finding import Finding
from batchwright.doctor.run_history import Facts, RunHistory

Symptom = Callable[[RunHistory], Finding | None]

SYMPTOMS: tuple[Symptom, ...] = (
    broken.nan_from_environment,
    broken.divergence,
    broken.first_ratio_not_one,
    values.reward_scale,
    scales.observation_scale,
    policy_steps.learning_rate_too_high,
    policy_steps.learning_rate_too_low,
    policy_steps.gradient_clip_too_tight,
    policy_steps.clip_range_too_large,
    policy_steps.clip_range_too_small,
    policy_steps.too_many_epochs,
    batches.minibatch_too_small,
    batches.too_few_minibatches,
    batches.too_many_minibatches,
    batches.rollout_too_small,
    batches.rollout_too_large,
    batches.too_few_episodes,
    values.gamma_too_myopic,
    values.gamma_too_long,
    values.values_not_learned,
    exploration.entropy_collapse,
    exploration.entropy_bonus_too_high,
    exploration.dead_head,
    scales.actions_clipped,
    components.dominating_component,
    components.dead_component,
    replay.replay_ratio,
    replay.q_overestimation,
    replay.rrd_constant_returns,
    replay.reward_model_variance,
    policy_steps.kl_too_high,
    policy_steps.kl_near_zero,
    policy_steps.clip_fraction_out_of_band,
    values.explained_variance_negative,
    outcome.overfitting_the_batch,
    outcome.wild_swings,
    outcome.stuck,
    outcome.evaluation_apart,
    machine.memory_near_limit,
    machine.environment_bound,
    machine.update_bound,
    machine.accelerator_idle,
)

OUTCOMES = ("stuck", "wild-swings", "evaluation-below-training", "overfitting-the-batch")
MOVEMENT = ("kl-too-high", "kl-near-zero", "clip-fraction-high")
LEARNING = (*OUTCOMES, *MOVEMENT, "entropy-collapse", "explained-variance-negative")

# What each cause brings about: a consequence stands behind its cause however loud it is.
EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "nan-from-environment": ("divergence", "learning-rate-too-high", "reward-scale", *LEARNING),
    "divergence": LEARNING,
    "first-ratio-not-one": LEARNING,
    "reward-scale": ("divergence", "learning-rate-too-high", "learning-rate-too-low", "values-not-learned", *LEARNING),
    "observation-scale": (
        "divergence",
        "learning-rate-too-high",
        "learning-rate-too-low",
        "values-not-learned",
        *LEARNING,
    ),
    "learning-rate-too-high": ("divergence", "actions-clipped", *LEARNING),
    "learning-rate-too-low": LEARNING,
    "gradient-clip-too-tight": ("learning-rate-too-low", *LEARNING),
    "clip-range-too-large": ("learning-rate-too-high", *LEARNING),
    "clip-range-too-small": ("learning-rate-too-low", *LEARNING),
    "too-many-epochs": ("learning-rate-too-high", *LEARNING),
    "minibatch-too-small": ("learning-rate-too-high", "too-many-minibatches", "too-many-epochs", *LEARNING),
    "too-few-minibatches": ("learning-rate-too-low", *LEARNING),
    "rollout-too-small": ("learning-rate-too-high", "too-few-episodes", *LEARNING),
    "rollout-too-large": ("learning-rate-too-low", "too-few-minibatches", *LEARNING),
    "too-few-episodes": LEARNING,
    "gamma-too-myopic": LEARNING,
    "gamma-too-long": ("values-not-learned", "reward-scale", *LEARNING),
    "values-not-learned": LEARNING,
    "entropy-bonus-too-high": ("learning-rate-too-high", "actions-clipped", *LEARNING),
    "entropy-collapse": (*OUTCOMES, *MOVEMENT),
    "actions-clipped": OUTCOMES,
    "rrd-constant-returns": ("reward-model-flat", *OUTCOMES),
    "replay-ratio": ("q-overestimation", *OUTCOMES),
    "q-overestimation": OUTCOMES,
}
EXPLAINED_BY = 0.5
"""An explained finding counts this share of its cause at most."""


def triage(
    records: Sequence[Mapping[str, Any]], facts: Facts, events: Sequence[Mapping[str, Any]] = ()
) -> list[Finding]:
    """Findings of a run, the first to mend first; empty where nothing is to be said."""
    return examine(RunHistory(records, facts, events))


def examine(case: RunHistory) -> list[Finding]:
    """The same for a case; a record without a line has no findings."""
    if not case.records and not case.events:
        return []
    found = [finding for symptom in SYMPTOMS if (finding := symptom(case)) is not None]
    return rank(found)


def rank(found: Sequence[Finding]) -> list[Finding]:
    """By severity times confidence, consequences behind their causes."""
    weight = {finding.name: finding.score for finding in found}
    for cause in sorted(found, key=lambda finding: -finding.score):
        for finding in found:
            if explains(cause, finding):
                weight[finding.name] = min(weight[finding.name], EXPLAINED_BY * weight[cause.name])
    return sorted(found, key=lambda finding: -weight[finding.name])


def explains(cause: Finding, finding: Finding) -> bool:
    """Whether one finding brings the other about. What is itself a cause, and surer, stands on its own."""
    if not cause.alarm or finding.name not in EXPLAINS.get(cause.name, ()):
        return False
    return finding.name not in EXPLAINS or finding.score <= cause.score


def unexplained(found: Sequence[Finding]) -> list[Finding]:
    """Alarms that no other alarm of the list brings about: what is worth saying while a run goes on."""
    loud = alarms(found)
    return [finding for finding in loud if not any(explains(cause, finding) for cause in loud)] or loud[:1]


def alarms(found: Sequence[Finding]) -> list[Finding]:
    """Those that ask for something to be done."""
    return [finding for finding in found if finding.alarm]


def worsened(now: Finding, before: Finding | None) -> bool:
    """Whether a finding is to be said (again): new, or more severe than when it was said."""
    return before is None or now.severity > before.severity
