"""The rules of thumb, one by one: each is a check with its own message and source, never a law."""

import pytest

from batchwright.core.machine import GIB, Gpu, Machine
from run_batchwright import LAPTOP, plan

# (check, options that break it, a figure its message must have, options that keep it)
RULES = [
    ("minibatch-size", {"minibatch_transitions": 16}, "32-256", {"minibatch_transitions": 64}),
    ("minibatch-size", {"minibatch_transitions": 1024}, "32-256", {"minibatch_transitions": 256}),
    ("minibatches-per-epoch", {"minibatches": 2}, "--minibatches 4", {"minibatches": 4}),
    ("minibatches-per-epoch", {"minibatches": 64}, "--minibatches 32", {"minibatches": 32}),
    (
        "minibatch-for-actions",
        {"action_size": 60, "minibatch_transitions": 512},
        "10 x 60 = 600",
        {"action_size": 51, "minibatch_transitions": 512},
    ),
    ("several-envs", {"num_envs": 1, "rollout_steps": 2048}, "1 environment", {"num_envs": 2, "rollout_steps": 1024}),
    (
        "reinforce-rollout",
        {"algo": "reinforce", "num_envs": 3},
        "768 transitions",
        {"algo": "reinforce", "num_envs": 4},
    ),
    ("starting-rollout", {"action_kind": "discrete", "num_envs": 4}, "2k-8k", {"action_kind": "discrete"}),
    ("starting-rollout", {"action_kind": "discrete", "num_envs": 64}, "2k-8k", {"action_kind": "discrete"}),
    (
        "starting-rollout",
        {"algo": "reinforce", "action_kind": "continuous", "num_envs": 8},
        "4096 transitions per update; continuous actions start with 5k-20k",
        {"algo": "reinforce", "action_kind": "continuous", "num_envs": 32},
    ),
    (
        "starting-rollout",
        {"action_kind": "continuous", "num_envs": 4},
        "5k-20k; 2k-10k is standard for PPO",
        {"action_kind": "continuous", "num_envs": 32},
    ),
    (
        "starting-rollout",
        {"algo": "a2c", "action_kind": "discrete", "num_envs": 8},
        "128 transitions per update; discrete actions start with 2k-8k",
        {"algo": "a2c", "action_kind": "discrete", "num_envs": 128},
    ),
    (
        "starting-rollout",
        {"rollout_episodes": 16, "episode_steps": 100, "action_kind": "discrete"},
        "at most 1600 transitions",
        {"rollout_episodes": 16, "episode_steps": 1000, "action_kind": "discrete"},
    ),
    ("episodes-per-rollout", {"rollout_episodes": 15}, "16-64", {"rollout_episodes": 16}),
    ("episodes-per-rollout", {"rollout_episodes": 65}, "16-64", {"rollout_episodes": 64}),
    ("a2c-one-update", {"algo": "a2c", "epochs": 2}, "--algo ppo", {"algo": "a2c"}),
]


@pytest.mark.parametrize(("name", "breaks", "figure", "keeps"), RULES)
def test_a_rule_warns_where_it_is_broken_and_is_silent_where_it_is_kept(
    name: str, breaks: dict[str, object], figure: str, keeps: dict[str, object]
) -> None:
    broken = {check.name: check for check in plan(**breaks).checks}
    kept = {check.name: check for check in plan(**keeps).checks}
    assert not broken[name].ok
    assert figure in broken[name].message
    assert any(f"[{name}; {broken[name].source}]" in warning for warning in plan(**breaks).warnings)
    assert kept[name].ok
    assert not any(f"[{name};" in warning for warning in plan(**keeps).warnings)


def test_every_rule_of_an_on_policy_plan_is_tried_here() -> None:
    seen = {check.name for _, breaks, _, keeps in RULES for w in (breaks, keeps) for check in plan(**w).checks}
    assert seen == {name for name, *_ in RULES}


def test_a_rule_never_refuses() -> None:
    for _, breaks, _, _ in RULES:
        assert plan(**breaks)["iterations"] >= 1


def test_the_advice_on_minibatches_uses_the_flag_that_the_user_used() -> None:
    by_size = [w for w in plan(minibatch_transitions=1024).warnings if "per epoch" in w]
    assert "--minibatch-transitions 512" in by_size[0]


def test_large_minibatches_are_fine_on_a_gpu() -> None:
    machine = Machine(8, 32 * GIB, 0, (Gpu("RTX", 12 * GIB),))
    assert not any("32-256" in warning for warning in plan(minibatch_transitions=1024, machine=machine).warnings)
    assert any("32-256" in warning for warning in plan(minibatch_transitions=1024, machine=LAPTOP).warnings)


def test_the_numbers_of_a_preset_are_not_judged_again() -> None:
    assert plan(preset="debug").warnings == ()


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_no_number_that_the_planner_chose_is_warned_about_and_its_reason_names_the_range_it_leaves(
    algo: str, kind: str
) -> None:
    """Long episodes and many action dimensions: what a default cannot keep to, its reason says."""
    found = plan(algo=algo, action_kind=kind, action_size=60, episode_steps=1000)
    assert found.warnings == ()
    low, high, words = {"discrete": (2000, 8200, "2k-8k"), "continuous": (5000, 20500, "5k-20k")}[kind]
    within = low <= found["rollout_transitions"] <= high
    assert within or words in found.quantities["rollout_steps"].reason
    assert within or algo != "reinforce"


@pytest.mark.parametrize(
    "options",
    [
        {"num_envs": 16, "rollout_steps": 16},  # 256 collected / 2: two minibatches by our own rule
        {"num_envs": 64, "hold": "transitions-per-update", "action_kind": "continuous"},
        {"total_episodes": 95, "episode_steps": 500},
    ],
)
def test_what_follows_from_our_own_rules_is_not_warned_about(options: dict[str, object]) -> None:
    assert [check.message for check in plan(**options).checks if not check.ok] == []
