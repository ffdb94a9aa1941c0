"""Rollouts of engines that Python steps: the least work per step; everything else waits for the update."""

# T steps, N environments.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from batchwright.collect.compiled_rollouts import CollectState
from batchwright.collect.info_log import InfoLog
from batchwright.data.rollout import Episodes, Rollout
from batchwright.envs.engines.engine import HostEngine
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy

Act = Callable[[jax.Array, ObsStats, Any, Any, Any, Any], tuple[jax.Array, Any, Any]]
"""From parameters, observation statistics, observations, noise, mask and memory to flat actions, the environment's, and
the memory after this step."""
HostCollect = Callable[[jax.Array, ObsStats, CollectState, Any], tuple[CollectState, Rollout, Episodes]]


def host_collect_state(obs: Any, num_envs: int, mask: Any = None, num_components: int = 0) -> CollectState:
    """The state after a reset of all environments; a host engine keeps its own state."""
    sums = np.zeros(num_envs, bool), np.zeros(num_envs, np.float32), np.zeros(num_envs, np.int32)
    totals = np.zeros((num_envs, num_components), np.float32) if num_components else None
    fields: Any = (None, copy_tree(obs), *sums, copy_tree(mask), totals)
    return CollectState(*fields)


def start_host(engine: HostEngine, seed: int) -> CollectState:
    """A host engine started anew, and where collection begins."""
    obs = engine.start(seed)
    state = host_collect_state(obs, engine.num_rows, engine.mask, len(engine.reward_names))
    if not engine.agents:
        return state
    there: Any = {"ended": np.array(engine.idle), "played": np.zeros(engine.num_rows, np.int32)}
    return state._replace(**there)


def make_act(policy: Policy) -> Act:
    """The compiled choice of actions from (parameters, observation statistics, observations, noise, mask, memory)."""

    def act(flat: jax.Array, stats: ObsStats, obs: Any, noise: Any, mask: Any, memory: Any) -> tuple[Any, Any, Any]:
        out, memory = policy.step(flat, policy.preprocess(obs, stats), memory)
        action = policy.heads.sample(out.params, out.raw, noise, mask)
        return action, policy.to_env(action), memory

    return jax.jit(act)


def make_host_collect(
    engine: HostEngine, policy: Policy, rollout_steps: int, act: Act | None = None, info_log: InfoLog | None = None
) -> HostCollect:
    """The same function of (parameters, observation statistics, collect state, noise) that compiled engines have.

    `act` is the policy's compiled choice of actions, where another run has made it already; `info_log` takes the
    entries of `info` that the engine gives.
    """
    num_envs, act = engine.num_envs, act or make_act(policy)

    def collect(
        flat: jax.Array, stats: ObsStats, state: CollectState, noise: Any
    ) -> tuple[CollectState, Rollout, Episodes]:
        rows = RolloutRows(state, rollout_steps, num_envs, policy.heads.action_size, engine.autoreset == "same")
        obs: Any = rows.keep(0, state.obs)
        ended, returns, lengths = (np.asarray(x) for x in (state.ended, state.returns, state.lengths))
        # Once for the rollout: host arrays would be handed over anew at every step.
        flat, stats = jax.device_put((flat, stats))
        mask: Any = state.mask
        totals: Any = state.components
        memory: Any = state.memory
        for t in range(rollout_steps):
            action, to_env, memory = act(flat, stats, obs, tuple(eps[t] for eps in noise), mask, memory)
            result = engine.step(each_leaf(np.asarray, to_env))
            valid = np.ones(num_envs, bool) if engine.autoreset == "same" else ~ended
            reward = np.where(valid, result.reward, np.float32(0))
            begun = ended if engine.autoreset == "same" else ~valid
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named after the rollout
                returns = np.where(begun, np.float32(0), returns) + reward
            lengths = np.where(begun, 0, lengths) + valid
            paid = reward[:, None]
            if result.components is not None:
                paid = np.where(valid[:, None], result.components, np.float32(0))
                totals = np.where(begun[:, None], np.float32(0), totals) + paid
            rows.write(t, action, paid, result, valid, returns, lengths)
            rows.write_special(t, mask, totals, result.success)
            ended = result.terminated | result.truncated
            begins = ended if engine.autoreset == "same" else ~valid
            if memory is not None and begins.any():
                memory = np.where(begins[:, None], np.float32(0), memory)
            if info_log is not None:
                info_log.add(result.extras, valid, ended)
            obs, mask = rows.keep(t + 1, result.obs), copy_tree(result.mask)
        # A copy: views would keep all observations of the rollout alive.
        last: Any = (
            None,
            copy_tree(obs),
            ended,
            returns.astype(np.float32),
            lengths.astype(np.int32),
            mask,
            totals,
            memory,
        )
        return rows.finish(CollectState(*last))

    return collect


class RolloutRows:
    """The arrays of one rollout, allocated once per rollout and filled step by step."""

    def __init__(self, start: CollectState, steps: int, num_envs: int, action_size: int, keeps_final: bool) -> None:
        lead, obs = (steps, num_envs), start.obs
        self.obs = each_leaf(lambda x: np.empty((steps + 1, *x.shape), x.dtype), obs)
        self.final = each_leaf(lambda x: np.zeros((steps, *x.shape), x.dtype), obs) if keeps_final else None
        self.action = np.empty((*lead, action_size), np.float32)
        paid = 1 if start.components is None else start.components.shape[-1]
        self.reward, self.returns = np.empty((*lead, paid), np.float32), np.empty(lead, np.float32)
        self.terminated, self.truncated, self.valid = (np.empty(lead, bool) for _ in range(3))
        self.lengths = np.empty(lead, np.int32)
        self.mask: Any = None if start.mask is None else np.empty((*lead, start.mask.shape[-1]), bool)
        self.components = None if start.components is None else np.empty((*lead, paid), np.float32)
        self.success: Any = None
        self.memory = start.memory

    def keep(self, t: int, obs: Any) -> Any:
        """Observations written as those of step `t`, and views of them there."""
        _put(self.obs, t, obs)
        return each_leaf(lambda rows: rows[t], self.obs)

    def write(self, t: int, action: Any, reward: Any, result: Any, valid: Any, returns: Any, lengths: Any) -> None:
        if self.final is not None:
            _put(self.final, t, result.final_obs)
        self.action[t], self.reward[t], self.returns[t], self.lengths[t] = action, reward, returns, lengths
        self.terminated[t], self.truncated[t], self.valid[t] = result.terminated, result.truncated, valid

    def write_special(self, t: int, mask: Any, totals: Any, success: Any) -> None:
        """What only some environments have."""
        if self.mask is not None:
            self.mask[t] = mask
        if self.components is not None:
            self.components[t] = totals
        if success is not None:
            if self.success is None:
                self.success = np.full(self.valid.shape, np.nan, np.float32)
            self.success[t] = success

    def finish(self, state: CollectState) -> tuple[CollectState, Rollout, Episodes]:
        ended = self.terminated | self.truncated
        flags = self.terminated, self.truncated, self.valid
        rollout: Any = (self.obs, self.action, self.reward, *flags, self.final, self.mask, None, self.memory)
        episodes: Any = (ended, self.returns, self.lengths, self.components, self.success)
        return state, Rollout(*rollout), Episodes(*episodes)


def _put(store: Any, t: int, value: Any) -> None:
    for rows, row in zip(jax.tree.leaves(store), jax.tree.leaves(value), strict=True):
        rows[t] = row


def copy_tree(obs: Any) -> Any:
    return each_leaf(np.array, obs)


def each_leaf(function: Callable[[Any], Any], tree: Any) -> Any:
    """`jax.tree.map` of one tree, without what it costs at every step to allow for several."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [function(leaf) for leaf in leaves])


def make_replay(engine: HostEngine, policy: Policy) -> Callable[[jax.Array], None]:
    """Steps an engine through recorded actions [T, N, D]: brings it back to where it was."""
    to_env = jax.jit(policy.to_env)

    def replay(action_TND: jax.Array) -> None:
        for action in np.asarray(action_TND):
            engine.step(each_leaf(np.asarray, to_env(action)))

    return replay
