"""Claims about our tasks as Gymnasium environments: the checker passes, the dynamics are the same, they draw."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from batchwright.core.errors import UserError
from batchwright.envs.catalog import describe, list_environments
from batchwright.envs.registration import REGISTERED
from batchwright.envs.spaces import from_gymnasium
from batchwright.envs.tasks import OWN_TASKS


def _sampled(env: Any, info: dict[str, Any]) -> Any:
    return env.action_space.sample(mask=info["action_mask"]) if "action_mask" in info else env.action_space.sample()


@pytest.mark.parametrize("name", REGISTERED)
def test_gymnasiums_checker_passes_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name, render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("name", REGISTERED)
def test_the_gymnasium_form_steps_as_the_jax_form(name: str) -> None:
    env: Any = gymnasium.make(name)
    task: Any = OWN_TASKS[name].load()
    obs, info = env.reset(seed=5)
    env.action_space.seed(5)
    key = jax.random.key(np.uint32(np.random.default_rng(5).integers(2**32)))
    state = task.init(key)
    step, observe = jax.jit(task.step), jax.jit(task.observe)
    for tick in range(1, 40):
        np.testing.assert_allclose(obs, observe(state), atol=1e-6)
        action = _sampled(env, info)
        obs, reward, terminated, _, info = env.step(action)
        state, expected, ended = step(state, action, jax.random.fold_in(key, tick))
        assert reward == pytest.approx(float(expected.sum()), abs=1e-5) and terminated == bool(ended)
        if task.reward_names:
            np.testing.assert_allclose([info[part] for part in task.reward_names], expected, atol=1e-6)
        assert info["is_success"] == (terminated and bool(task.succeeded(state)))
        if terminated:
            return


@pytest.mark.parametrize("name", REGISTERED)
def test_every_observation_of_random_play_is_inside_its_space(name: str) -> None:
    env: Any = gymnasium.make(name)
    obs, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(300):
        obs, _, terminated, truncated, info = env.step(_sampled(env, info))
        assert obs in env.observation_space
        if terminated or truncated:
            obs, info = env.reset()


@pytest.mark.parametrize("name", REGISTERED)
def test_pictures_change_with_the_state_and_are_not_blank(name: str) -> None:
    env: Any = gymnasium.make(name, render_mode="rgb_array")
    _, info = env.reset(seed=1)
    env.action_space.seed(1)
    first = env.render()
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 3
    for _ in range(20):
        _, _, terminated, truncated, info = env.step(_sampled(env, info))
        if terminated or truncated:
            break
    assert (env.render() != first).any()


def test_only_pictures_as_arrays_are_drawn() -> None:
    with pytest.raises(UserError, match="human"):
        from batchwright.envs.gymnasium_env import OwnEnv

        OwnEnv("Moving-v0", render_mode="human")


@pytest.mark.parametrize("name", REGISTERED)
def test_the_catalog_and_the_registry_tell_the_same(name: str) -> None:
    env: Any = gymnasium.make(name)
    task = describe(name)
    assert from_gymnasium(env.observation_space) == task.observation
    assert from_gymnasium(env.action_space) == task.action
    assert env.spec.max_episode_steps == task.max_episode_steps
    assert task.engines[:2] == ("jax", "gymnasium-sync")
    assert {entry.engine for entry in list_environments(name)} >= {"own", "gymnasium"}


def test_a_module_and_an_id_find_them_without_an_import() -> None:
    assert gymnasium.make("batchwright.envs.registration:Moving-v0").spec is not None
