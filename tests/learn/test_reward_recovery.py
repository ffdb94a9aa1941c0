"""From returns alone the reward of every step is found: on a table and on a point mass whose rewards are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from batchwright.envs.spaces import Discrete, box
from batchwright.learn.return_decomposition import rrd_loss
from batchwright.nets.replay_nets import make_reward_network
from batchwright.store.episode_table import draw_episodes, draw_timesteps

EPISODES, UPDATES, SUBSEQUENCES, TIMESTEPS = 400, 1500, 8, 12


def table(rng: np.random.Generator) -> tuple[Any, ...]:
    """Eight states, three actions, a reward for each pair; states are left at random."""
    rewards = rng.uniform(-1, 1, (8, 3))
    lengths = rng.integers(5, 25, EPISODES)
    state = rng.integers(0, 8, lengths.sum() + 1)
    action = rng.integers(0, 3, lengths.sum())
    eye, reward = np.eye(8, dtype=np.float32), rewards[state[:-1], action]
    return box(0.0, 1.0, (8,)), Discrete(3), eye[state[:-1]], action[:, None], eye[state[1:]], lengths, reward


def point_mass(rng: np.random.Generator) -> tuple[Any, ...]:
    """A mass on a plane, pushed at random; the reward is minus its squared distance to the origin and its effort."""
    lengths = rng.integers(10, 30, EPISODES)
    obs, action, after = [], [], []
    for length in lengths:
        place = rng.uniform(-1, 1, 2)
        for _ in range(length):
            push = rng.uniform(-1, 1, 2)
            obs.append(place)
            action.append(push)
            place = np.clip(place + 0.2 * push, -1, 1)
            after.append(place)
    obs, action, after = (np.asarray(x, np.float32) for x in (obs, action, after))
    reward = -np.square(obs).sum(1) - 0.3 * np.square(action).sum(1)
    return box(-1.0, 1.0, (2,)), box(-1.0, 1.0, (2,)), obs, action, after, lengths, reward


def learned(task: tuple[Any, ...], unbiased: bool, rng: np.random.Generator) -> np.ndarray:
    """Predicted rewards of all steps after training on the returns of whole episodes."""
    observation, space, obs, action, after, lengths, reward = task
    rows = tuple(jnp.asarray(x, jnp.float32) for x in (obs, action, after))
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    returns = np.add.reduceat(reward, starts)
    chosen = draw_episodes(rng, lengths, UPDATES * SUBSEQUENCES)
    row = starts[chosen, None] + draw_timesteps(rng, lengths[chosen], TIMESTEPS)
    shape = (UPDATES, SUBSEQUENCES)
    draws = (
        jnp.asarray(row.reshape(*shape, TIMESTEPS)),
        jnp.asarray(returns[chosen].reshape(shape), jnp.float32),
        jnp.asarray(lengths[chosen].reshape(shape)),
    )
    net = make_reward_network(observation, space, (32, 32))
    adam = optax.adam(3e-3)

    @jax.jit
    def train(params: Any) -> Any:
        def step(carry: Any, draw: Any) -> Any:
            params, state = carry
            at, episode_return, length = draw

            def loss(params: Any) -> jax.Array:
                parts = (x[at] for x in rows)
                return rrd_loss(net.apply, params, *parts, episode_return, length, unbiased=unbiased).loss

            change, state = adam.update(jax.grad(loss)(params), state)
            return (optax.apply_updates(params, change), state), None

        return jax.lax.scan(step, (params, adam.init(params)), draws)[0][0]

    params = train(jax.tree.map(jnp.asarray, net.init(jax.random.key(0))))
    return np.asarray(net.apply(params, *rows))


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


@pytest.mark.parametrize("unbiased", [False, True], ids=["rrd", "rrd-unbiased"])
@pytest.mark.parametrize("make", [table, point_mass])
def test_learned_rewards_rank_steps_as_the_true_ones_do(make: Callable[..., Any], unbiased: bool) -> None:
    rng = np.random.default_rng(3)
    task = make(rng)
    found = learned(task, unbiased, rng)
    assert spearman(found, task[-1]) > 0.9
    # On the scale of one step, not of an episode of a dozen.
    assert np.abs(found).mean() == pytest.approx(np.abs(task[-1]).mean(), rel=0.5)
