"""Environments with a planted fault, and two tasks that show one: addressed as `sick_envs.py:factory`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.spaces import Box, Discrete, MultiDiscrete, box
from batchwright.envs.tasks import OWN_TASKS
from batchwright.envs.tasks.jax_task import JaxTask

ODD_SCALES = (1000.0, 1e-3, 1000.0, 1e-3, 1000.0, 1e-3)


class Wrapped(JaxTask):
    """A task of ours seen through a fault."""

    def __init__(self, name: str) -> None:
        card = OWN_TASKS[name]
        self.inner = card.load()
        self.observation, self.action = card.observation, card.action
        self.max_episode_steps = card.max_episode_steps

    def init(self, key: Any) -> Any:
        return self.inner.init(key)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        return self.inner.step(state, action, key)

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state)


class ScaledRewards(Wrapped):
    """Rewards times a factor."""

    def __init__(self, name: str, factor: float) -> None:
        super().__init__(name)
        self.factor = factor

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = self.inner.step(state, action, key)
        return after, reward * self.factor, terminated


class OddObservations(Wrapped):
    """Neighbouring numbers of an observation differ by a factor of a million, and lie around 1000 times their place."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        assert isinstance(self.observation, Box)
        width = self.observation.shape[0]
        self.scale = np.asarray(ODD_SCALES[:width], np.float32)
        self.observation = box(-np.inf, np.inf, (width,))

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state) * self.scale


class SometimesIll(Wrapped):
    """Some episodes are ill; what that means is told by the classes below."""

    share = 1 / 100

    def init(self, key: Any) -> Any:
        return self.inner.init(key), jax.random.uniform(key) < self.share

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = self.inner.step(state[0], action, key)
        return (after, state[1]), reward, terminated

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state[0])


class NanReward(SometimesIll):
    """The rewards of one episode in 100 are no numbers."""

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = super().step(state, action, key)
        return after, jnp.where(state[1], jnp.nan, reward), terminated


class InfiniteObservation(SometimesIll):
    """The first number of each observation of one episode in 50 is infinite."""

    share = 1 / 50  # a run has 300 episodes

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state[0]).at[..., 0].add(jnp.where(state[1], jnp.inf, 0.0))


class Deceptive(JaxTask):
    """A corridor of 10 places: resting at its begin pays 0.25 a step, its far end 1 a step, the way between nothing."""

    observation = box(0.0, 1.0, (10,))
    action = Discrete(3)
    max_episode_steps = 48

    def init(self, key: Any) -> Any:
        return jnp.zeros((), jnp.int32)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after = jnp.clip(state + jnp.where(action == 1, 1, jnp.where(action == 2, -1, 0)), 0, 9)
        resting = (action == 0) & (state == 0)
        return after, jnp.where(after == 9, 1.0, jnp.where(resting, 0.25, 0.0)), jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        return jax.nn.one_hot(state, 10, dtype=jnp.float32)


class TwoChoices(JaxTask):
    """Two shown targets of four each, two heads: half a point for each that is met."""

    observation = box(0.0, 1.0, (8,))
    action = MultiDiscrete((4, 4))
    max_episode_steps = 16

    def init(self, key: Any) -> Any:
        return jax.random.randint(key, (2,), 0, 4, jnp.int32)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        return self.init(key), (action == state).mean(dtype=jnp.float32), jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        return jax.nn.one_hot(state, 4, dtype=jnp.float32).reshape(8)


class ConstantReturn(Wrapped):
    """Every step pays 1 and every episode is as long: nothing tells one from another."""

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = self.inner.step(state, action, key)
        return after, jnp.ones_like(reward), terminated


def constant() -> JaxTask:
    return ConstantReturn("IdentityContinuous-v0")


def cartpole_rewards_up() -> JaxTask:
    return ScaledRewards("CartPole-v1", 1e4)


def cartpole_rewards_down() -> JaxTask:
    return ScaledRewards("CartPole-v1", 1e-4)


def pendulum_rewards_up() -> JaxTask:
    return ScaledRewards("Pendulum-v1", 1e4)


def pendulum_rewards_down() -> JaxTask:
    return ScaledRewards("Pendulum-v1", 1e-4)


def cartpole_odd() -> JaxTask:
    return OddObservations("CartPole-v1")


def acrobot_odd() -> JaxTask:
    return OddObservations("Acrobot-v1")


def cartpole_nan() -> JaxTask:
    return NanReward("CartPole-v1")


def acrobot_nan() -> JaxTask:
    return NanReward("Acrobot-v1")


def pendulum_infinite() -> JaxTask:
    return InfiniteObservation("Pendulum-v1")


def deceptive() -> JaxTask:
    return Deceptive()


def two_choices() -> JaxTask:
    return TwoChoices()
