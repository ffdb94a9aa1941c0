"""Each finding on a record that has the fault, and on a similar one that does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_runs import history

from batchwright.doctor import (
    batch_findings,
    component_findings,
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
from batchwright.doctor.finding import DANGER, WARNING
from batchwright.doctor.reference_plan import KnownResult
from batchwright.doctor.run_history import RunHistory
from batchwright.doctor.triage import SYMPTOMS, Symptom, examine
from run_batchwright import run_line

GIB = 2**30
DOCS = Path(__file__).parents[2] / "docs"
REPLAY = {"regime": "replay", "algo": "sac"}
COPIES = {"polyak": 1.0, "updates_per_target": 1000}
PARTS = {"components": "speed,cost", "component_weights": "1,1", "component_balance": False}
BALANCED = {**PARTS, "component_balance": True, "component_norm": "scale", "component_weighting": "fixed"}
LEARNED = {**PARTS, "component_weighting": "learned"}
# By these weights the return rises: 0.1 x 1 - 0.9 x 2 per iteration less cost.
WEIGHTED: dict[str, object] = {
    "component__speed__weight": 0.1,
    "component__cost__weight": 0.9,
    "component__speed__return": lambda i: 100.0 - i,
    "component__cost__return": lambda i: -80.0 + 2 * i,
}


def with_preset(reached: float) -> RunHistory:
    """A run that rises from 20 to 215, of an environment whose preset reached so much in as many steps."""
    run = history()
    run.facts = replace(run.facts, known_result=KnownResult("ppo-cartpole", reached, 80_000, same_env=True))
    return run


def effects(*values: float) -> dict[str, object]:
    """The share of the observation's change that the actions of 0 to 3 steps before explain."""
    return {f"action_effect_{lag}": value for lag, value in enumerate(values)}


def lost_parameters(iteration: int) -> dict[str, object]:
    return {"kind": "non-finite", "iteration": iteration, "message": "parameter ['net'] became nan in the update"}


def lost_reward(iteration: int) -> dict[str, object]:
    return {"kind": "non-finite", "iteration": iteration, "message": "reward of environment 2 at step 3 is nan; undone"}


# symptom -> (a run that has it, a similar run that does not)
RUNS: dict[Symptom, tuple[RunHistory, RunHistory]] = {
    failure_findings.nan_from_environment: (history(events=(lost_reward(7),)), history(events=(lost_parameters(7),))),
    failure_findings.divergence: (history(events=(lost_parameters(7),)), history(events=(lost_reward(7),))),
    failure_findings.first_ratio_not_one: (history(first_ratio_error=0.3), history(first_ratio_error=1e-5)),
    value_findings.reward_scale: (
        history(target_std=1e5, reward_abs_mean=1e4),
        history({"normalize_rewards": True}, target_std=1.0, reward_abs_mean=1e4),
    ),
    memory_findings.sequences_too_short: (
        history({"seq_length": 16}, memory_effect_start=0.4, memory_effect_end=0.3, memory_carried=0.6),
        history({"seq_length": 16}, memory_effect_start=0.4, memory_effect_end=0.01, memory_carried=0.6),
    ),
    memory_findings.stale_states: (
        history({"seq_length": 16}, memory_stale=0.12, memory_moved=0.15),
        history({"seq_length": 16}, memory_stale=0.01, memory_moved=0.15),
    ),
    value_findings.gamma_too_myopic: (history({"gamma": 0.5}), history({"gamma": 0.98})),
    value_findings.gamma_too_long: (
        history({"gamma": 0.99999}, explained_variance=0.1),
        history({"gamma": 0.999}, explained_variance=0.1),
    ),
    value_findings.values_not_learned: (
        history({"value_weight": 0.0}, explained_variance=-0.2),
        history({"value_weight": 0.5}, explained_variance=-0.2),
    ),
    value_findings.explained_variance_negative: (history(explained_variance=-0.8), history(explained_variance=0.1)),
    scale_findings.observation_scale: (
        history(obs_abs_max=5e3, obs_std_max=1e3),
        history({"normalize_obs": True}, obs_abs_max=5e3, obs_std_max=1e3),
    ),
    scale_findings.constant_observation: (
        history(obs_constant_entries=lambda k: 0 if k < 10 else 1, obs_constant_entry=lambda k: -1 if k < 10 else 3),
        history(obs_constant_entries=0, obs_constant_entry=-1),
    ),
    scale_findings.actions_clipped: (
        history({"log_std_start": 2.0}, action_clip_fraction=0.9),
        history({"log_std_start": 0.0}, action_clip_fraction=0.3),
    ),
    policy_steps.learning_rate_too_high: (
        history({"learning_rate": 0.03}, learning_rate=0.03, kl=0.5, clip_fraction=0.7),
        # The same KL, caused by a clip range of 10.
        history({"clip_range": 10.0}, kl=0.5, clip_fraction=0.0),
    ),
    policy_steps.learning_rate_too_low: (
        history({"learning_rate": 1e-6}, learning_rate=1e-6, kl=1e-8),
        # A schedule anneals the rate to 0: KL is near 0 at the end, and nothing is wrong.
        history(learning_rate=lambda k: 3e-4 if k < 20 else 1e-7, kl=lambda k: 0.01 if k < 20 else 1e-9),
    ),
    policy_steps.gradient_clip_too_tight: (
        history({"max_grad_norm": 1e-7}, kl=1e-9),
        history({"max_grad_norm": 0.5}, gradient_norm=30.0),
    ),
    policy_steps.clip_range_too_large: (history({"clip_range": 10.0}, kl=0.4, clip_fraction=0.0), history()),
    policy_steps.clip_range_too_small: (history({"clip_range": 1e-4}, clip_fraction=0.95, kl=1e-7), history()),
    policy_steps.too_many_epochs: (
        history({"epochs": 20, "rollout_transitions": 64, "minibatch_transitions": 32}, kl=0.1),
        history({"epochs": 4}, kl=0.01),
    ),
    policy_steps.kl_too_high: (history(kl=0.3), history(kl=0.02)),
    policy_steps.kl_near_zero: (history(kl=1e-7), history(kl=0.002)),
    policy_steps.clip_fraction_high: (history(clip_fraction=0.7), history(clip_fraction=0.2)),
    batch_findings.minibatch_too_small: (history({"minibatch_transitions": 4}), history({"minibatch_transitions": 64})),
    batch_findings.too_few_minibatches: (
        history({"minibatches": 1, "minibatch_transitions": 2048, "epochs": 1, "updates_per_iteration": 1}),
        history({"minibatches": 1, "minibatch_transitions": 256, "epochs": 20, "updates_per_iteration": 20}),
    ),
    batch_findings.too_many_minibatches: (history({"minibatches": 512}), history({"minibatches": 32})),
    batch_findings.rollout_too_small: (history({"rollout_transitions": 32, "num_envs": 4}), history()),
    batch_findings.rollout_too_large: (history({"rollout_transitions": 65_536, "iterations": 3}), history()),
    batch_findings.too_few_episodes: (
        history({"algo": "reinforce"}, episodes=lambda k: k % 2),
        history({"algo": "ppo"}, episodes=lambda k: k % 2),
    ),
    entropy_findings.entropy_collapse: (
        history(entropy=lambda k: 0.69 if k < 4 else 0.001, episode_return=lambda k: 3.0 if k > 3 else 0.5 * k),
        # Nearly deterministic early, but the return keeps rising.
        history(entropy=lambda k: 0.69 if k < 8 else 0.01, episode_return=lambda k: 20.0 + 5 * k),
    ),
    entropy_findings.entropy_coef_too_high: (
        history({"entropy_start": 1.0}, entropy=0.69, entropy_coef=1.0),
        history({"entropy_start": 0.01}, entropy=0.69, entropy_coef=0.01),
    ),
    entropy_findings.dead_head: (history(kl__arm=0.01, kl__hand=0.0), history(kl__arm=0.01, kl__hand=0.002)),
    component_findings.dominating_component: (
        history(component__speed__share=0.98, component__cost__share=0.02),
        history(component__speed__share=0.7, component__cost__share=0.3),
    ),
    component_findings.dead_component: (
        history(component__speed__share=0.999, component__cost__share=0.001),
        history(component__speed__share=0.8, component__cost__share=0.2),
    ),
    component_findings.implied_reweighting: (
        history(BALANCED, component__speed__weight=0.02, component__cost__weight=0.98),
        # The user states 1:49 himself.
        history(
            {**BALANCED, "component_weights": "0.02,0.98"}, component__speed__weight=0.02, component__cost__weight=0.98
        ),
    ),
    component_findings.wandering_share: (
        history(LEARNED, component__speed__product=lambda i: 0.95 - 0.02 * i),
        # Moves at first, then stays.
        history(LEARNED, component__speed__product=lambda i: max(0.5, 0.95 - 0.03 * i)),
    ),
    component_findings.evaluation_against_weights: (
        history(BALANCED, **WEIGHTED, eval_mean=lambda i: 100.0 - 2 * i if i % 5 == 0 else None),
        history(BALANCED, **WEIGHTED, eval_mean=lambda i: 100.0 + 2 * i if i % 5 == 0 else None),
    ),
    replay_findings.replay_ratio: (history(REPLAY, updates_per_step=50.0), history(REPLAY, updates_per_step=1.0)),
    replay_findings.q_overestimation: (
        # At most 100 points in 100 steps: about 63 discounted at 0.99.
        history(REPLAY, q_mean=lambda k: 100.0 * k, episode_return=100.0, episode_length=100.0),
        history(REPLAY, q_mean=60.0, episode_return=100.0, episode_length=100.0),
    ),
    replay_findings.target_lag: (
        history(REPLAY | COPIES, q_mean=5.0, updates_total=4000, episode_return=100.0, episode_length=100.0),
        history(REPLAY | COPIES, q_mean=30.0, updates_total=4000, episode_return=100.0, episode_length=100.0),
    ),
    replay_findings.scale_of_replayed_rewards: (
        history(REPLAY, episode_return=20_000.0, episode_length=100.0),  # 200 a step, over a horizon of 100
        history(REPLAY, episode_return=200.0, episode_length=100.0),
    ),
    replay_findings.rrd_constant_returns: (
        history(REPLAY | {"redistribute": "rrd"}, episode_return=1.0, episode_return_std=0.0),
        history(REPLAY | {"redistribute": "rrd"}),
    ),
    replay_findings.reward_model_variance: (
        history(REPLAY | {"redistribute": "rrd"}, reward_model_variance=0.0),
        history(REPLAY | {"redistribute": "rrd"}, reward_model_variance=0.1),
    ),
    env_findings.delayed_actions: (history(**effects(0.02, 0.01, 0.9, 0.02)), history(**effects(0.9, 0.01, 0.02, 0.0))),
    # Hidden velocities: every earlier action acts alike.
    env_findings.sticky_actions: (history(**effects(0.7, 0.2, 0.05, 0.01)), history(**effects(0.5, 0.5, 0.5, 0.5))),
    env_findings.repeated_observations: (history(obs_repeat_fraction=0.5), history(obs_repeat_fraction=0.01)),
    env_findings.unexplained_terminations: (
        history(termination_sign=2.2, terminations_seen=40.0),
        history(termination_sign=8.0, terminations_seen=40.0),
    ),
    env_findings.time_limit_as_termination: (
        history(terminated_length_max=200.0, terminated_at_max=1.0),
        history(terminated_length_max=lambda k: 100.0 + k, terminated_at_max=0.1, truncated_length_max=200.0),
    ),
    env_findings.failures_as_truncations: (
        history(truncated_length_min=12.0, truncated_length_max=60.0),
        history(truncated_length_min=200.0, truncated_length_max=200.0),
    ),
    outcome_findings.wild_swings: (history(episode_return=lambda k: 100.0 * (k % 2)), history()),
    outcome_findings.stuck: (history(episode_return=lambda k: 20.0 + k % 3), history()),
    harm.below_preset: (with_preset(500.0), with_preset(200.0)),
    outcome_findings.evaluation_apart: (
        history(eval_mean=lambda k: 10.0 if k == 39 else None),
        history(eval_mean=lambda k: 200.0 if k == 39 else None),
    ),
    outcome_findings.overfitting_the_batch: (
        history(eval_mean=lambda k: 50.0 + k % 2, policy_loss=lambda k: -0.01 - 0.01 * k),
        history(eval_mean=lambda k: 50.0 + 5 * k, policy_loss=lambda k: -0.01 - 0.01 * k),
    ),
    machine_findings.memory_near_limit: (
        history(machine_memory_bytes=9.2 * GIB, memory_limit_bytes=10.0 * GIB),
        history(machine_memory_bytes=8.0 * GIB, memory_bytes=9.9 * GIB, memory_limit_bytes=10.0 * GIB),
    ),
    machine_findings.environment_bound: (history(collect_seconds=0.9), history()),
    machine_findings.update_bound: (history(update_seconds=0.9), history()),
    machine_findings.accelerator_idle: (history(accelerator_use=0.2), history(accelerator_use=0.8)),
}


def test_every_symptom_has_a_pair_of_runs() -> None:
    assert set(RUNS) == set(SYMPTOMS)


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_a_symptom_is_found_in_the_run_that_has_it(symptom: Callable[[RunHistory], object]) -> None:
    assert symptom(RUNS[symptom][0]) is not None


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_a_symptom_is_not_found_in_the_similar_run(symptom: Callable[[RunHistory], object]) -> None:
    assert symptom(RUNS[symptom][1]) is None


def test_a_healthy_run_raises_no_alarm() -> None:
    assert [finding.name for finding in examine(history()) if finding.alarm] == []


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_a_finding_has_evidence_a_cause_and_a_source(symptom: Symptom) -> None:
    finding = symptom(RUNS[symptom][0])
    assert finding is not None
    assert finding.evidence and finding.cause and finding.source
    assert any(digit in finding.message for digit in "0123456789")


def heading_anchors(page: Path) -> set[str]:
    """The anchors that MkDocs gives to the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_a_source_is_a_paper_a_link_or_a_page_that_exists(symptom: Symptom) -> None:
    finding = symptom(RUNS[symptom][0])
    assert finding is not None
    for source in finding.source.split("; "):
        page = re.match(r"docs/([\w/-]+\.md)#([\w-]+)", source)
        if page is None:
            assert re.search(r"et al\., (19|20)\d\d|^https://", source), source
        else:
            assert page[2] in heading_anchors(DOCS / page[1]), source


def test_a_task_that_takes_a_fixed_number_of_steps_has_no_hidden_time_limit() -> None:
    fixed = {"terminated_length_max": 16.0, "terminated_at_max": 1.0}
    assert env_findings.time_limit_as_termination(history(**fixed, termination_sign=2.0)) is not None
    unmeasured = env_findings.time_limit_as_termination(history(**fixed))
    assert unmeasured is not None and unmeasured.confidence < 0.5
    assert env_findings.time_limit_as_termination(history(**fixed, termination_sign=12.0)) is None


def test_memory_warns_at_90_percent_and_is_a_danger_at_95() -> None:
    severities = []
    for used in (9.0, 9.4, 9.5):
        finding = machine_findings.memory_near_limit(
            history(memory_bytes=0.3 * GIB, machine_memory_bytes=used * GIB, memory_limit_bytes=10.0 * GIB)
        )
        assert finding is not None and "0.30 GiB of them by this run" in finding.message
        severities.append(finding.severity)
    assert severities == [WARNING, WARNING, DANGER]


def test_a_learning_rate_outside_its_range_is_brought_back_to_the_default() -> None:
    finding = policy_steps.learning_rate_too_high(
        history({"learning_rate": 0.03}, learning_rate=0.03, kl=0.5, clip_fraction=0.7)
    )
    assert finding is not None and finding.flags[0] == "--learning-rate 0.0003"


def test_a_rollout_of_32_is_brought_to_the_planners_2048() -> None:
    finding = batch_findings.rollout_too_small(history({"rollout_transitions": 32, "num_envs": 4}))
    assert finding is not None and finding.flags[0] == "--rollout-steps 512"  # 4 environments x 512 = 2048


def test_a_myopic_gamma_is_reported_with_its_horizon() -> None:
    finding = value_findings.gamma_too_myopic(history({"gamma": 0.5}))
    assert finding is not None and finding.evidence["horizon_steps"] == 2.0
    assert finding.flags == ("--gamma 0.992",)  # 1 - 4/500: a horizon of a quarter of the episode


def test_every_finding_has_its_row_in_the_documentation() -> None:
    page = (DOCS / "doctor.md").read_text()
    names = [finding.name for symptom in SYMPTOMS if (finding := symptom(RUNS[symptom][0])) is not None]
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_the_flags_of_a_finding_can_be_pasted(symptom: Symptom) -> None:
    finding = symptom(RUNS[symptom][0])
    assert finding is not None
    algo = RUNS[symptom][0].facts.get("algo")
    for flags in finding.flags:
        parts = "--components a b" if "component" in flags else ""
        base = f"plan --obs-shape 4 --action-size 2 --algo {algo} {parts}"
        assert run_line(f"{base} {flags}").code == 0, flags


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        ({}, ("--normalize-rewards", "--popart --no-normalize-rewards")),
        ({**BALANCED, "component_norm": "none"}, ("--component-balance --component-norm scale",)),
    ],
)
def test_rewards_of_a_bad_scale_get_flags_that_their_kind_of_run_accepts(
    facts: dict[str, object], flags: tuple[str, ...]
) -> None:
    found = value_findings.reward_scale(history(facts, target_std=1e5, reward_abs_mean=1e4))
    assert found is not None
    assert found.flags == flags


@pytest.mark.parametrize(("ratio", "wanted"), [(0.0, 100), (0.01, 100), (50.0, 200)])
def test_a_replay_ratio_is_brought_back_to_one_or_two_updates_per_step(ratio: float, wanted: int) -> None:
    found = replay_findings.replay_ratio(history({**REPLAY, "steps_per_iteration": 100}, updates_per_step=ratio))
    assert found is not None
    assert found.flags == (f"--updates-per-iteration {wanted}",)


def test_advised_rollouts_count_the_agents() -> None:
    # 2048 transitions by 8 environments of 4 agents are 64 steps.
    facts = {"rollout_transitions": 65_536, "iterations": 3, "num_envs": 8, "num_agents": 4, "rollout_steps": 2048}
    finding = batch_findings.rollout_too_large(history(facts))
    assert finding is not None and finding.flags == ("--rollout-steps 64",)


def test_a_few_terminations_say_nothing_of_their_reason() -> None:
    few = history(termination_sign=2.2, terminations_seen=5.0)
    assert env_findings.unexplained_terminations(few) is None
