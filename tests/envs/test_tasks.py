"""Claims about our own tasks: Gymnasium's dynamics from the same state, identity by hand figures."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.envs.spaces import Box, Discrete
from batchwright.envs.tasks import OWN_TASKS

# Bounds of the states that are compared: beyond what an episode reaches, so that ends are among them.
STATES = {
    "CartPole-v1": ((-2.5, -3, -0.25, -3), (2.5, 3, 0.25, 3)),
    "Pendulum-v1": ((-9, -8), (9, 8)),
    "Acrobot-v1": ((-np.pi, -np.pi, -4 * np.pi, -9 * np.pi), (np.pi, np.pi, 4 * np.pi, 9 * np.pi)),
    "MountainCarContinuous-v0": ((-1.2, -0.07), (0.6, 0.07)),
}
COUNT = 400


def _sample(name: str) -> tuple[Any, Any]:
    """States and canonical actions, the same at every call."""
    rng = np.random.default_rng(1)
    low, high = STATES[name]
    states = rng.uniform(low, high, (COUNT, len(low))).astype(np.float32)
    action = OWN_TASKS[name].action
    if isinstance(action, Discrete):
        return states, rng.integers(0, action.n, COUNT).astype(np.int32)
    assert isinstance(action, Box)
    return states, rng.uniform(action.low, action.high, (COUNT, *action.shape)).astype(np.float32)


def _in_jax(name: str, states: Any, actions: Any) -> Any:
    task: Any = OWN_TASKS[name].load()
    state_class = type(task.init(jax.random.key(0)))

    def one(state: Any, action: Any) -> Any:
        after, reward, terminated = task.step(state_class(*state), action, jax.random.key(0))
        return task.observe(after), reward, terminated

    return [np.asarray(x) for x in jax.jit(jax.vmap(one))(jnp.asarray(states), jnp.asarray(actions))]


def _in_gymnasium(name: str, states: Any, actions: Any) -> Any:
    env: Any = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    rows = []
    for state, action in zip(states, actions, strict=True):
        env.reset()
        env.state = np.asarray(state, np.float64)
        observation, reward, terminated, _, _ = env.step(action)
        rows.append((np.array(observation), float(np.squeeze(reward)), terminated))
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("name", STATES)
def test_one_step_from_the_same_state_is_gymnasiums(name: str) -> None:
    states, actions = _sample(name)
    obs, reward, terminated = _in_jax(name, states, actions)
    their_obs, their_reward, their_terminated = _in_gymnasium(name, states, actions)
    # Acrobot multiplies angular velocities up to 28 over four stages: float32 keeps fewer digits there.
    tolerance = 2e-3 if name == "Acrobot-v1" else 1e-5
    np.testing.assert_allclose(obs, their_obs, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(terminated, their_terminated)
    np.testing.assert_allclose(reward, their_reward, rtol=1e-4, atol=1e-4)
    if name != "Pendulum-v1":
        assert 0 < terminated.mean() < 1


@pytest.mark.parametrize("name", STATES)
def test_a_whole_episode_stays_with_gymnasiums(name: str) -> None:
    """60 steps from the same start: float32 against float64 drifts, but only in the last digits."""
    task: Any = OWN_TASKS[name].load()
    state = task.init(jax.random.key(3))
    env: Any = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    env.state = np.asarray(state, np.float64)
    _, actions = _sample(name)
    step = jax.jit(lambda state, action: task.step(state, action, jax.random.key(0)))
    for action in actions[:60]:
        state, reward, terminated = step(state, action)
        observation, their_reward, their_terminated, _, _ = env.step(action)
        np.testing.assert_allclose(task.observe(state), observation, rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(reward, np.squeeze(their_reward), rtol=2e-3, atol=2e-3)
        assert bool(terminated) == their_terminated
        if their_terminated:
            return


@pytest.mark.parametrize("name", STATES)
def test_first_states_fill_gymnasiums_range(name: str) -> None:
    task: Any = OWN_TASKS[name].load()
    keys = jax.random.split(jax.random.key(0), 2000)
    ours = np.asarray(jax.vmap(task.init)(keys)).T
    env: Any = gymnasium.make(name).unwrapped
    theirs = np.array([(env.reset(seed=i), env.state)[1] for i in range(2000)])
    np.testing.assert_allclose(ours.min(0), theirs.min(0), atol=0.02)
    np.testing.assert_allclose(ours.max(0), theirs.max(0), atol=0.02)


def test_mountain_car_stops_at_the_left_wall_and_ends_at_the_goal() -> None:
    states = np.array([[-1.19, -0.07], [0.44, 0.05], [0.5, -0.01]], np.float32)
    actions = np.array([[0.0], [0.0], [0.0]], np.float32)
    obs, reward, terminated = _in_jax("MountainCarContinuous-v0", states, actions)
    assert obs[0].tolist() == [np.float32(-1.2), 0.0]
    # Past the goal but rolling back is no end.
    assert terminated.tolist() == [False, True, False] and reward.tolist() == [0.0, 100.0, 0.0]


def test_identity_discrete_pays_one_for_the_shown_choice() -> None:
    task = OWN_TASKS["IdentityDiscrete-v0"].load()
    for target in range(4):
        shown = task.observe(jnp.int32(target))
        assert shown.tolist() == [float(i == target) for i in range(4)]
        rewards = [float(task.step(jnp.int32(target), jnp.int32(a), jax.random.key(0))[1]) for a in range(4)]
        assert rewards == shown.tolist()


def test_identity_image_is_bright_in_one_quarter() -> None:
    task = OWN_TASKS["IdentityImage-v0"].load()
    for target, (row, column) in enumerate(((0, 0), (0, 35), (35, 0), (35, 35))):
        shown = task.observe(jnp.int32(target))
        assert shown.shape == (36, 36, 1) and shown.dtype == jnp.uint8
        assert shown[row, column, 0] == 255 and int((shown > 0).sum()) == 36 * 36 // 4


def test_identity_continuous_costs_the_squared_distance() -> None:
    task = OWN_TASKS["IdentityContinuous-v0"].load()
    _, reward, _ = task.step(jnp.array([0.5]), jnp.array([-0.25]), jax.random.key(0))
    assert float(reward) == -0.5625


@pytest.mark.parametrize("name", ["IdentityDiscrete-v0", "IdentityContinuous-v0"])
def test_the_shown_action_earns_the_best_return_in_sixteen_steps(make: Any, name: str) -> None:
    from driving import drive

    def copy_what_is_shown(obs: Any) -> Any:
        return obs.argmax(-1).astype("int32") if "Discrete" in name else obs

    run = drive(make(name, 3), copy_what_is_shown, 17)
    best = 16.0 if "Discrete" in name else 0.0
    assert run.reward[:16].sum(0).tolist() == [best] * 3
    assert run.truncated[15].all() and run.truncated.sum() == 3 and not run.terminated.any()
    # A new target at nearly every step.
    assert (np.abs(np.diff(run.obs, axis=0)).sum(-1) > 0).mean() > 0.5


def test_a_cue_is_shown_once_and_asked_for_eight_steps_later() -> None:
    task: Any = OWN_TASKS["RecallCue-v0"].load()
    state, shown, paid, ends = task.init(jax.random.key(0)), [], [], []
    cue = int(state.cue)
    for _ in range(9):
        shown.append(np.asarray(task.observe(state)).tolist())
        state, reward, terminated = task.step(state, state.cue, jax.random.key(1))
        paid.append(float(reward))
        ends.append(bool(terminated))
    assert shown == [[float(k == cue) for k in range(5)], *[[0.0] * 5] * 7, [0.0] * 4 + [1.0]]
    assert paid == [0.0] * 8 + [1.0]
    assert ends == [False] * 8 + [True]


def test_cartpole_without_velocities_shows_positions_alone() -> None:
    task: Any = OWN_TASKS["CartPolePositions-v0"].load()
    state = task.init(jax.random.key(0))
    assert np.asarray(task.observe(state)).tolist() == [float(state.position), float(state.angle)]


def test_pendulum_without_its_speed_shows_the_angle_alone() -> None:
    task: Any = OWN_TASKS["PendulumAngle-v0"].load()
    state = task.init(jax.random.key(0))
    shown = np.asarray(task.observe(state))
    np.testing.assert_allclose(shown, [np.cos(state.angle), np.sin(state.angle)], rtol=1e-6)
