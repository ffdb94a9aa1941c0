"""Causes rank before their consequences, each finding is reported once, and damaged records are diagnosed too."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_runs import HEALTHY_FACTS, healthy, history

from batchwright.doctor import policy_steps
from batchwright.doctor.finding import DANGER, WARNING, Finding
from batchwright.doctor.live import LiveDoctor
from batchwright.doctor.reference_plan import KnownResult
from batchwright.doctor.run_history import MOST_RECORDS, Facts, RunHistory
from batchwright.doctor.text import one_line
from batchwright.doctor.triage import examine, rank, triage, unexplained, without_contradictions


def names(found: list[Finding]) -> list[str]:
    return [finding.name for finding in found]


def finding(name: str, severity: int, confidence: float) -> Finding:
    return Finding(name, severity, confidence, "evidence", "cause", "source")


def test_nan_from_the_environment_outranks_divergence() -> None:
    events = tuple(
        {"kind": "non-finite", "iteration": k, "message": text}
        for k, text in ((3, "parameter became nan"), (4, "observation[0] of environment 1 is inf"))
    )
    assert names(examine(history(events=events)))[:2] == ["nan-from-environment", "divergence"]


def test_a_high_learning_rate_outranks_the_kl_it_causes() -> None:
    found = names(examine(history({"learning_rate": 0.03}, learning_rate=0.03, kl=0.5, clip_fraction=0.7)))
    assert found.index("learning-rate-too-high") == 0
    assert found.index("kl-too-high") > 0


def test_the_scale_of_rewards_outranks_the_values_it_spoils() -> None:
    found = names(examine(history(target_std=1e5, reward_abs_mean=1e4, explained_variance=-2.0, value_loss=1e9)))
    assert found[0] == "reward-scale" and "explained-variance-negative" in found[1:]


def test_a_consequence_ranks_behind_its_cause_even_with_a_higher_score() -> None:
    consequence, cause = finding("kl-too-high", DANGER, 1.0), finding("learning-rate-too-high", WARNING, 0.6)
    assert names(rank([consequence, cause])) == ["learning-rate-too-high", "kl-too-high"]


def test_a_cause_with_a_higher_score_ranks_before_one_that_could_explain_it() -> None:
    facts = {"learning_rate": 0.1, "rollout_transitions": 128, "minibatch_transitions": 64, "num_envs": 1}
    found = examine(history(facts, learning_rate=0.1, kl=0.5, **STANDS_STILL))
    assert names(found)[:2] == ["learning-rate-too-high", "rollout-too-small"]
    assert names(unexplained(found)) == ["learning-rate-too-high", "rollout-too-small"]


def test_a_symptom_without_a_cause_is_reported() -> None:
    assert names(unexplained([finding("kl-too-high", WARNING, 0.5)])) == ["kl-too-high"]


def test_an_empty_record_has_no_findings() -> None:
    assert triage([], Facts()) == []


def test_a_record_without_a_plan_is_diagnosed_by_its_metrics() -> None:
    records = [healthy(k) | {"kl": 0.5, "clip_fraction": 0.8} for k in range(40)]
    assert "kl-too-high" in names(triage(records, Facts()))


def test_values_that_are_not_numbers_are_ignored() -> None:
    records: list[dict[str, Any]] = [
        healthy(k) | {"kl": "torn", "entropy": None, "episode_return": []} for k in range(40)
    ]
    assert isinstance(triage(records, Facts(HEALTHY_FACTS)), list)


def test_a_long_record_is_thinned_evenly_with_both_ends() -> None:
    records = [{"iteration": k} for k in range(100_000)]
    kept = RunHistory(records, Facts()).records
    assert len(kept) == MOST_RECORDS
    assert (kept[0]["iteration"], kept[-1]["iteration"]) == (0, 99_999)


NUMBERS = st.one_of(st.none(), st.integers(-3, 10**12), st.floats(), st.text(max_size=3))
EVIDENCE = ("obs_std_median", "action_effect_0", "action_effect_1", "action_effect_2", "action_effect_3")
ENDS = (
    "termination_sign",
    "terminated_length_max",
    "terminated_at_max",
    "truncated_length_min",
    "truncated_length_max",
)
NAMES = st.sampled_from([*healthy(0), *EVIDENCE, *ENDS, "q_mean", "updates_per_step", "kl/a", "kl/b", "nonfinite"])


FACTS = st.dictionaries(st.sampled_from(list(HEALTHY_FACTS)), st.one_of(st.none(), st.integers(1, 10**9)))


@given(st.lists(st.dictionaries(NAMES, NUMBERS), max_size=12), FACTS)
@settings(max_examples=150, deadline=None)
def test_no_record_crashes_the_doctor(records: list[dict[str, Any]], facts: dict[str, Any]) -> None:
    known = KnownResult("ppo-cartpole", 500.0, 10_000, same_env=True)
    stated = Facts(HEALTHY_FACTS | facts, pinned=frozenset(facts), reference=HEALTHY_FACTS, known_result=known)
    for found in triage([healthy(k) | record for k, record in enumerate(records)], stated):
        assert one_line(found)


def sick(iteration: int) -> dict[str, Any]:
    return healthy(iteration) | {"kl": 0.5, "clip_fraction": 0.8, "learning_rate": 0.03}


def test_live_each_finding_is_reported_once() -> None:
    doctor = LiveDoctor(Facts(HEALTHY_FACTS | {"learning_rate": 0.03}), clock=iter(range(10_000)).__next__)
    reported = [name for k in range(40) for name in names(doctor.check(sick(k)))]
    assert reported.count("learning-rate-too-high") == 1
    assert "kl-too-high" not in reported  # its cause was


def test_live_a_resumed_run_does_not_repeat_earlier_advice() -> None:
    doctor = LiveDoctor(Facts(HEALTHY_FACTS | {"learning_rate": 0.03}), clock=iter(range(10_000)).__next__)
    advice = {"kind": "advice", "finding": "learning-rate-too-high", "severity": "danger"}
    doctor.restore([sick(k) for k in range(20)], [advice])
    assert [name for k in range(20, 40) for name in names(doctor.check(sick(k)))] == []


def test_live_checks_stop_where_they_would_take_more_than_their_share() -> None:
    # Every reading of the clock advances it by 1 s: a check takes 1 s, and 3 s pass between two checks.
    doctor = LiveDoctor(Facts(HEALTHY_FACTS), clock=iter(range(10_000)).__next__)
    for k in range(40):
        doctor.check(healthy(k))
    assert doctor.spent_seconds == 1.0


@pytest.mark.parametrize(
    ("facts", "metrics"),
    [
        ({"learning_rate": 1e-6}, {"learning_rate": 1e-6, "kl": 1e-8, "episode_return": 20.0}),
        ({"learning_rate": 0.03}, {"learning_rate": 0.03, "kl": 0.5, "clip_fraction": 0.7, "episode_return": 20.0}),
        ({"learning_rate": 3e-4}, {"kl": 0.5, "clip_fraction": 0.7, "episode_return": 20.0}),
        ({"learning_rate": 3e-4}, {"kl": 1e-6, "episode_return": 20.0}),
    ],
)
def test_one_diagnosis_names_one_learning_rate(facts: dict[str, float], metrics: dict[str, float]) -> None:
    """Stuck, near-zero KL and a learning rate below its range once named 0.0003, 3e-06 and 1e-05 for one run."""
    found = examine(history(facts, **metrics))
    named = [words for one in found for flags in one.flags for words in re.findall(r"--learning-rate \S+", flags)]
    assert len(named) > 1, "findings that propose a rate"
    assert len(set(named)) == 1


def test_what_is_said_during_training_is_the_rate_of_the_last_diagnosis() -> None:
    """A finding reported early, before the others, names the same reference."""
    low = history({"learning_rate": 1e-6}, learning_rate=1e-6, kl=1e-8, episode_return=20.0)
    for symptom in (policy_steps.learning_rate_too_low, policy_steps.kl_near_zero):
        found = symptom(low)
        assert found is not None
        assert found.flags[0] == "--learning-rate 0.0003"


STANDS_STILL = {"episode_return": lambda k: 20.0 + k % 3}


@pytest.mark.parametrize(
    "facts",
    [
        {"learning_rate": 0.03},
        {"clip_range": 10.0},
        {"minibatch_transitions": 4},
        {"gamma": 0.5},
        {"rollout_transitions": 32, "num_envs": 4},
        {"rollout_transitions": 65_536, "iterations": 3},
    ],
)
def test_a_stated_number_alone_is_a_hint_until_the_record_shows_harm(facts: dict[str, Any]) -> None:
    learned = {"episode_return": lambda k: 20.0 + 10.0 * min(k, 20)}
    harmless, harmed = examine(history(facts, **learned)), examine(history(facts, **STANDS_STILL))
    hints = {one.name for one in harmless if one.hint}
    assert hints and not [one.name for one in harmless if one.alarm]
    assert hints & {one.name for one in harmed if one.alarm}


def test_a_return_that_has_fallen_is_harm() -> None:
    found = examine(history({"learning_rate": 0.03}, episode_return=lambda k: 200.0 - 9.0 * max(0, k - 20)))
    assert "learning-rate-too-high" in names([one for one in found if one.alarm])


def test_findings_that_contradict_each_other_are_not_shown_together() -> None:
    """One huge step made the policy deterministic; since then it does not move."""
    run = history(
        {"learning_rate": 0.1},
        learning_rate=0.1,
        kl=lambda k: 4.0 if k == 1 else 0.0,
        entropy=lambda k: 0.69 if k < 2 else 0.0,
        episode_return=9.4,
    )
    found = examine(run)
    assert names(found)[0] == "learning-rate-too-high"
    assert "kl-near-zero" not in names(found)
    both = [finding("rollout-too-small", WARNING, 0.9), finding("rollout-too-large", WARNING, 0.5)]
    assert names(without_contradictions(rank(both))) == ["rollout-too-small"]


def test_evidence_is_quoted_from_when_it_happened() -> None:
    run = history(
        {"learning_rate": 0.1},
        kl=lambda k: 4.0 if k == 1 else 0.0,
        entropy=lambda k: 0.69 if k < 2 else 0.0,
        episode_return=9.4,
    )
    found = policy_steps.learning_rate_too_high(run)
    assert found is not None
    assert "KL was 4 nats in iteration 1" in found.message
    assert found.began == 1
