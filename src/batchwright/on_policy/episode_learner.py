"""A run by whole episodes: environments begin anew in every iteration and play their shares (ADR 0013)."""

# N environments, E episodes of a rollout, L steps that each of them has room for.

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.collect.compiled_rollouts import CollectState, initial_collect_state, make_compiled_replay
from batchwright.collect.episode_rollouts import COMPILED_CHUNK_STEPS, HOST_CHUNK_STEPS, Chunk, play_shares, shares
from batchwright.collect.host_rollouts import host_collect_state
from batchwright.data.rollout import CollectResult, Rollout
from batchwright.envs.engines import CompiledEngine, HostEngine
from batchwright.nets.normalise import ObsStats
from batchwright.on_policy.episode_update import EpisodeOrders, episode_orders, make_episode_update
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.on_policy.on_policy_state import Hyper, OnPolicyState
from batchwright.on_policy.on_policy_update import Update
from batchwright.runs.engine_session import EngineSession

ROWS_AT_ONCE = 16_384
"""Rows that a rollout may have room for however short its episodes are: one program, 20 ms for their values."""
ROOM_FACTOR = 4
"""Where episodes may be longer, room comes in steps of this factor: each is one more program."""


class EpisodeSession(EngineSession):
    """Environments that begin anew in every iteration."""

    @property
    def resumes_from_state(self) -> bool:
        """Environments that are seeded in every iteration leave nothing to be replayed."""
        return self.engine.starts_at_once

    def replay(self, iteration: int, actions: list[np.ndarray], saved: CollectState) -> CollectState:
        engine = self.engine
        assert isinstance(engine, CompiledEngine)
        run = jax.jit(make_compiled_replay(engine, self.policy))
        state = self.start(iteration).engine
        for number, action_TND in enumerate(actions):
            if number:
                state, _ = engine.reset_all(state)
            for chunk in action_TND.reshape(-1, self.collect_steps, *action_TND.shape[1:]):
                state = run(state, jnp.asarray(chunk))
        return saved._replace(engine=state)


class EpisodeLearner(OnPolicyLearner):
    """A learner whose rollouts are whole episodes, one to a column."""

    column = "episode"
    session_type = EpisodeSession

    @property
    def collect_steps(self) -> int:
        return COMPILED_CHUNK_STEPS if self.engine.compiled else HOST_CHUNK_STEPS

    def collect_rollout(self, state: OnPolicyState, stats: ObsStats) -> CollectResult:
        iteration = int(state.counters.iteration)
        share_N = shares(self.on_policy_settings.columns, self.engine.num_envs)
        collect_state, stands_still = self._begin(iteration, state, share_N)

        def play(collect_state: CollectState, chunk: int) -> Chunk:
            return self.session.collect(state.train.params, stats, collect_state, self.noise(iteration, chunk))

        return play_shares(play, collect_state, share_N, self._room, stands_still=stands_still)

    def minibatch_order(self, iteration: int, rollout: Rollout) -> EpisodeOrders:
        settings, stream = self.on_policy_settings, self.streams.number("minibatch-order", iteration)
        assert settings.episode_cut is not None
        return episode_orders(stream, np.asarray(rollout.valid), settings.update.epochs, settings.episode_cut)

    def _make_update(self) -> Update:
        settings = self.on_policy_settings
        assert settings.episode_cut is not None
        return make_episode_update(self.policy, settings.update, settings.episode_cut, self._value_only)

    def _recorded_metrics(self, metrics: dict[str, float], hyper: Hyper, collected: CollectResult) -> dict[str, Any]:
        return {**super()._recorded_metrics(metrics, hyper, collected), "surplus_steps": collected.surplus_steps}

    def _begin(self, iteration: int, state: OnPolicyState, share_N: np.ndarray) -> tuple[CollectState, bool]:
        """(all environments at the start of an episode, whether they stand still after their shares)."""
        engine = self.engine
        if isinstance(engine, HostEngine):
            obs, stands_still = engine.start_share(self.streams.number("environments", iteration), share_N.tolist())
            return host_collect_state(obs, engine.num_envs, engine.mask, len(engine.reward_names)), stands_still
        assert isinstance(engine, CompiledEngine)
        if engine.starts_at_once:
            return self.session.start(iteration), False
        if iteration == int(state.counters.engine_started):
            return state.collect_state, False
        anew, obs = engine.reset_all(state.collect_state.engine)
        mask, components = engine.mask_of(anew), len(engine.reward_names)
        return initial_collect_state(anew, obs, engine.num_envs, mask, components), False

    def _room(self, longest_steps: int) -> int:
        return room(longest_steps, self.on_policy_settings.columns, self.engine.max_episode_steps)


def room(longest_steps: int, episodes: int, limit_steps: int | None) -> int:
    """Steps [L] that every episode of a rollout gets; few different ones over a run, so that few programs are made."""
    small = max(1, ROWS_AT_ONCE // episodes)
    if limit_steps is None or longest_steps > limit_steps:  # an environment may not keep to what it says
        while small < longest_steps:
            small *= ROOM_FACTOR
        return small
    fitting = limit_steps
    while fitting > small and -(-fitting // ROOM_FACTOR) >= longest_steps:
        fitting = -(-fitting // ROOM_FACTOR)
    return fitting
