"""Each finding once where it is and once where it is not, by records written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_up import case

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
from batchwright.doctor.finding import DANGER, WARNING
from batchwright.doctor.run_history import RunHistory
from batchwright.doctor.triage import SYMPTOMS, Symptom, examine
from run_batchwright import run_line

GIB = 2**30
REPLAY = {"regime": "replay", "algo": "sac"}


def lost_parameters(iteration: int) -> dict[str, object]:
    return {"kind": "non-finite", "iteration": iteration, "message": "parameter ['net'] became nan in the update"}


def lost_reward(iteration: int) -> dict[str, object]:
    return {"kind": "non-finite", "iteration": iteration, "message": "reward of environment 2 at step 3 is nan; undone"}


# symptom -> (a case that has it, one that is near and has it not)
CASES: dict[Symptom, tuple[RunHistory, RunHistory]] = {
    broken.nan_from_environment: (case(events=(lost_reward(7),)), case(events=(lost_parameters(7),))),
    broken.divergence: (case(events=(lost_parameters(7),)), case(events=(lost_reward(7),))),
    broken.first_ratio_not_one: (case(first_ratio_error=0.3), case(first_ratio_error=1e-5)),
    values.reward_scale: (
        case(target_std=1e5, reward_abs_mean=1e4),
        case({"normalize_rewards": True}, target_std=1.0, reward_abs_mean=1e4),
    ),
    values.gamma_too_myopic: (case({"gamma": 0.5}), case({"gamma": 0.98})),
    values.gamma_too_long: (
        case({"gamma": 0.99999}, explained_variance=0.1),
        case({"gamma": 0.999}, explained_variance=0.1),
    ),
    values.values_not_learned: (
        case({"value_weight": 0.0}, explained_variance=-0.2),
        case({"value_weight": 0.5}, explained_variance=-0.2),
    ),
    values.explained_variance_negative: (case(explained_variance=-0.8), case(explained_variance=0.1)),
    scales.observation_scale: (
        case(obs_abs_max=5e3, obs_std_max=1e3),
        case({"normalize_obs": True}, obs_abs_max=5e3, obs_std_max=1e3),
    ),
    scales.actions_clipped: (
        case({"log_std_start": 2.0}, action_clip_fraction=0.9),
        case({"log_std_start": 0.0}, action_clip_fraction=0.3),
    ),
    policy_steps.learning_rate_too_high: (
        case({"learning_rate": 0.03}, learning_rate=0.03, kl=0.5, clip_fraction=0.7),
        # The same movement by a clip range of 10: not the learning rate's fault.
        case({"clip_range": 10.0}, kl=0.5, clip_fraction=0.0),
    ),
    policy_steps.learning_rate_too_low: (
        case({"learning_rate": 1e-6}, learning_rate=1e-6, kl=1e-8),
        # A schedule has taken the rate to 0 at the end: nothing moves there, and nothing is wrong.
        case(learning_rate=lambda k: 3e-4 if k < 20 else 1e-7, kl=lambda k: 0.01 if k < 20 else 1e-9),
    ),
    policy_steps.gradient_clip_too_tight: (
        case({"max_grad_norm": 1e-7}, kl=1e-9),
        case({"max_grad_norm": 0.5}, gradient_norm=30.0),
    ),
    policy_steps.clip_range_too_large: (case({"clip_range": 10.0}, kl=0.4, clip_fraction=0.0), case()),
    policy_steps.clip_range_too_small: (case({"clip_range": 1e-4}, clip_fraction=0.95, kl=1e-7), case()),
    policy_steps.too_many_epochs: (
        case({"epochs": 20, "rollout_transitions": 64, "minibatch_transitions": 32}, kl=0.1),
        case({"epochs": 4}, kl=0.01),
    ),
    policy_steps.kl_too_high: (case(kl=0.3), case(kl=0.02)),
    policy_steps.kl_near_zero: (case(kl=1e-7), case(kl=0.002)),
    policy_steps.clip_fraction_out_of_band: (case(clip_fraction=0.7), case(clip_fraction=0.2)),
    batches.minibatch_too_small: (case({"minibatch_transitions": 4}), case({"minibatch_transitions": 64})),
    batches.too_few_minibatches: (
        case({"minibatches": 1, "minibatch_transitions": 2048, "epochs": 1, "updates_per_iteration": 1}),
        case({"minibatches": 1, "minibatch_transitions": 256, "epochs": 20, "updates_per_iteration": 20}),
    ),
    batches.too_many_minibatches: (case({"minibatches": 512}), case({"minibatches": 32})),
    batches.rollout_too_small: (case({"rollout_transitions": 32, "num_envs": 4}), case()),
    batches.rollout_too_large: (case({"rollout_transitions": 65_536, "iterations": 3}), case()),
    batches.too_few_episodes: (
        case({"algo": "reinforce"}, episodes=lambda k: k % 2),
        case({"algo": "ppo"}, episodes=lambda k: k % 2),
    ),
    exploration.entropy_collapse: (
        case(entropy=lambda k: 0.69 if k < 4 else 0.001, episode_return=lambda k: 3.0 if k > 3 else 0.5 * k),
        # Certain early, and better ever since: it has found what it was looking for.
        case(entropy=lambda k: 0.69 if k < 8 else 0.01, episode_return=lambda k: 20.0 + 5 * k),
    ),
    exploration.entropy_bonus_too_high: (
        case({"entropy_start": 1.0}, entropy=0.69, entropy_bonus=1.0),
        case({"entropy_start": 0.01}, entropy=0.69, entropy_bonus=0.01),
    ),
    exploration.dead_head: (case(kl__arm=0.01, kl__hand=0.0), case(kl__arm=0.01, kl__hand=0.002)),
    components.dominating_component: (
        case(component__speed__advantage=10.0, component__cost__advantage=0.01),
        case(component__speed__advantage=1.0, component__cost__advantage=0.5),
    ),
    components.dead_component: (
        case(component__speed__advantage=1.0, component__cost__advantage=0.0),
        case(component__speed__advantage=1.0, component__cost__advantage=0.2),
    ),
    replay.replay_ratio: (case(REPLAY, updates_per_step=50.0), case(REPLAY, updates_per_step=1.0)),
    replay.q_overestimation: (
        # At most 100 points in 100 steps: about 63 discounted at 0.99.
        case(REPLAY, q_mean=lambda k: 100.0 * k, episode_return=100.0, episode_length=100.0),
        case(REPLAY, q_mean=60.0, episode_return=100.0, episode_length=100.0),
    ),
    replay.rrd_constant_returns: (
        case(REPLAY | {"redistribute": "rrd"}, episode_return=1.0, episode_return_std=0.0),
        case(REPLAY | {"redistribute": "rrd"}),
    ),
    replay.reward_model_variance: (
        case(REPLAY | {"redistribute": "rrd"}, reward_model_variance=0.0),
        case(REPLAY | {"redistribute": "rrd"}, reward_model_variance=0.1),
    ),
    outcome.wild_swings: (case(episode_return=lambda k: 100.0 * (k % 2)), case()),
    outcome.stuck: (case(episode_return=lambda k: 20.0 + k % 3), case()),
    outcome.evaluation_apart: (
        case(eval_mean=lambda k: 10.0 if k == 39 else None),
        case(eval_mean=lambda k: 200.0 if k == 39 else None),
    ),
    outcome.overfitting_the_batch: (
        case(eval_mean=lambda k: 50.0 + k % 2, policy_loss=lambda k: -0.01 - 0.01 * k),
        case(eval_mean=lambda k: 50.0 + 5 * k, policy_loss=lambda k: -0.01 - 0.01 * k),
    ),
    machine.memory_near_limit: (
        case(memory_bytes=9.2 * GIB, memory_limit_bytes=10.0 * GIB),
        case(memory_bytes=8.0 * GIB, memory_limit_bytes=10.0 * GIB),
    ),
    machine.environment_bound: (case(collect_seconds=0.9), case()),
    machine.update_bound: (case(update_seconds=0.9), case()),
    machine.accelerator_idle: (case(accelerator_use=0.2), case(accelerator_use=0.8)),
}


def test_every_symptom_has_its_pair_of_cases() -> None:
    assert set(CASES) == set(SYMPTOMS)


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_a_symptom_is_found_where_it_is(symptom: Callable[[RunHistory], object]) -> None:
    assert symptom(CASES[symptom][0]) is not None


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_a_symptom_is_not_found_where_it_is_not(symptom: Callable[[RunHistory], object]) -> None:
    assert symptom(CASES[symptom][1]) is None


def test_a_healthy_run_raises_no_alarm() -> None:
    assert [finding.name for finding in examine(case()) if finding.alarm] == []


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_a_finding_has_evidence_a_cause_and_a_source(symptom: Symptom) -> None:
    finding = symptom(CASES[symptom][0])
    assert finding is not None
    assert finding.evidence and finding.cause and finding.source
    assert any(digit in finding.message for digit in "0123456789")


def test_memory_warns_at_90_percent_and_is_a_danger_at_95() -> None:
    severities = []
    for used in (9.0, 9.4, 9.5):
        finding = machine.memory_near_limit(case(memory_bytes=used * GIB, memory_limit_bytes=10.0 * GIB))
        assert finding is not None
        severities.append(finding.severity)
    assert severities == [WARNING, WARNING, DANGER]


def test_a_learning_rate_of_its_own_decade_is_brought_back_to_the_usual_one() -> None:
    finding = policy_steps.learning_rate_too_high(
        case({"learning_rate": 0.03}, learning_rate=0.03, kl=0.5, clip_fraction=0.7)
    )
    assert finding is not None and finding.flags[0] == "--learning-rate 0.0003"


def test_a_rollout_of_32_is_brought_to_the_planners_2048() -> None:
    finding = batches.rollout_too_small(case({"rollout_transitions": 32, "num_envs": 4}))
    assert finding is not None and finding.flags[0] == "--rollout-steps 512"  # 4 environments x 512 = 2048


def test_a_myopic_gamma_is_told_the_horizon() -> None:
    finding = values.gamma_too_myopic(case({"gamma": 0.5}))
    assert finding is not None and finding.evidence["horizon_steps"] == 2.0
    assert finding.flags == ("--gamma 0.992",)  # 1 - 4/500: a horizon of a quarter of the episode


def test_every_finding_has_its_row_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    names = [finding.name for symptom in SYMPTOMS if (finding := symptom(CASES[symptom][0])) is not None]
    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.__name__)
def test_the_flags_of_a_finding_can_be_pasted(symptom: Symptom) -> None:
    finding = symptom(CASES[symptom][0])
    assert finding is not None
    algo = CASES[symptom][0].facts.get("algo")
    for flags in finding.flags:
        parts = "--components a b" if "component" in flags else ""
        base = f"plan --obs-shape 4 --action-size 2 --algo {algo} {parts}"
        assert run_line(f"{base} {flags}").code == 0, flags


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        ({}, ("--normalize-rewards", "--popart --no-normalize-rewards")),
        ({"component_norm": "none"}, ("--component-norm scale",)),
        ({"component_norm": "center"}, ()),
    ],
)
def test_rewards_of_a_bad_scale_get_flags_that_their_kind_of_run_accepts(
    facts: dict[str, object], flags: tuple[str, ...]
) -> None:
    found = values.reward_scale(case(facts, target_std=1e5, reward_abs_mean=1e4))
    assert found is not None
    assert found.flags == flags


@pytest.mark.parametrize(("ratio", "wanted"), [(0.0, 100), (0.01, 100), (50.0, 200)])
def test_a_replay_ratio_is_brought_back_to_one_or_two_updates_per_step(ratio: float, wanted: int) -> None:
    found = replay.replay_ratio(case({**REPLAY, "steps_per_iteration": 100}, updates_per_step=ratio))
    assert found is not None
    assert found.flags == (f"--updates-per-iteration {wanted}",)
