"""Rollouts of engines whose step is part of the program: one scan over time, nothing per step in Python."""

# T steps, N environments.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.arrays import BoolN, BoolNM, FloatN, FloatNK, FloatNS, IntN, Tree
from batchwright.data.rollout import Episodes, Rollout
from batchwright.envs.engines.engine import CompiledEngine
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy


class CollectState(NamedTuple):
    """Where collection stands between two rollouts."""

    engine: Any  # the engine's state
    obs: Tree  # of [N, ...]
    ended: BoolN  # the last step ended an episode, so the next one is its reset; of agents: not there
    returns: FloatN  # since the reset
    lengths: IntN  # transitions since the reset
    mask: BoolNM | None = None  # what may be done now; None where the environment has no masks
    components: FloatNK | None = None  # returns of the reward's components; None where there is one
    memory: FloatNS | None = None  # what the policy remembers; None where it has no memory
    played: IntN | None = None  # transitions of each agent since the reset; None where environments have one


def initial_collect_state(
    engine_state: Any, obs: Any, num_envs: int, mask: Any = None, num_components: int = 0
) -> CollectState:
    """The state after a reset of all environments: on the device, as the one after a rollout is."""
    ended, returns, lengths, totals = jax.device_put(
        (
            np.zeros(num_envs, bool),
            np.zeros(num_envs, np.float32),
            np.zeros(num_envs, np.int32),
            np.zeros((num_envs, num_components), np.float32) if num_components else None,
        )
    )
    return CollectState(engine_state, obs, ended, returns, lengths, mask, totals)


def start_compiled(engine: CompiledEngine, seed: int) -> CollectState:
    """A compiled engine started anew, and where collection begins."""
    state, obs = engine.start(seed)
    return initial_collect_state(state, obs, engine.num_envs, engine.mask_of(state), len(engine.reward_names))


Collect = Callable[[jax.Array, ObsStats, CollectState, Any], tuple[CollectState, Rollout, Episodes]]


def make_collect(engine: CompiledEngine, policy: Policy) -> Collect:
    """A function of (parameters, observation statistics, state, noise [T, N, ...]); to be compiled by the caller."""

    def collect(
        flat: jax.Array, stats: ObsStats, state: CollectState, noise: Any
    ) -> tuple[CollectState, Rollout, Episodes]:
        def step(at: CollectState, eps: Any) -> tuple[CollectState, Any]:
            out, memory = policy.step(flat, policy.preprocess(at.obs, stats), at.memory)
            action = policy.heads.sample(out.params, out.raw, eps, at.mask)
            engine_state, result = engine.step(at.engine, policy.to_env(action))
            valid = ~at.ended
            ended = result.terminated | result.truncated
            reward = jnp.where(valid, result.reward, 0.0)
            returns = jnp.where(valid, at.returns, 0.0) + reward
            lengths = jnp.where(valid, at.lengths + 1, 0)
            paid, totals = reward[:, None], None
            if result.components is not None:
                assert at.components is not None  # an engine gives them at every step or at none
                paid = jnp.where(valid[:, None], result.components, 0.0)
                totals = jnp.where(valid[:, None], at.components, 0.0) + paid
            row = (at.obs, action, paid, result.terminated, result.truncated, valid, at.mask)
            episodes = Episodes(ended, returns, lengths, totals, result.success)
            if memory is not None:  # the row after an end is a reset: what comes next begins an episode
                memory = jnp.where(valid[:, None], memory, 0.0)
            after = CollectState(engine_state, result.obs, ended, returns, lengths, result.mask, totals, memory)
            return after, (row, episodes)

        last, (rows, episodes) = jax.lax.scan(step, state, noise)
        obs, action, reward, terminated, truncated, valid, mask = rows
        obs = jax.tree.map(lambda early, late: jnp.concatenate([early, late[None]]), obs, last.obs)
        kept = Rollout(obs, action, reward, terminated, truncated, valid, None, mask, memory=state.memory)
        return last, kept, episodes

    return collect


def make_compiled_replay(engine: CompiledEngine, policy: Policy) -> Callable[[Any, jax.Array], Any]:
    """Steps an engine through recorded actions [T, N, D]: gives back the state it was in then."""

    def replay(state: Any, action_TND: jax.Array) -> Any:
        def step(state: Any, action: jax.Array) -> tuple[Any, None]:
            return engine.step(state, policy.to_env(action))[0], None

        return jax.lax.scan(step, state, action_TND)[0]

    return replay
