"""On-policy plans: episodes, held invariants, totals, discounts, what changing one number does."""

import json

import pytest

from batchwright.config.load import resolve
from batchwright.core.errors import UserError
from batchwright.planning.make import make_plan
from batchwright.planning.plan import TaskFacts, plan_from_dict
from run_batchwright import LAPTOP, plan


def test_every_number_has_a_unit_or_is_a_ratio_and_always_a_reason_and_a_source() -> None:
    for options in (
        {},
        {"rollout_episodes": 10},
        {"algo": "sac", "redistribute": "rrd", "obs_shape": "17"},
        {"policy": "act"},
    ):
        for name, quantity in plan(**options).quantities.items():
            assert quantity.name == name
            assert quantity.reason
            assert quantity.source in ("pinned", "preset", "derived", "measured")


def test_a_plan_is_frozen() -> None:
    found = plan()
    with pytest.raises(AttributeError):
        found.algo = "sac"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        found.quantities["epochs"].value = 1  # type: ignore[misc]


def test_what_is_pinned_is_pinned_and_the_rest_is_solved_around_it() -> None:
    found = plan(minibatches=7)
    sources = {name: quantity.source for name, quantity in found.quantities.items()}
    assert found["minibatches"] == 7
    assert sources["minibatches"] == "pinned"
    assert sources["num_envs"] == sources["minibatch_transitions"] == "derived"
    assert found["minibatch_transitions"] == 293  # 2048 = 4 x 293 + 3 x 292


def test_a_minibatch_that_does_not_divide_shows_what_was_asked_and_what_is_used() -> None:
    found = plan(num_envs=10, rollout_steps=100, minibatch_transitions=300)
    assert found["minibatches"] == 3
    assert found["minibatch_transitions"] == 334
    assert "300 requested, 334 used" in found.warnings[0]
    assert "1000 = 1 x 334 + 2 x 333" in found.warnings[0]


def test_number_and_size_of_minibatches_may_both_be_pinned_where_they_agree() -> None:
    found = plan(num_envs=10, rollout_steps=100, minibatch_transitions=333, minibatches=3)
    assert found.quantities["minibatch_transitions"].source == "pinned"
    assert plan(minibatch_transitions=999999, minibatches=1)["minibatch_transitions"] == 2048


def test_999999_is_the_full_batch() -> None:
    found = plan(num_envs=4, rollout_steps=100, minibatch_transitions=999999)
    assert found["minibatch_transitions"] == 400
    assert found["minibatches"] == 1
    assert "999999 requested" in found.quantities["minibatch_transitions"].reason


# Episodes


def test_ten_episodes_of_a_known_length_give_a_rollout_at_most() -> None:
    found = plan(rollout_episodes=10, episode_steps=500, epochs=4, minibatch_transitions=50)
    assert found["rollout_transitions"] == 5000
    assert found["minibatches"] == 100
    assert found["updates_per_iteration"] == 400
    assert found.quantities["rollout_transitions"].reason.startswith("at most")


def test_the_single_episode_mode_is_one_full_batch() -> None:
    found = plan(rollout_episodes=1, minibatch_transitions=999999, epochs=1, episode_steps=200)
    assert found["num_envs"] == 1
    assert found["minibatches"] == found["updates_per_iteration"] == 1
    assert found["minibatch_transitions"] == 200


def test_episodes_of_unknown_length_leave_the_rollout_open_and_say_how_to_close_it() -> None:
    found = plan(rollout_episodes=10)
    assert found["rollout_transitions"] is None
    assert "--episode-steps" in found.quantities["rollout_transitions"].reason
    assert "minibatches: known when the episodes have ended" in found.diagram()
    assert "None" not in found.explain() + found.diagram()


def test_a_total_in_episodes_alone_means_ten_episodes_per_rollout() -> None:
    found = plan(total_episodes=95)
    assert (found["rollout_episodes"], found["iterations"], found["actual_episodes"]) == (10, 10, 100)
    assert found.quantities["rollout_episodes"].origin == "default"
    tuned = plan(env="CartPole-v1", total_episodes=95)  # the preset that applies by itself counts steps
    assert tuned["rollout_episodes"] == 10
    assert any("rollout_steps" in text and "replaced by total_episodes" in text for text in tuned.warnings)


def test_more_environments_than_episodes_stand_idle_and_that_is_said() -> None:
    made = plan(rollout_episodes=10, num_envs=64)
    assert "54 would be idle" in made.warnings[0]
    assert made["num_envs"] == 10 and "10 episodes from 10 envs" in made.diagram()


def test_episodes_are_rounded_up_to_whole_rollouts_and_both_amounts_are_shown() -> None:
    found = plan(rollout_episodes=10, total_episodes=95)
    assert found["total_episodes"] == 95
    assert found["actual_episodes"] == 100
    assert "5 more than requested" in found.quantities["actual_episodes"].reason


def test_an_environment_with_a_time_limit_bounds_its_episodes() -> None:
    pytest.importorskip("gymnasium")
    found = plan(env="CartPole-v1", rollout_episodes=20)
    assert found["rollout_transitions"] == 20 * 500
    assert found.task == TaskFacts("CartPole-v1", True, 1, (4,), "float32", True, False, 500)


# Totals


def test_fewer_steps_than_one_rollout_are_one_iteration_and_that_is_said() -> None:
    found = plan(total_steps=10)
    assert (found["iterations"], found["actual_steps"]) == (1, 2048)
    assert any("10 steps in all are fewer than the 2048" in warning for warning in found.warnings)


def test_steps_are_rounded_up_to_whole_iterations_and_both_amounts_are_shown() -> None:
    found = plan(num_envs=10, rollout_steps=100, total_steps=10_500)
    assert (found["total_steps"], found["iterations"], found["actual_steps"]) == (10_500, 11, 11_000)
    assert "500 more than requested" in found.quantities["actual_steps"].reason


# Discount and entropy


@pytest.mark.parametrize(
    ("length", "low", "high"), [(500, "0.992", "0.998"), (100, "0.96", "0.99"), (100_000, "0.99996", "0.99999")]
)
def test_the_discount_follows_from_the_horizon(length: int, low: str, high: str) -> None:
    for algo in ("ppo", "sac"):
        offered = " ".join(plan(algo=algo, episode_steps=length).alternatives)
        assert f"--gamma {low}: 1 - 1/(0.25 T)" in offered
        assert f"--gamma {high}: 1 - 1/T" in offered


def test_no_bonus_is_not_called_an_anneal() -> None:
    assert "nothing to anneal" in plan().quantities["entropy_end"].reason
    assert "annealed to 0" in plan(entropy_start=0.01).quantities["entropy_end"].reason


@pytest.mark.parametrize(("kind", "start"), [("discrete", 0.01), ("continuous", 0.001)])
def test_the_entropy_bonus_of_a2c_depends_on_the_kind_of_actions(kind: str, start: float) -> None:
    assert plan(algo="a2c", action_kind=kind)["entropy_start"] == start


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
@pytest.mark.parametrize(
    ("facts", "ppo", "others"),
    [
        ({"real_observations": True, "wide_observations": True}, True, True),
        ({"real_observations": True, "wide_observations": False}, True, False),
        ({"real_observations": False, "wide_observations": False}, False, False),
    ],
)
def test_which_observations_of_a_task_with_choices_are_normalised(
    algo: str, facts: dict[str, bool], ppo: bool, others: bool
) -> None:
    task = TaskFacts(name="Own", discrete=True, action_size=1, obs_shape=(4,), obs_dtype="int32", **facts)
    made = make_plan(resolve({"algo": algo}, None, None), LAPTOP, task)
    assert made["normalize_obs"] is (ppo if algo == "ppo" else others)


def test_what_a_plan_knows_of_observations_survives_its_file() -> None:
    task = TaskFacts(discrete=True, real_observations=True, wide_observations=True)
    made = make_plan(resolve({}, None, None), LAPTOP, task)
    assert plan_from_dict(json.loads(json.dumps(made.to_dict()))).task == task


@pytest.mark.parametrize("algo", ["a2c", "reinforce"])
def test_an_algorithm_without_a_ratio_takes_one_step_on_the_whole_rollout(algo: str) -> None:
    found = plan(algo=algo, num_envs=1000, rollout_steps=10)
    assert found["updates_per_iteration"] == found["epochs"] == found["minibatches"] == 1
    assert found["minibatch_transitions"] == 10_000


# Held invariants


def test_holding_transitions_per_update_keeps_rollout_and_minibatch_when_num_envs_changes() -> None:
    before, after = plan(), plan(num_envs=64, hold="transitions-per-update")
    for name in ("rollout_transitions", "minibatch_transitions", "updates_per_iteration", "iterations"):
        assert after[name] == before[name]
    assert after["rollout_steps"] == 32


def test_what_cannot_be_held_exactly_is_said() -> None:
    found = plan(num_envs=5000, hold="transitions-per-update")
    assert found["rollout_transitions"] == 5000
    assert "2048 transitions per rollout before, 5000 now" in found.warnings[0]
    assert 60 <= found["minibatch_transitions"] <= 70  # nearly the 64 of before


def test_holding_reuse_keeps_the_epochs_of_the_preset() -> None:
    found = plan(preset="isaac-256", num_envs=4096, hold="reuse")
    assert found["reuse"] == found["epochs"] == 8


def test_holding_total_steps_keeps_them_whatever_the_rollout() -> None:
    found = plan(num_envs=1000, rollout_steps=1000, hold="total-steps")
    assert found["total_steps"] == plan()["total_steps"]


@pytest.mark.parametrize(
    ("hold", "rival"),
    [
        ("transitions-per-update", {"minibatches": 7}),
        ("transitions-per-update", {"minibatch_transitions": 7}),
        ("reuse", {"epochs": 3}),
        ("total-steps", {"total_steps": 5}),
    ],
)
def test_holding_a_number_and_changing_it_is_refused(hold: str, rival: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"--hold {hold}") as refused:
        plan(hold=hold, **rival)
    assert f"leave out --hold {hold}" in refused.value.fixes


def test_changing_num_envs_alone_says_what_it_does_and_how_to_prevent_it() -> None:
    warning = plan(num_envs=32).warnings[0]
    assert "num_envs 8 -> 32" in warning
    assert "rollout 2048 -> 8192" in warning
    assert "updates per million transitions 156250 -> 39062" in warning  # 320 per 2048, 320 per 8192
    assert "--hold transitions-per-update" in warning
    assert not any("alone changes" in text for text in plan(num_envs=32, hold="transitions-per-update").warnings)


def test_a_file_that_makes_no_plan_by_itself_can_be_completed_by_num_envs(tmp_path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text("num_envs: 1\nrollout_steps: 1\nminibatches: 4\n")
    assert plan(config=file, num_envs=64)["minibatch_transitions"] == 16


def test_the_learning_rate_scales_only_when_asked_at_most_fourfold_and_it_is_said() -> None:
    assert plan(num_envs=16)["learning_rate"] == 3e-4
    doubled, capped = plan(num_envs=16, scale_learning_rate=True), plan(num_envs=800, scale_learning_rate=True)
    assert doubled["learning_rate"] == pytest.approx(6e-4)
    assert capped["learning_rate"] == pytest.approx(12e-4)
    assert any("scaled with the minibatch" in warning for warning in doubled.warnings)
    assert any("capped at 4x" in warning for warning in capped.warnings)


# The picture


def test_the_picture_has_the_numbers_of_the_plan() -> None:
    picture = plan(num_envs=1000, rollout_steps=24).diagram()
    for words in ("1,000 envs x 24 steps", "24,000 transitions", "4 minibatches of 6,000", "40 optimiser steps"):
        assert words in picture


def test_the_picture_counts_the_minibatches_it_cannot_show_and_names_both_sizes() -> None:
    picture = plan(num_envs=10, rollout_steps=103, minibatches=20).diagram()
    assert "... 12 more" in picture
    assert "20 minibatches of 51-52" in picture  # 1030 = 10 x 52 + 10 x 51


def test_one_of_a_thing_is_written_in_the_singular() -> None:
    found = plan(num_envs=1, rollout_steps=1, epochs=1)
    text = found.explain() + found.diagram()
    for words in ("1 envs", "1 steps", "1 minibatches x", "1 epochs", "1 updates", "1 iterations x", "1 transitions;"):
        assert words not in text
    assert "epoches" not in plan().explain()
