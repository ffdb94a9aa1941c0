"""Claims about gymnax- and brax-style environments, on small ones with exactly those interfaces."""

# T time, N envs

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from driving import drive

from batchwright.core.errors import UserError
from batchwright.envs.catalog import describe
from batchwright.envs.spaces import Box, Discrete

FILE = '''
from typing import NamedTuple, Any
import jax, jax.numpy as jnp


class Params(NamedTuple):
    goal: int = 3
    max_steps_in_episode: int = 5

    def replace(self, **changes):
        return self._replace(**changes)


class Discrete:
    n = 2


class Box:
    low, high, shape, dtype = -10.0, 10.0, (2,), jnp.float32


class Walk:
    """gymnax's interface: done at the goal or at the time limit, and reset inside step."""

    default_params = Params()

    def observation_space(self, params):
        return Box()

    def action_space(self, params):
        return Discrete()

    def reset_env(self, key, params):
        state = (jnp.int32(0), jnp.int32(0), jax.random.uniform(key))
        return self._see(state), state

    def step_env(self, key, state, action, params):
        state = (state[0] + action, state[1] + 1, state[2])
        done = (state[0] >= params.goal) | (state[1] >= params.max_steps_in_episode)
        return self._see(state), state, jnp.float32(action), done, {}

    def reset(self, key, params=None):
        return self.reset_env(key, params or self.default_params)

    def step(self, key, state, action, params=None):
        params = params or self.default_params
        obs, after, reward, done, info = self.step_env(key, state, action, params)
        fresh_obs, fresh = self.reset_env(key, params)
        pick = lambda a, b: jnp.where(done, a, b)
        return pick(fresh_obs, obs), jax.tree.map(pick, fresh, after), reward, done, info

    def _see(self, state):
        return jnp.stack([state[2], state[0].astype(jnp.float32)])


class OnlyStep:
    default_params = Params()
    reset, step = Walk.reset, Walk.step


class State(NamedTuple):
    pipeline_state: Any
    obs: jax.Array
    reward: jax.Array
    done: jax.Array
    metrics: dict
    info: dict


class Slide:
    """brax's interface: a point that slides by the action and falls off at 1."""

    observation_size = 1
    action_size = 1
    backend = "none"

    def reset(self, rng):
        place = jax.random.uniform(rng, (1,), minval=-0.1, maxval=0.1)
        return State(place, place, jnp.float32(0), jnp.float32(0), {}, {})

    def step(self, state, action):
        place = state.pipeline_state + action
        return State(place, place, -jnp.sum(jnp.abs(place)), jnp.float32(place[0] > 1), {}, {})


class AutoResetWrapper:
    def __init__(self):
        self.env = Slide()

    def __getattr__(self, name):
        return getattr(self.env, name)


def walk_with_params():
    return Walk(), Params(goal=2, max_steps_in_episode=9)
'''

Make = Any


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "foreign.py"
    path.write_text(FILE)
    return str(path)


def ones(obs: Any) -> Any:
    return jax.numpy.ones(len(obs), "int32")


def test_a_gymnax_style_environment_is_described(file: str) -> None:
    task = describe(f"{file}:Walk")
    assert isinstance(task.observation, Box) and task.observation.shape == (2,)
    assert (task.action, task.max_episode_steps, task.engines) == (Discrete(2), 5, ("jax",))


def test_its_end_is_a_termination_with_the_true_last_observation(make: Make, file: str) -> None:
    run = drive(make(f"{file}:Walk", 2), ones, 5)
    # Three steps to the goal, the reset row, and on: the goal is seen, which step() would have hidden.
    assert run.obs[:, 0, 1].tolist() == [1, 2, 3, 0, 1]
    assert np.flatnonzero(run.terminated[:, 0]).tolist() == [2] and not run.truncated.any()
    assert run.reward[:, 0].tolist() == [1, 1, 1, 0, 1]
    assert run.obs[2, 0, 0] == run.first[0, 0] != run.obs[3, 0, 0]


def test_its_time_limit_is_a_truncation(make: Make, file: str) -> None:
    run = drive(make(f"{file}:Walk", 2), lambda obs: 0 * ones(obs), 6)
    assert np.flatnonzero(run.truncated[:, 1]).tolist() == [4] and not run.terminated.any()


def test_parameters_given_beside_it_are_used(make: Make, file: str) -> None:
    made = make(f"{file}:walk_with_params", 1)
    assert made.max_episode_steps == 9
    assert np.flatnonzero(drive(made, ones, 2).terminated[:, 0]).tolist() == [1]


def test_one_that_only_resets_itself_is_refused(file: str) -> None:
    with pytest.raises(UserError, match="hides its last observations"):
        describe(f"{file}:OnlyStep")


def test_a_brax_style_environment_terminates_and_is_cut_by_our_limit(make: Make, file: str) -> None:
    fast = drive(make(f"{file}:Slide", 2), lambda obs: obs * 0 + 0.6, 4)
    # Two steps of 0.6 from about 0 pass 1.
    assert fast.terminated[:, 0].tolist() == [False, True, False, False] and fast.obs[1, 0, 0] > 1
    assert np.abs(fast.obs[2, 0, 0]) <= 0.1 and fast.reward[2, 0] == 0
    slow = drive(make(f"{file}:Slide", 2, max_episode_steps=3), lambda obs: obs * 0, 4)
    assert slow.truncated[:, 0].tolist() == [False, False, True, False] and not slow.terminated.any()


def test_a_wrapped_brax_style_environment_is_refused(file: str) -> None:
    with pytest.raises(UserError, match="AutoResetWrapper"):
        describe(f"{file}:AutoResetWrapper")
