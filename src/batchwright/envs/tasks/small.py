"""Small tasks for the special parts of training: a mixed action, a reward of two scales, a tempting mistake."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batchwright.envs.tasks.jax_task import OwnTask

CHOICES = 3
USES_AMOUNT = (0, 1)
TARGETS = 4
LARGE_SCALE, LARGE_NOISE = 1000.0, 0.5
GOOD_SHARE = 0.75
DEEPEST, TEMPTATION = 6, 0.8


class Shown(NamedTuple):
    """What the hybrid identity shows: the right choice, the right amount, and a choice that is forbidden."""

    choice: jax.Array
    amount: jax.Array
    forbidden: jax.Array


class IdentityHybrid(OwnTask):
    """Reward 1 for the shown choice, less (amount - shown amount)^2 / 4 with the choices that use the amount."""

    def init(self, key: Any) -> Shown:
        keys = jax.random.split(key, 3)
        choice = jax.random.randint(keys[0], (), 0, CHOICES, jnp.int32)
        amount = jax.random.uniform(keys[1], (1,), jnp.float32, -1.0, 1.0)
        step = jax.random.randint(keys[2], (), 1, CHOICES, jnp.int32)
        return Shown(choice, amount, (choice + step) % CHOICES)

    def step(self, state: Shown, action: Any, key: Any) -> tuple[Shown, Any, Any]:
        hit = (action["choice"] == state.choice).astype(jnp.float32)
        used = jnp.isin(state.choice, jnp.asarray(USES_AMOUNT))
        off = jnp.where(used, jnp.square(action["amount"] - state.amount)[0] / 4, 0.0)
        return self.init(key), hit * (1.0 - off), jnp.bool_(False)

    def observe(self, state: Shown) -> Any:
        return jnp.concatenate([jax.nn.one_hot(state.choice, CHOICES, dtype=jnp.float32), state.amount])

    def mask(self, state: Shown) -> Any:
        return {"choice": jnp.arange(CHOICES) != state.forbidden, "amount": None}


class Hits(NamedTuple):
    """The two shown targets, and how often each was met in how many steps."""

    targets: jax.Array
    met: jax.Array
    steps: jax.Array


class TwoObjectives(OwnTask):
    """Two targets, two choices: `large` pays 1000 (met + noise), `small` pays 1. A success meets 3/4 of both."""

    def init(self, key: Any) -> Hits:
        targets = jax.random.randint(key, (2,), 0, TARGETS, jnp.int32)
        return Hits(targets, jnp.zeros(2, jnp.int32), jnp.int32(0))

    def step(self, state: Hits, action: Any, key: Any) -> tuple[Hits, Any, Any]:
        targets_key, noise_key = jax.random.split(key)
        met = action == state.targets
        noise = LARGE_NOISE * jax.random.normal(noise_key)
        reward = jnp.stack([LARGE_SCALE * (met[0] + noise), met[1].astype(jnp.float32)])
        targets = jax.random.randint(targets_key, (2,), 0, TARGETS, jnp.int32)
        return Hits(targets, state.met + met, state.steps + 1), reward, jnp.bool_(False)

    def observe(self, state: Hits) -> Any:
        return jax.nn.one_hot(state.targets, TARGETS, dtype=jnp.float32).reshape(-1)

    def succeeded(self, state: Hits) -> Any:
        return (state.met >= GOOD_SHARE * state.steps).all()


class Deceptive(OwnTask):
    """A corridor of 6 steps: going on to its end pays 1; turning back pays 0.8 at the first step and nothing later.

    For a policy that chooses evenly going on is worth 1/32: what is learned first is to turn back.
    """

    def init(self, key: Any) -> jax.Array:
        del key
        return jnp.zeros((), jnp.int32)

    def step(self, state: jax.Array, action: Any, key: Any) -> tuple[jax.Array, Any, Any]:
        del key
        goes_on = action == 1
        depth = jnp.where(goes_on, state + 1, state)
        back = jnp.where(state == 0, TEMPTATION, 0.0)
        reward = jnp.where(goes_on, (depth == DEEPEST).astype(jnp.float32), back)
        return depth, reward, ~goes_on | (depth == DEEPEST)

    def observe(self, state: jax.Array) -> Any:
        return jax.nn.one_hot(jnp.minimum(state, DEEPEST - 1), DEEPEST, dtype=jnp.float32)

    def succeeded(self, state: jax.Array) -> Any:
        return state == DEEPEST
