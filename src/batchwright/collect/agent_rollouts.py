"""Rollouts of environments with several agents: a row is an agent, an episode is that of its environment."""

# T steps, E environments, A agents of each, R = E x A rows.

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from batchwright.collect.compiled_rollouts import CollectState
from batchwright.collect.host_rollouts import (
    Act,
    HostCollect,
    RolloutRows,
    copy_tree,
    each_leaf,
    make_act,
    make_host_collect,
)
from batchwright.collect.info_log import InfoLog
from batchwright.data.rollout import Episodes, Rollout
from batchwright.envs.engines.engine import HostEngine
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy


def make_python_collect(
    engine: HostEngine, policy: Policy, rollout_steps: int, act: Act | None = None, info_log: InfoLog | None = None
) -> HostCollect:
    """`make_host_collect`, or `make_agent_collect` where environments have several agents."""
    make = make_agent_collect if engine.agents else make_host_collect
    return make(engine, policy, rollout_steps, act, info_log)


TALLY_DTYPES = (np.float32, np.int32, np.int32)


class Tally(NamedTuple):
    """Sums of the running episodes, by row; an environment's rows have one length."""

    returns: np.ndarray  # [R] of each agent since the environment's reset
    lengths: np.ndarray  # [R] steps of the environment since then
    played: np.ndarray  # [R] transitions of each agent since then

    def after(self, reward_R: np.ndarray, valid_R: np.ndarray, begun_R: np.ndarray) -> Tally:
        """After one more step; `begun` marks the rows of environments that it reset."""
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named after the rollout
            returns = np.where(begun_R, np.float32(0), self.returns) + reward_R
        lengths = np.where(begun_R, 0, self.lengths + 1)
        return Tally(returns, lengths, np.where(begun_R, 0, self.played) + valid_R)


def make_agent_collect(
    engine: HostEngine, policy: Policy, rollout_steps: int, act: Act | None = None, info_log: InfoLog | None = None
) -> HostCollect:
    """`make_host_collect` for rows that are agents: those that are not there have rows that are not valid."""
    act, by_env = act or make_act(policy), (engine.num_envs, len(engine.agents))

    def collect(
        flat: jax.Array, stats: ObsStats, state: CollectState, noise: Any
    ) -> tuple[CollectState, Rollout, Episodes]:
        rows = RolloutRows(state, rollout_steps, engine.num_rows, policy.heads.action_size, keeps_final=False)
        ends = _Ends(rollout_steps, by_env)
        obs: Any = rows.keep(0, state.obs)
        idle = np.asarray(state.ended)
        tally = Tally(*(np.asarray(x) for x in (state.returns, state.lengths, state.played)))
        flat, stats = jax.device_put((flat, stats))
        mask: Any = state.mask
        memory: Any = state.memory
        for t in range(rollout_steps):
            action, to_env, memory = act(flat, stats, obs, tuple(eps[t] for eps in noise), mask, memory)
            result = engine.step(each_leaf(np.asarray, to_env))
            valid, reset_E = ~idle, idle.reshape(by_env).all(1)
            reward = np.where(valid, result.reward, np.float32(0))
            tally = tally.after(reward, valid, np.repeat(reset_E, by_env[1]))
            rows.write(t, action, reward[:, None], result, valid, tally.returns, tally.lengths)
            rows.write_special(t, mask, None, None)
            idle = np.array(result.idle)
            # An environment that stands still is idle before and after: it ends no second time.
            ends.write(t, np.asarray(idle.reshape(by_env).all(1) & ~reset_E), tally, result.success)
            if memory is not None and not valid.all():
                memory = np.where(valid[:, None], memory, np.float32(0))
            if info_log is not None:
                info_log.add(result.extras, valid, result.terminated | result.truncated)
            obs, mask = rows.keep(t + 1, result.obs), copy_tree(result.mask)
        returns, lengths, played = (x.astype(kind) for x, kind in zip(tally, TALLY_DTYPES, strict=True))
        last: Any = (None, copy_tree(obs), idle, returns, lengths, mask, None, memory, played)
        return (*rows.finish(CollectState(*last))[:2], ends.episodes())

    return collect


class _Ends:
    """Episodes of environments, filled step by step."""

    def __init__(self, steps: int, by_env: tuple[int, int]) -> None:
        lead, self._by_env = (steps, by_env[0]), by_env
        self._ended, self._lengths = np.zeros(lead, bool), np.zeros(lead, np.int32)
        self._agents = np.full((*lead, by_env[1]), np.nan, np.float32)
        self._success = np.full(lead, np.nan, np.float32)

    def write(self, t: int, ended_E: np.ndarray, tally: Tally, success_R: Any) -> None:
        self._ended[t], self._lengths[t] = ended_E, tally.lengths.reshape(self._by_env)[:, 0]
        took_part = np.where(tally.played > 0, tally.returns, np.float32(np.nan))
        self._agents[t] = took_part.reshape(self._by_env)
        if ended_E.any():  # all agents that say so succeeded
            self._success[t, ended_E] = np.fmin.reduce(success_R.reshape(self._by_env)[ended_E], axis=1)

    def episodes(self) -> Episodes:
        took_part = ~np.isnan(self._agents)
        count = np.maximum(took_part.sum(-1), 1)
        with np.errstate(invalid="ignore", over="ignore"):
            team = np.where(took_part, self._agents, 0).sum(-1, dtype=np.float64) / count
        fields: Any = (self._ended, team.astype(np.float32), self._lengths, None, self._success, self._agents)
        return Episodes(*fields)
