"""Claims about EnvPool inside the compiled program: float64 tasks, images, threads, limits."""

# T time, N envs

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from driving import drive

from batchwright.core.errors import UserError
from batchwright.envs.engines import env_seeds
from batchwright.envs.envpool_source import default_threads

Make = Any


def wiggle(obs: Any) -> Any:
    """An action in [-1, 1] for each of HalfCheetah's six joints, made from what is seen."""
    return jnp.clip(obs[:, :6] * 3.0, -1.0, 1.0)


def test_a_float64_task_comes_back_in_float32_and_leaves_jax_at_32_bits(make: Make) -> None:
    run = drive(make("HalfCheetah-v5", 2, "envpool"), wiggle, 3)
    assert run.obs.dtype == np.float32 and run.reward.dtype == np.float32
    assert jnp.ones(1).dtype == jnp.float32 and not jax.config.jax_enable_x64


def test_the_trajectory_does_not_depend_on_the_number_of_threads(make: Make) -> None:
    runs = [
        drive(
            make("HalfCheetah-v5", 4, "envpool", num_threads=threads, max_episode_steps=20),
            wiggle,
            45,
            seed=2,
        )
        for threads in (1, 2, 3)
    ]
    for run in runs[1:]:
        for ours, theirs in zip(jax.tree.leaves(run), jax.tree.leaves(runs[0]), strict=True):
            assert np.array_equal(ours, theirs)
    assert np.flatnonzero(runs[0].truncated[:, 0]).tolist() == [19, 40]


def test_halfcheetah_ends_by_its_limit_as_in_gymnasium(make: Make) -> None:
    made = make("HalfCheetah-v5", 1, "envpool")
    run = drive(made, lambda obs: obs[:, :6] * 0, 1001)
    env = gymnasium.make("HalfCheetah-v5")
    env.reset(seed=0)
    ends = [env.step(np.zeros(6, np.float32))[2:4] for _ in range(1000)]
    assert list(zip(run.terminated[:1000, 0], run.truncated[:1000, 0], strict=True)) == ends
    assert run.truncated[999, 0] and run.reward[1000, 0] == 0


def test_images_stay_bytes(make: Make) -> None:
    made = make("Pong-v5", 2, "envpool")
    run = drive(made, lambda obs: jnp.zeros(2, jnp.int32), 3)
    assert run.obs.shape == (3, 2, 4, 84, 84) and run.obs.dtype == np.uint8 and run.obs.max() > 0


def test_nested_observations_have_the_shape_of_their_spec(make: Make) -> None:
    made = make("FetchReach-v4", 2, "envpool")
    run = drive(made, lambda obs: jnp.zeros((2, 4)), 2)
    assert {name: part.shape[1:] for name, part in run.obs.items()} == {
        "observation": (2, 10),
        "achieved_goal": (2, 3),
        "desired_goal": (2, 3),
    }


def test_integer_boxes_take_rounded_actions(make: Make) -> None:
    """Turning a face of Rubik's cube: 2.6 is face 3, so both environments see the same turn of it."""
    made = make("RubiksCube-v0", 2, "envpool")
    exact = drive(made, lambda obs: jnp.array([[3.0, 0.0, 1.0]] * 2), 2, seed=1)
    rounded = drive(made, lambda obs: jnp.array([[2.6, 0.2, 0.9]] * 2), 2, seed=1)
    for ours, theirs in zip(jax.tree.leaves(rounded.obs), jax.tree.leaves(exact.obs), strict=True):
        assert np.array_equal(ours, theirs)


def test_chosen_info_comes_back(make: Make) -> None:
    run = drive(make("HalfCheetah-v5", 2, "envpool", info_keys=("reward_run", "reward_ctrl")), wiggle, 3)
    np.testing.assert_allclose(run.extras["reward_run"] + run.extras["reward_ctrl"], run.reward, atol=1e-5)
    with pytest.raises(UserError, match="no info 'nothing'"):
        make("CartPole-v1", 2, "envpool", info_keys=("nothing",)).start(0)


def test_a_jitted_function_follows_the_engine_to_its_next_pool(make: Make) -> None:
    """The address of a pool is compiled in: without a new compilation the second run would use freed memory."""
    made = make("CartPole-v1", 2, "envpool")
    step = jax.jit(lambda state: made.step(state, jnp.ones(2, jnp.int32)))
    runs = []
    for _ in range(2):
        state, _ = made.start(5)
        observations = []
        for _ in range(4):
            state, given = step(state)
            observations.append(np.asarray(given.obs))
        runs.append(observations)
    assert np.array_equal(*runs) and step._cache_size() == 2
    made.start(5)
    with pytest.raises(RuntimeError, match="later start"):
        made.step(state, jnp.ones(2, jnp.int32))


def test_cheap_environments_get_one_thread_and_physics_the_cores() -> None:
    assert default_threads("CartPole-v1", 64) == 1
    assert default_threads("HalfCheetah-v5", 1) == 1
    assert default_threads("HalfCheetah-v5", 64) >= 1


def test_seeds_are_31_bits_and_differ() -> None:
    seeds = env_seeds(0, 1000)
    assert len(set(seeds)) == 1000 and min(seeds) >= 0 and max(seeds) < 2**31
    assert env_seeds(0, 10) == seeds[:10] and env_seeds(1, 10) != seeds[:10]
