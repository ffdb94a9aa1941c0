"""Replay plans: subsequences, update ratios, and bytes by hand figures."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.core.errors import UserError
from batchwright.core.machine import GIB
from batchwright.planning.plan import Plan
from run_batchwright import LAPTOP, plan


def rrd(**options: object) -> Plan:
    return plan(algo="sac", redistribute="rrd", **options)


@pytest.mark.parametrize(
    ("timesteps", "length", "parts"), [(32, 32, 1), (64, 32, 2), (256, 64, 4), (100, 32, 3), (63, 32, 1)]
)
def test_subsequences_are_timesteps_over_their_length(timesteps: int, length: int, parts: int) -> None:
    found = rrd(rrd_timesteps_per_update=timesteps, subsequence_timesteps=length)
    assert found["subsequences_per_update"] == parts


def test_less_than_one_subsequence_is_refused_with_the_fix() -> None:
    with pytest.raises(UserError, match="16 timesteps per update cannot hold one subsequence of 32") as refused:
        rrd(rrd_timesteps_per_update=16, subsequence_timesteps=32)
    assert refused.value.fixes == ("--rrd-timesteps-per-update 32", "--subsequence-timesteps 16")


def test_100_timesteps_of_32_leave_4_unused_and_that_is_said() -> None:
    found = rrd(rrd_timesteps_per_update=100, subsequence_timesteps=32)
    assert "4 timesteps are unused" in found.warnings[0]
    assert "--rrd-timesteps-per-update 96" in found.warnings[0]
    exact = rrd(rrd_timesteps_per_update=96, subsequence_timesteps=32)
    assert not any("unused" in warning for warning in exact.warnings)


def test_one_subsequence_is_called_noisy_and_four_are_not() -> None:
    one = rrd(rrd_timesteps_per_update=32, subsequence_timesteps=32)
    assert any("noisy" in warning and "--rrd-timesteps-per-update 128" in warning for warning in one.warnings)
    assert sum("noisy" in warning for warning in plan(preset="libero").warnings) == 1
    assert not any("noisy" in warning for warning in plan(preset="libero", rrd_timesteps_per_update=128).warnings)


def test_numbers_of_return_decomposition_without_it_are_refused() -> None:
    with pytest.raises(UserError, match="needs return decomposition") as refused:
        plan(algo="sac", subsequence_timesteps=32)
    assert refused.value.fixes == ("--redistribute rrd --subsequence-timesteps 32",)


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_return_decomposition_without_replay_is_refused(algo: str) -> None:
    with pytest.raises(UserError, match="replay buffer"):
        plan(algo=algo, redistribute="rrd")


def test_updates_are_stated_per_environment_step_too() -> None:
    found = plan(algo="dqn", num_envs=4, rollout_steps=25, updates_per_iteration=25, transitions_per_update=32)
    assert found["updates_per_step"] == 0.25
    assert found["reuse"] == 8  # 25 x 32 drawn for 100 collected


@pytest.mark.parametrize("num_envs", [1, 3, 8, 100])
def test_more_environments_keep_one_update_per_step(num_envs: int) -> None:
    assert plan(algo="sac", num_envs=num_envs)["updates_per_step"] == 1


# Bytes


def test_bytes_of_vectors_by_hand() -> None:
    found = rrd(
        obs_shape="17",
        action_size=6,
        transitions_per_update=256,
        rrd_timesteps_per_update=256,
        subsequence_timesteps=64,
        updates_per_iteration=100,
        replay_transitions=1_000_000,
    )
    # 17 x 4 B observation, 6 x 4 B action, 4 B reward, 1 B termination; in a batch the next observation too.
    assert found["transition_bytes"] == 68 + 24 + 5 == 97
    assert found["batch_bytes"] == 256 * (97 + 68) == 42_240
    assert found["rrd_batch_bytes"] == 42_240
    assert found["traffic_bytes_per_iteration"] == 100 * 2 * 42_240
    assert found["buffer_bytes"] == 97_000_000


def test_a_batch_of_32_images_is_6_mib_as_uint8_without_next_observations() -> None:
    found = plan(preset="libero", obs_shape="256,256,3", action_size=7)
    image = 256 * 256 * 3
    assert found["batch_bytes"] == 32 * (2 * image + 7 * 4 + 5)
    assert "6.0 MiB without next observations" in found.quantities["batch_bytes"].reason
    assert found["traffic_bytes_per_iteration"] == 64 * 2 * found["batch_bytes"]
    assert "never held at once" in found.quantities["traffic_bytes_per_iteration"].reason


def test_float32_images_are_four_times_as_large() -> None:
    small, large = (plan(algo="dqn", obs_shape="84,84,4", obs_dtype=dtype) for dtype in ("uint8", "float32"))
    assert small["transition_bytes"] - 9 == 84 * 84 * 4  # 4 B action, 4 B reward, 1 B termination
    assert large["transition_bytes"] - 9 == 4 * 84 * 84 * 4


def test_an_environment_tells_the_type_of_its_observations_itself() -> None:
    with pytest.raises(UserError, match="defined by Pendulum-v1 itself: float32"):
        plan(env="Pendulum-v1", algo="sac", obs_dtype="float16")
    found = plan(env="Pendulum-v1", preset="libero")
    assert found["transition_bytes"] == 3 * 4 + 4 + 5
    assert any("stored as float32, not as the uint8 of preset libero" in warning for warning in found.warnings)


def test_storing_next_observations_doubles_them_in_the_buffer_and_not_in_a_batch() -> None:
    shared, apart = (plan(algo="sac", obs_shape="17", action_size=6, store_next_obs=on) for on in (False, True))
    assert apart["transition_bytes"] == shared["transition_bytes"] + 68
    assert apart["batch_bytes"] == shared["batch_bytes"]


def test_a_buffer_larger_than_memory_is_refused_with_the_largest_that_fits() -> None:
    options = {"algo": "sac", "obs_shape": "256,256,3", "obs_dtype": "uint8", "action_size": 7}
    with pytest.raises(UserError, match="does not fit") as refused:
        plan(**options, replay_transitions=1_000_000)
    largest = int(refused.value.fixes[0].removeprefix("--replay-transitions "))
    assert plan(**options, replay_transitions=largest)["buffer_bytes"] <= 0.9 * LAPTOP.ram_bytes
    with pytest.raises(UserError, match="does not fit"):
        plan(**options, replay_transitions=largest + 1)


def test_a_buffer_that_nobody_asked_for_leaves_half_of_the_memory_and_that_is_said() -> None:
    found = plan(algo="dqn", obs_shape="256,256,3", ram_gb=4)
    assert 1.99 * GIB < found["buffer_bytes"] <= 2 * GIB
    (said,) = [warning for warning in found.warnings if "the buffer is cut" in warning]
    largest = re.search(r"up to (\d+) .90%", said)
    assert largest
    stated = plan(algo="dqn", obs_shape="256,256,3", ram_gb=4, replay_transitions=int(largest[1]))
    held = stated["buffer_bytes"] + stated["process_bytes"]
    assert 3.59 * GIB < held <= 3.6 * GIB


def test_the_peak_of_a_replay_run_is_the_sum_of_its_parts() -> None:
    found = plan(algo="sac", obs_shape="17", action_size=6)
    parts = ("process_bytes", "env_bytes", "buffer_bytes", "update_bytes")
    assert found["memory_bytes"] == sum(found[part] for part in parts)


def test_the_bytes_of_images_stand_beside_those_without_next_observations() -> None:
    """32 images of 256 x 256 x 3 uint8 are 6 MiB, twice that per update, 64 updates 768 MiB; true draws have both."""
    found = plan(preset="libero", obs_shape="256,256,3", action_size=7)
    reasons = {name: quantity.reason for name, quantity in found.quantities.items()}
    assert "12.0 MiB; 6.0 MiB without next observations" in reasons["batch_bytes"]
    assert "12.0 MiB; 6.0 MiB without next observations" in reasons["rrd_batch_bytes"]
    assert "64 updates x 24.0 MiB = 1.5 GiB" in reasons["traffic_bytes_per_iteration"]
    assert "12.0 MiB per update and 768.1 MiB without next observations" in reasons["traffic_bytes_per_iteration"]
    assert found["traffic_bytes_per_iteration"] == 64 * 2 * 32 * (2 * 256 * 256 * 3 + 28 + 5)


def test_a_transition_larger_than_memory_is_refused() -> None:
    with pytest.raises(UserError, match="does not fit"):
        plan(algo="sac", obs_shape="1000000,1000", ram_gb=1)


def test_without_a_shape_memory_is_not_planned_and_that_is_said() -> None:
    found = plan(algo="sac", store_next_obs=True)
    assert "buffer_bytes" not in found.quantities
    assert found["store_next_obs"] is True
    assert "--obs-shape" in found.warnings[0]


# The rest


def test_nothing_stated_is_lost() -> None:
    assert plan(algo="sac", max_grad_norm=3)["max_grad_norm"] == 3


def test_warm_up_without_anything_after_it_is_refused_or_said() -> None:
    with pytest.raises(UserError, match="leave nothing"):
        plan(algo="sac", warmup_steps=100, total_steps=100)
    assert plan(algo="sac", total_steps=1)["warmup_steps"] == 0
    whole = plan(algo="sac", num_envs=100, total_steps=100, warmup_steps=50)
    assert whole["total_updates"] == 0
    assert any("no update is made" in warning for warning in whole.warnings)


def test_a_buffer_smaller_than_one_draw_is_said() -> None:
    assert any("buffer-holds-a-batch" in w for w in plan(algo="sac", replay_transitions=10).warnings)


@pytest.mark.parametrize(("algo", "kind"), [("sac", "discrete"), ("dqn", "continuous")])
def test_the_wrong_kind_of_actions_is_refused(algo: str, kind: str) -> None:
    with pytest.raises(UserError, match=f"{algo} is for"):
        plan(algo=algo, action_kind=kind)


def test_holding_reuse_keeps_the_draws_per_transition() -> None:
    before = plan(preset="mujoco")
    after = plan(preset="mujoco", num_envs=8, hold="reuse")
    assert after["reuse"] == before["reuse"]
    assert (before["updates_per_iteration"], after["steps_per_iteration"]) == (25, 24)
    assert after["updates_per_iteration"] == 24


def test_stated_updates_are_about_one_per_step_for_any_number_of_environments() -> None:
    for num_envs in (1, 3, 8, 100, 101):
        found = plan(algo="sac", updates_per_iteration=100, num_envs=num_envs)
        assert found["rollout_steps"] == max(1, 100 // num_envs)
        assert found["updates_per_step"] == pytest.approx(1.0, abs=0.05)
        exact = found["updates_per_step"] == 1
        assert ("about one" in found.quantities["rollout_steps"].reason) is not exact


def test_holding_transitions_per_update_keeps_them_and_stating_them_is_refused() -> None:
    assert plan(preset="libero", num_envs=8, hold="transitions-per-update")["transitions_per_update"] == 32
    with pytest.raises(UserError, match="--hold"):
        plan(preset="libero", transitions_per_update=64, hold="transitions-per-update")
    with pytest.raises(UserError, match="--hold"):
        plan(algo="sac", total_steps=64, hold="total-steps")


@given(
    num_envs=st.integers(1, 10**6),
    rollout_steps=st.integers(1, 10**5),
    updates=st.integers(1, 10**6),
    drawn=st.integers(1, 10**6),
    length=st.integers(1, 10**4),
    more=st.integers(0, 10**6),
    total_steps=st.integers(1, 10**12),
    side=st.integers(1, 300),
    dtype=st.sampled_from(["uint8", "float16", "float32"]),
    algo=st.sampled_from(["sac", "dqn"]),
)
def test_any_positive_integers_make_a_valid_replay_plan(
    num_envs: int,
    rollout_steps: int,
    updates: int,
    drawn: int,
    length: int,
    more: int,
    total_steps: int,
    side: int,
    dtype: str,
    algo: str,
) -> None:
    found = plan(
        algo=algo,
        redistribute="rrd",
        num_envs=num_envs,
        rollout_steps=rollout_steps,
        updates_per_iteration=updates,
        transitions_per_update=drawn,
        subsequence_timesteps=length,
        rrd_timesteps_per_update=length + more,
        total_steps=total_steps,
        obs_shape=(side, side),
        obs_dtype=dtype,
    )
    steps = num_envs * rollout_steps
    assert found["subsequences_per_update"] * length <= length + more < (found["subsequences_per_update"] + 1) * length
    assert total_steps <= found["actual_steps"] < total_steps + steps
    assert found["warmup_steps"] < total_steps
    assert 0 <= found["total_updates"] <= found["iterations"] * updates
    assert found["buffer_bytes"] == found["replay_transitions"] * found["transition_bytes"] <= 0.9 * LAPTOP.ram_bytes
    assert found["replay_transitions"] >= 1
