"""Threads of the update: shared where its products are wide, on cores that are there."""

import pytest

from run_batchwright import plan


def threads(**options: object) -> int:
    return plan(**({"algo": "sac", "obs_shape": "17", "action_size": 6, "cores": 8} | options))["learner_threads"]


def test_an_update_of_wide_networks_gets_two_threads() -> None:
    # 16 passes x 256 rows x (23 x 256 + 256 x 256) weights x 2 = 585 MFLOP.
    found = plan(algo="sac", obs_shape="17", action_size=6, cores=8).quantities["learner_threads"]
    assert found.value == 2
    assert "585 MFLOP" in found.reason


def test_small_networks_and_small_draws_keep_one() -> None:
    assert threads(hidden="64,64") == 1
    assert threads(transitions_per_update=32) == 1


def test_a_reward_network_counts() -> None:
    # 165 MFLOP without it; 3 x 1024 timesteps and 72 relabelled rows with it.
    assert threads(transitions_per_update=72) == 1
    more = {"redistribute": "rrd", "rrd_timesteps_per_update": 1024}
    assert threads(transitions_per_update=72, **more) == 2


def test_images_get_two_threads() -> None:
    assert threads(algo="dqn", obs_shape="84,84,4", obs_dtype="uint8", action_size=6, replay_transitions=1000) == 2


def test_a_machine_with_one_core_has_one_thread_to_give() -> None:
    assert threads(cores=1) == 1


def test_the_update_of_a_gpu_needs_no_threads() -> None:
    assert threads(gpu_memory_gb=12) == 1


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_on_policy_minibatches_keep_one_thread(algo: str) -> None:
    assert plan(algo=algo)["learner_threads"] == 1


def test_a_stated_number_stays() -> None:
    found = plan(algo="sac", learner_threads=4).quantities["learner_threads"]
    assert (found.value, found.source) == (4, "pinned")
