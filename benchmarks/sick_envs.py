"""Environments with a planted fault, and two tasks that show one: addressed as `sick_envs.py:factory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.spaces import Box, Discrete, MultiDiscrete, box
from batchwright.envs.tasks import OWN_TASKS
from batchwright.envs.tasks.jax_task import JaxTask

ODD_SCALES = (1000.0, 1e-3, 1000.0, 1e-3, 1000.0, 1e-3)


def no_action(spec: Any) -> Any:
    """The action that is all zeros, of one choice or one vector."""
    return jnp.zeros((), jnp.int32) if isinstance(spec, Discrete) else jnp.zeros(spec.shape, jnp.float32)


class Wrapped(JaxTask):
    """A task of ours seen through a fault."""

    def __init__(self, name: str) -> None:
        self.inner = OTHER_TASKS[name]() if name in OTHER_TASKS else OWN_TASKS[name].load()
        self.observation, self.action = self.inner.observation, self.inner.action
        self.max_episode_steps = self.inner.max_episode_steps

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


class ScaledEntry(Wrapped):
    """One number of the observation times a factor; 0 is a dead sensor."""

    def __init__(self, name: str, factor: float, entry: int) -> None:
        super().__init__(name)
        assert isinstance(self.observation, Box)
        width = self.observation.shape[0]
        self.scale = np.where(np.arange(width) == entry % width, factor, 1.0).astype(np.float32)
        self.observation = box(-np.inf, np.inf, (width,))

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state) * self.scale


class StuckSensor(Wrapped):
    """One number of the observation is a constant."""

    def __init__(self, name: str, entry: int, value: float = 0.7) -> None:
        super().__init__(name)
        assert isinstance(self.observation, Box)
        width = self.observation.shape[0]
        self.dead = np.arange(width) == entry % width
        self.value = np.float32(value)
        self.observation = box(-np.inf, np.inf, (width,))

    def observe(self, state: Any) -> Any:
        return jnp.where(self.dead, self.value, self.inner.observe(state))


class DelayedActions(Wrapped):
    """Actions act a number of steps later; at first the one that is all zeros."""

    def __init__(self, name: str, delay: int) -> None:
        super().__init__(name)
        self.delay = delay

    def init(self, key: Any) -> Any:
        blank = no_action(self.action)
        return self.inner.init(key), jnp.broadcast_to(blank, (self.delay, *blank.shape))

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        queue = state[1]
        after, reward, terminated = self.inner.step(state[0], queue[0], key)
        return (after, jnp.concatenate([queue[1:], jnp.asarray(action, queue.dtype)[None]])), reward, terminated

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state[0])


class StickyActions(Wrapped):
    """With some chance the last action is taken again, whatever was chosen."""

    def __init__(self, name: str, chance: float) -> None:
        super().__init__(name)
        self.chance = chance

    def init(self, key: Any) -> Any:
        return self.inner.init(key), no_action(self.action)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        again = jax.random.uniform(jax.random.fold_in(key, 7)) < self.chance
        taken = jnp.where(again, state[1], jnp.asarray(action, state[1].dtype))
        after, reward, terminated = self.inner.step(state[0], taken, key)
        return (after, taken), reward, terminated

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state[0])


class StaleObservations(Wrapped):
    """Observations are those of a number of steps before."""

    def __init__(self, name: str, delay: int) -> None:
        super().__init__(name)
        self.delay = delay

    def init(self, key: Any) -> Any:
        state = self.inner.init(key)
        shown = self.inner.observe(state)
        return state, jnp.broadcast_to(shown, (self.delay, *shown.shape))

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        shown = self.inner.observe(state[0])
        after, reward, terminated = self.inner.step(state[0], action, key)
        return (after, jnp.concatenate([state[1][1:], shown[None]])), reward, terminated

    def observe(self, state: Any) -> Any:
        return state[1][0]


class FrozenFrames(Wrapped):
    """With some chance the last observation is shown again."""

    def __init__(self, name: str, chance: float) -> None:
        super().__init__(name)
        self.chance = chance

    def init(self, key: Any) -> Any:
        state = self.inner.init(key)
        return state, self.inner.observe(state)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = self.inner.step(state[0], action, key)
        frozen = jax.random.uniform(jax.random.fold_in(key, 9)) < self.chance
        return (after, jnp.where(frozen, state[1], self.inner.observe(after))), reward, terminated

    def observe(self, state: Any) -> Any:
        return state[1]


class LimitAsTermination(Wrapped):
    """Episodes terminate where their time limit should cut them."""

    def __init__(self, name: str, limit: int | None = None) -> None:
        super().__init__(name)
        self.limit = limit or self.max_episode_steps
        self.max_episode_steps = None

    def init(self, key: Any) -> Any:
        return self.inner.init(key), jnp.zeros((), jnp.int32)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = self.inner.step(state[0], action, key)
        return (after, state[1] + 1), reward, terminated | (state[1] + 1 >= self.limit)

    def observe(self, state: Any) -> Any:
        return self.inner.observe(state[0])


class RandomDones(Wrapped):
    """Episodes terminate with some chance at any step, whatever happens."""

    def __init__(self, name: str, chance: float) -> None:
        super().__init__(name)
        self.chance = chance

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = self.inner.step(state, action, key)
        return after, reward, terminated | (jax.random.uniform(jax.random.fold_in(key, 11)) < self.chance)


class PointMass(JaxTask):
    """A mass in the plane with friction, pushed to a target: minus its distance, less the effort."""

    observation = box(-np.inf, np.inf, (6,))
    action = box(-1.0, 1.0, (2,))
    max_episode_steps = 100

    def init(self, key: Any) -> Any:
        at, target = jax.random.uniform(key, (2, 2), jnp.float32, -1.0, 1.0)
        return at, jnp.zeros(2, jnp.float32), target

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        at, speed, target = state
        speed = 0.9 * speed + 0.04 * jnp.clip(action, -1.0, 1.0)
        at = jnp.clip(at + speed, -2.0, 2.0)
        effort = 0.01 * jnp.square(action).sum()
        return (at, speed, target), -jnp.sqrt(jnp.square(at - target).sum() + 1e-6) - effort, jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        at, speed, target = state
        return jnp.concatenate([at, 10 * speed, target - at])


class Catch(JaxTask):
    """A ball falls and drifts; a paddle moves left, right or stays: 1 for a catch, minus 1 for a miss."""

    observation = box(-np.inf, np.inf, (4,))
    action = Discrete(3)
    max_episode_steps = 40

    def init(self, key: Any) -> Any:
        start = jax.random.uniform(key, (3,), jnp.float32, -1.0, 1.0)
        return jnp.stack([start[0], jnp.float32(0), 0.05 * start[1], start[2]])  # ball, fallen, drift, paddle

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        ball, fallen, drift, paddle = state
        ball, fallen = jnp.clip(ball + drift, -1.0, 1.0), fallen + 1 / 16
        paddle = jnp.clip(paddle + 0.12 * (jnp.asarray(action, jnp.float32) - 1.0), -1.0, 1.0)
        landed = fallen >= 1.0
        caught = jnp.abs(ball - paddle) < 0.2
        reward = jnp.where(landed, jnp.where(caught, 1.0, -1.0), 0.0)
        return jnp.stack([ball, fallen, drift, paddle]), reward, landed

    def observe(self, state: Any) -> Any:
        return jnp.stack([state[0], state[1], 10 * state[2], state[3]])


class Lane(JaxTask):
    """A vehicle that steers along a winding lane of half width 1: 1 for each step until it leaves the lane."""

    observation = box(-np.inf, np.inf, (4,))
    action = Discrete(3)
    max_episode_steps = 200

    def init(self, key: Any) -> Any:
        start = jax.random.uniform(key, (3,), jnp.float32, -0.3, 0.3)
        return jnp.stack([start[0], 0.3 * start[1], jnp.float32(0), 0.05 * start[2]])  # offset, heading, turn, bend

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        offset, heading, turn, bend = state
        bend = jnp.clip(0.97 * bend + 0.008 * jax.random.normal(key), -0.06, 0.06)
        turn = 0.7 * turn + 0.025 * (jnp.asarray(action, jnp.float32) - 1.0)
        heading = heading + turn - bend
        offset = offset + 0.25 * jnp.sin(heading)
        return jnp.stack([offset, heading, turn, bend]), jnp.float32(1), jnp.abs(offset) > 1.0

    def observe(self, state: Any) -> Any:
        return jnp.stack([state[0], 3 * state[1], 10 * state[2], 20 * state[3]])


class Collect(JaxTask):
    """A walker on a square that moves in four directions or rests: 1 for each fruit, and the next lies elsewhere."""

    observation = box(-np.inf, np.inf, (4,))
    action = Discrete(5)
    max_episode_steps = 60

    def init(self, key: Any) -> Any:
        return jax.random.uniform(key, (2, 2), jnp.float32, -1.0, 1.0)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        moves = jnp.asarray([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], jnp.float32)
        at, fruit = jnp.clip(state[0] + 0.15 * moves[action], -1.0, 1.0), state[1]
        found = jnp.abs(at - fruit).max() < 0.15
        fruit = jnp.where(found, jax.random.uniform(key, (2,), jnp.float32, -1.0, 1.0), fruit)
        return jnp.stack([at, fruit]), found.astype(jnp.float32), jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        return jnp.concatenate([state[0], state[1] - state[0]])


class Chase(JaxTask):
    """A point that is driven by two speeds and chases one that circles: up to 1 a step, the nearer the more."""

    observation = box(-np.inf, np.inf, (6,))
    action = box(-1.0, 1.0, (2,))
    max_episode_steps = 80

    def init(self, key: Any) -> Any:
        start = jax.random.uniform(key, (3,), jnp.float32, -1.0, 1.0)
        return jnp.stack([start[0], start[1], jnp.pi * start[2], jnp.sign(start[2])])  # place, angle, sense

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        at = jnp.clip(state[:2] + 0.15 * jnp.clip(action, -1.0, 1.0), -1.5, 1.5)
        angle = state[2] + 0.12 * state[3]
        target = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
        reward = jnp.exp(-3.0 * jnp.sqrt(jnp.square(at - target).sum() + 1e-6))
        return jnp.concatenate([at, jnp.stack([angle, state[3]])]), reward, jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        target = jnp.stack([jnp.cos(state[2]), jnp.sin(state[2])])
        return jnp.concatenate([state[:2], target - state[:2], state[3:] * jnp.stack([target[1], target[0]])])


class Lift(JaxTask):
    """A craft that falls unless its engine burns: up to 1 a step, the nearer to a height the more; a crash ends it."""

    observation = box(-np.inf, np.inf, (3,))
    action = Discrete(2)
    max_episode_steps = 150

    def init(self, key: Any) -> Any:
        start = jax.random.uniform(key, (3,), jnp.float32)
        return jnp.stack([0.6 + 0.8 * start[0], 0.04 * (start[1] - 0.5), 0.5 + start[2]])  # height, speed, wanted

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        height, speed, wanted = state
        gust = 0.004 * jax.random.normal(key)
        speed = 0.98 * speed + 0.02 * (2.0 * jnp.asarray(action, jnp.float32) - 1.0) + gust
        height = height + speed
        away = jnp.abs(height - wanted)
        return jnp.stack([height, speed, wanted]), jnp.exp(-4.0 * away), (height < 0.0) | (height > 2.0)

    def observe(self, state: Any) -> Any:
        return jnp.stack([state[0] - 1.0, 10 * state[1], state[2] - state[0]])


class Arm(JaxTask):
    """An arm of two joints that reaches for a target: minus the distance of its tip, less the effort."""

    observation = box(-np.inf, np.inf, (8,))
    action = box(-1.0, 1.0, (2,))
    max_episode_steps = 60

    def init(self, key: Any) -> Any:
        drawn = jax.random.uniform(key, (4,), jnp.float32, -1.0, 1.0)
        reach = 0.4 + 0.4 * jnp.abs(drawn[3])
        target = reach * jnp.stack([jnp.cos(jnp.pi * drawn[2]), jnp.sin(jnp.pi * drawn[2])])
        return jnp.pi * drawn[:2], jnp.zeros(2, jnp.float32), target

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        angles, speeds, target = state
        pushed = jnp.clip(action, -1.0, 1.0)
        speeds = 0.8 * speeds + 0.12 * pushed
        angles = angles + speeds
        away = jnp.sqrt(jnp.square(self._tip(angles) - target).sum() + 1e-6)
        return (angles, speeds, target), -away - 0.01 * jnp.square(pushed).sum(), jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        angles, speeds, target = state
        return jnp.concatenate([jnp.cos(angles), jnp.sin(angles), 4 * speeds, target - self._tip(angles)])

    @staticmethod
    def _tip(angles: Any) -> Any:
        first, second = angles[0], angles[0] + angles[1]
        return 0.5 * jnp.stack([jnp.cos(first) + jnp.cos(second), jnp.sin(first) + jnp.sin(second)])


class Keys(JaxTask):
    """A square of five by five places: half a point for the key, 1 for the door with the key, and that is the end."""

    observation = box(-np.inf, np.inf, (7,))
    action = Discrete(4)
    max_episode_steps = 40

    def init(self, key: Any) -> Any:
        places = jax.random.permutation(key, 25)[:3]
        return jnp.stack([places // 5, places % 5], 1).astype(jnp.float32), jnp.float32(0)  # agent, key, door

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        places, held = state
        moves = jnp.asarray([[1, 0], [-1, 0], [0, 1], [0, -1]], jnp.float32)
        at = jnp.clip(places[0] + moves[action], 0.0, 4.0)
        found = (held == 0) & (at == places[1]).all()
        opened = (held == 1) & (at == places[2]).all()
        held = jnp.where(found, 1.0, held)
        reward = 0.5 * found.astype(jnp.float32) + opened.astype(jnp.float32)
        return (places.at[0].set(at), held), reward, opened

    def observe(self, state: Any) -> Any:
        places, held = state
        return jnp.concatenate([places[0] / 2 - 1, (places[1:] - places[0]).reshape(4) / 2, held[None]])


class Beam(JaxTask):
    """A ball on a beam that a motor tilts: 1 for each step until it rolls off."""

    observation = box(-np.inf, np.inf, (4,))
    action = box(-1.0, 1.0, (1,))
    max_episode_steps = 200

    def init(self, key: Any) -> Any:
        start = jax.random.uniform(key, (3,), jnp.float32, -1.0, 1.0)
        return jnp.stack([0.5 * start[0], 0.02 * start[1], 0.1 * start[2], jnp.float32(0)])  # place, speed, tilt, turn

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        place, speed, tilt, turn = state
        turn = 0.8 * turn + 0.03 * jnp.clip(action[0], -1.0, 1.0)
        tilt = jnp.clip(tilt + turn, -0.5, 0.5)
        speed = speed + 0.03 * jnp.sin(tilt) + 0.003 * jax.random.normal(key)
        place = place + speed
        return jnp.stack([place, speed, tilt, turn]), jnp.float32(1), jnp.abs(place) > 1.0

    def observe(self, state: Any) -> Any:
        return state * jnp.asarray([1.0, 10.0, 3.0, 10.0], jnp.float32)


class Forage(JaxTask):
    """A walker between a ripe and a rotten fruit: 1 for one, minus 1 for the other; both lie elsewhere then."""

    observation = box(-np.inf, np.inf, (6,))
    action = Discrete(4)
    max_episode_steps = 50

    def init(self, key: Any) -> Any:
        return jax.random.uniform(key, (3, 2), jnp.float32, -1.0, 1.0)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        moves = jnp.asarray([[1, 0], [-1, 0], [0, 1], [0, -1]], jnp.float32)
        at = jnp.clip(state[0] + 0.2 * moves[action], -1.0, 1.0)
        near = jnp.abs(state[1:] - at).max(-1) < 0.2
        fruits = jnp.where(near.any(), jax.random.uniform(key, (2, 2), jnp.float32, -1.0, 1.0), state[1:])
        reward = near[0].astype(jnp.float32) - near[1].astype(jnp.float32)
        return jnp.concatenate([at[None], fruits]), reward, jnp.bool_(False)

    def observe(self, state: Any) -> Any:
        return jnp.concatenate([state[0], (state[1:] - state[0]).reshape(4)])


class Dock(JaxTask):
    """A vessel that is pushed to and fro and has to come to rest at a pier: 1 at rest there, and the end."""

    observation = box(-np.inf, np.inf, (3,))
    action = Discrete(3)
    max_episode_steps = 80

    def init(self, key: Any) -> Any:
        start = jax.random.uniform(key, (2,), jnp.float32, -1.0, 1.0)
        return jnp.stack([start[0], 0.05 * start[1], jnp.float32(1)])  # place, speed, fuel

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        place, speed, fuel = state
        push = jnp.asarray(action, jnp.float32) - 1.0
        speed = 0.98 * speed + 0.02 * push + 0.002 * jax.random.normal(key)
        place = jnp.clip(place + speed, -2.0, 2.0)
        docked = (jnp.abs(place) < 0.1) & (jnp.abs(speed) < 0.03)
        reward = jnp.where(docked, 1.0, -0.005 * jnp.abs(push))
        return jnp.stack([place, speed, fuel - 0.0125]), reward, docked

    def observe(self, state: Any) -> Any:
        return state * jnp.asarray([1.0, 10.0, 1.0], jnp.float32)


class ConstantReturn(Wrapped):
    """Every step pays 1 and every episode is as long: nothing tells one from another."""

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after, reward, terminated = self.inner.step(state, action, key)
        return after, jnp.ones_like(reward), terminated


OTHER_TASKS: dict[str, Callable[[], JaxTask]] = {
    "point": PointMass,
    "catch": Catch,
    "lane": Lane,
    "collect": Collect,
    "chase": Chase,
    "lift": Lift,
    "arm": Arm,
    "keys": Keys,
    "beam": Beam,
    "forage": Forage,
    "dock": Dock,
}
"""Tasks of this file, which the thresholds of the doctor were not set on."""
BY_NAME = {name: name for name in OTHER_TASKS} | {
    "cartpole": "CartPole-v1",
    "pendulum": "Pendulum-v1",
    "acrobot": "Acrobot-v1",
    "car": "MountainCarContinuous-v0",
    "choice": "IdentityDiscrete-v0",
    "identity": "IdentityContinuous-v0",
}


PLANTS: dict[str, Callable[[str, float], JaxTask]] = {
    "rewards_times": ScaledRewards,
    "entry_times": lambda name, grade: ScaledEntry(name, grade, -1),
    "first_entry_times": lambda name, grade: ScaledEntry(name, grade, 0),
    "dead_entry": lambda name, grade: StuckSensor(name, int(grade), 0.0),
    "stuck_entry": lambda name, grade: StuckSensor(name, int(grade)),
    "delay": lambda name, grade: DelayedActions(name, int(grade)),
    "sticky": StickyActions,
    "stale": lambda name, grade: StaleObservations(name, int(grade)),
    "frozen": FrozenFrames,
    "limit_terminates": lambda name, grade: LimitAsTermination(name, int(grade) or None),
    "random_dones": RandomDones,
}
"""Faults with a grade, of any task of ours."""


def planted(task: str, fault: str, grade: float) -> JaxTask:
    """A task of ours with one fault at one grade."""
    made: JaxTask = PLANTS[fault](BY_NAME[task], grade)
    return made


def point() -> JaxTask:
    return PointMass()


def catch() -> JaxTask:
    return Catch()


def lane() -> JaxTask:
    return Lane()


def collect() -> JaxTask:
    return Collect()


def chase() -> JaxTask:
    return Chase()


def lift() -> JaxTask:
    return Lift()


def arm() -> JaxTask:
    return Arm()


def keys() -> JaxTask:
    return Keys()


def beam() -> JaxTask:
    return Beam()


def forage() -> JaxTask:
    return Forage()


def dock() -> JaxTask:
    return Dock()


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
