"""All findings of a run, ranked: causes before their consequences."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from batchwright.config.schema import DATASET
from batchwright.doctor import (
    batch_findings,
    component_findings,
    dataset_findings,
    entropy_findings,
    env_findings,
    failure_findings,
    harm,
    machine_findings,
    memory_findings,
    outcome_findings,
    policy_steps,
    replay_findings,
    scale_findings,
    value_findings,
)
from batchwright.doctor.by_outcome import by_outcome
from batchwright.doctor.finding import Finding
from batchwright.doctor.levers import LEVER_FINDINGS, stated_numbers
from batchwright.doctor.run_history import Facts, RunHistory

Symptom = Callable[[RunHistory], Finding | None]

SYMPTOMS: tuple[Symptom, ...] = (
    failure_findings.nan_from_environment,
    failure_findings.divergence,
    failure_findings.first_ratio_not_one,
    value_findings.reward_scale,
    scale_findings.observation_scale,
    scale_findings.constant_observation,
    env_findings.delayed_actions,
    env_findings.sticky_actions,
    env_findings.repeated_observations,
    env_findings.unexplained_terminations,
    env_findings.time_limit_as_termination,
    env_findings.failures_as_truncations,
    policy_steps.learning_rate_too_high,
    policy_steps.learning_rate_too_low,
    policy_steps.gradient_clip_too_tight,
    policy_steps.clip_range_too_large,
    policy_steps.clip_range_too_small,
    policy_steps.too_many_epochs,
    batch_findings.minibatch_too_small,
    batch_findings.too_few_minibatches,
    batch_findings.too_many_minibatches,
    batch_findings.rollout_too_small,
    batch_findings.rollout_too_large,
    batch_findings.too_few_episodes,
    memory_findings.sequences_too_short,
    memory_findings.stale_states,
    value_findings.gamma_too_myopic,
    value_findings.gamma_too_long,
    value_findings.values_not_learned,
    entropy_findings.entropy_collapse,
    entropy_findings.entropy_coef_too_high,
    entropy_findings.dead_head,
    scale_findings.actions_clipped,
    component_findings.dominating_component,
    component_findings.dead_component,
    component_findings.implied_reweighting,
    component_findings.wandering_share,
    component_findings.evaluation_against_weights,
    replay_findings.replay_ratio,
    replay_findings.q_overestimation,
    replay_findings.target_lag,
    replay_findings.scale_of_replayed_rewards,
    replay_findings.rrd_constant_returns,
    replay_findings.reward_model_variance,
    policy_steps.kl_too_high,
    policy_steps.kl_near_zero,
    policy_steps.clip_fraction_high,
    value_findings.explained_variance_negative,
    outcome_findings.overfitting_the_batch,
    outcome_findings.wild_swings,
    outcome_findings.stuck,
    harm.below_preset,
    outcome_findings.evaluation_apart,
    machine_findings.memory_near_limit,
    machine_findings.environment_bound,
    machine_findings.update_bound,
    machine_findings.accelerator_idle,
)

REWARD_ONLY_SYMPTOMS: tuple[Symptom, ...] = (
    failure_findings.nan_from_environment,
    failure_findings.divergence,
    scale_findings.observation_scale,
    replay_findings.rrd_constant_returns,
    replay_findings.reward_model_variance,
    machine_findings.memory_near_limit,
    machine_findings.environment_bound,
    machine_findings.update_bound,
    machine_findings.accelerator_idle,
)

DATASET_SYMPTOMS: tuple[Symptom, ...] = (
    dataset_findings.loss_not_finite,
    dataset_findings.rung_taken,
    dataset_findings.device_memory_near_limit,
    dataset_findings.loader_starved,
    dataset_findings.gradient_norm_rising,
    dataset_findings.loss_not_falling,
    machine_findings.memory_near_limit,
    machine_findings.accelerator_idle,
)

OUTCOMES = ("stuck", "below-preset", "wild-swings", "evaluation-below-training", "overfitting-the-batch")
MOVEMENT = ("kl-too-high", "kl-near-zero", "clip-fraction-high")
LEARNING = (*OUTCOMES, *MOVEMENT, "entropy-collapse", "explained-variance-negative")

# Consequences of each cause: they rank behind their cause whatever their own score.
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
    "sequences-too-short": OUTCOMES,
    "stale-states": (*OUTCOMES, *MOVEMENT),
    "gamma-too-myopic": LEARNING,
    "gamma-too-long": ("values-not-learned", "reward-scale", *LEARNING),
    "values-not-learned": LEARNING,
    "entropy-coef-too-high": ("learning-rate-too-high", "actions-clipped", *LEARNING),
    "entropy-collapse": (*OUTCOMES, *MOVEMENT),
    "actions-clipped": OUTCOMES,
    "constant-observation": OUTCOMES,
    "implied-reweighting": ("evaluation-against-weights", *OUTCOMES),
    "wandering-share": ("evaluation-against-weights", *OUTCOMES),
    "rrd-constant-returns": ("reward-model-flat", *OUTCOMES),
    "replay-ratio": ("q-overestimation", *OUTCOMES),
    "q-overestimation": OUTCOMES,
    "loader-starved": ("accelerator-idle",),
    "gradient-norm-rising": ("loss-not-falling",),
    "loss-not-finite": ("gradient-norm-rising", "loss-not-falling"),
}
FAULTS_OF_THE_ENVIRONMENT = (
    "delayed-actions",
    "sticky-actions",
    "repeated-observations",
    "unexplained-terminations",
    "time-limit-as-termination",
    "terminations-as-truncations",
)
CONTRADICTIONS: tuple[set[str], ...] = (
    {"learning-rate-too-high", "learning-rate-too-low"},
    {"learning-rate-too-high", "kl-near-zero"},
    {"learning-rate-too-low", "kl-too-high"},
    {"learning-rate-too-low", "clip-fraction-high"},
    {"kl-too-high", "kl-near-zero"},
    {"rollout-too-small", "rollout-too-large"},
    {"rollout-too-large", "too-few-episodes"},
    {"minibatch-too-small", "too-few-minibatches"},
    {"too-few-minibatches", "too-many-minibatches"},
    {"entropy-collapse", "entropy-coef-too-high"},
    {"target-too-slow", "target-too-fast"},
    {"temperature-too-low", "temperature-too-high"},
    {"target-entropy-too-low", "target-entropy-too-high"},
    {"temperature-too-high", "target-entropy-too-low"},
)
"""Pairs whose remedies undo each other."""
EXPLAINED_BY = 0.5
"""A consequence scores at most this share of its cause."""


def triage(
    records: Sequence[Mapping[str, Any]], facts: Facts, events: Sequence[Mapping[str, Any]] = ()
) -> list[Finding]:
    """Findings of a run, in the order in which to fix them."""
    return examine(RunHistory(records, facts, events))


def examine(history: RunHistory) -> list[Finding]:
    """Like `triage`, for a `RunHistory`; an empty record has no findings."""
    if not history.records and not history.events:
        return []
    # A reward network that learns alone leaves the policy as it is: findings about learning it do not apply.
    symptoms = REWARD_ONLY_SYMPTOMS if history.facts.get("reward_only") else SYMPTOMS
    if history.facts.get("regime") == DATASET:
        symptoms = DATASET_SYMPTOMS
    found = [finding for symptom in symptoms if (finding := symptom(history)) is not None]
    if symptoms is SYMPTOMS:
        found = one_of_each([*found, *stated_numbers(history)])
    return with_one_learning_rate(without_contradictions(rank(by_outcome(found, history))))


def one_of_each(found: Sequence[Finding]) -> list[Finding]:
    """Of findings with the same name, the alarm with the higher confidence; what another alarm saw counts for it."""
    best: dict[str, Finding] = {}
    for finding in found:
        other = best.get(finding.name, finding)
        higher = finding if finding.score > other.score else other
        if finding.alarm and other.alarm:
            higher = replace(higher, hint=finding.hint and other.hint, seen=finding.seen or other.seen)
        best[finding.name] = higher
    return list(best.values())


def without_contradictions(ranked: Sequence[Finding]) -> list[Finding]:
    """Of two findings that cannot both be true, the one that ranks first."""
    kept: list[Finding] = []
    for finding in ranked:
        if not any({finding.name, other.name} in CONTRADICTIONS for other in kept):
            kept.append(finding)
    return kept


LEARNING_RATE = re.compile(r"--learning-rate \S+")


def with_one_learning_rate(ranked: Sequence[Finding]) -> list[Finding]:
    """One diagnosis names one learning rate: that of the first finding that proposes one."""
    proposed = next((found[0] for one in ranked for flags in one.flags if (found := LEARNING_RATE.search(flags))), None)
    if proposed is None:
        return list(ranked)
    return [
        replace(one, flags=tuple(dict.fromkeys(LEARNING_RATE.sub(proposed, flags) for flags in one.flags)))
        for one in ranked
    ]


def rank(found: Sequence[Finding]) -> list[Finding]:
    """Alarms before notes, each by confidence, consequences behind their causes."""
    weight = {finding.name: finding.confidence * (1.0 if finding.alarm else 0.1) for finding in found}
    for cause in sorted(found, key=lambda finding: -finding.score):
        for finding in found:
            if explains(cause, finding):
                weight[finding.name] = min(weight[finding.name], EXPLAINED_BY * weight[cause.name])
    return sorted(found, key=lambda finding: -weight[finding.name])


def explains(cause: Finding, finding: Finding) -> bool:
    """Whether `finding` is a consequence of `cause`; one that is a cause itself, with a higher score, is not."""
    if not cause.alarm or cause.name == finding.name or finding.name not in explained_by(cause.name):
        return False
    return not explained_by(finding.name) or finding.confidence <= cause.confidence


def explained_by(name: str) -> tuple[str, ...]:
    """What a finding causes; empty where it is a symptom alone."""
    of_all = LEARNING if name in LEVER_FINDINGS or name in FAULTS_OF_THE_ENVIRONMENT else ()
    return (*EXPLAINS.get(name, ()), *of_all)


def unexplained(found: Sequence[Finding]) -> list[Finding]:
    """Alarms that are not the consequence of another alarm: those reported during training."""
    all_alarms = alarms(found)
    causes = [finding for finding in all_alarms if not any(explains(other, finding) for other in all_alarms)]
    return causes or all_alarms[:1]


def alarms(found: Sequence[Finding]) -> list[Finding]:
    """The warnings and dangers."""
    return [finding for finding in found if finding.alarm]


def worsened(now: Finding, before: Finding | None) -> bool:
    """Whether a finding is new, or more severe than when it was last reported."""
    return before is None or now.severity > before.severity
