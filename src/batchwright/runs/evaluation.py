"""Evaluation with exploration off, in environments and with seeds of its own, so that training is not affected."""

# T steps of a chunk, N environments.

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from batchwright.collect.compiled_rollouts import CollectState, make_collect, start_compiled
from batchwright.collect.episode_rollouts import LONGEST_EPISODE_STEPS, shares
from batchwright.collect.host_rollouts import make_host_collect, start_host
from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.envs.engines import CompiledEngine, Engine, HostEngine, evaluation_engine, make_engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.envs.reward_components import NO_COMPONENTS
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy

EVAL_ENVS = 16
CHUNK_STEPS = 64


class Evaluator:
    """Plays whole episodes; each environment gets its share in advance, so that short episodes are not over-counted."""

    def __init__(self, env: str, engine: Engine, policy: Policy, episodes: int, collect: Any, chunk_steps: int) -> None:
        self._env, self._engine, self._policy, self._episodes = env, engine, policy, episodes
        self._collect, self._steps = collect, chunk_steps

    @classmethod
    def with_own_engine(
        cls, env: str, engine_name: str, policy: Policy, episodes: int, on_event: OnEvent | None = None
    ) -> Evaluator:
        """With environments of its own."""
        name, num_envs = evaluation_engine(engine_name), min(episodes, EVAL_ENVS)
        engine = make_engine(env, num_envs, name, on_event=on_event, components=NO_COMPONENTS)
        if isinstance(engine, HostEngine):
            return cls(env, engine, policy, episodes, make_host_collect(engine, policy, CHUNK_STEPS), CHUNK_STEPS)
        assert isinstance(engine, CompiledEngine)
        return cls(env, engine, policy, episodes, jax.jit(make_collect(engine, policy)), CHUNK_STEPS)

    def __call__(self, params: Any, stats: ObsStats, seed: int, deterministic: bool = True) -> dict[str, np.ndarray]:
        """{"returns", "lengths", "success"} of the episodes, in the order of environments and of their episodes.

        `success` is 1, 0, or NaN where the environment reports none.
        """
        num_envs = self._engine.num_envs
        share = shares(self._episodes, num_envs)
        found: list[list[tuple[float, int, float]]] = [[] for _ in range(num_envs)]
        state, streams = self._start(seed), Streams(seed)
        for chunk in range(1 + LONGEST_EPISODE_STEPS * int(share.max()) // self._steps):
            shape = (self._steps, num_envs)
            noise = (
                self._policy.heads.no_noise(shape)
                if deterministic
                else self._policy.heads.noise(streams.number("evaluated-actions", chunk), shape)
            )
            state, _, episodes = self._collect(params, stats, state, noise)
            returns, lengths = np.asarray(episodes.returns), np.asarray(episodes.lengths)
            success = np.full(shape, np.nan) if episodes.success is None else np.asarray(episodes.success)
            for t, i in np.argwhere(np.asarray(episodes.ended)):
                if len(found[i]) < share[i]:
                    found[i].append((float(returns[t, i]), int(lengths[t, i]), float(success[t, i])))
            if all(len(done) >= wanted for done, wanted in zip(found, share, strict=True)):
                columns = zip(*(row for done in found for row in done), strict=True)
                return dict(zip(("returns", "lengths", "success"), map(np.array, columns), strict=True))
        raise UserError(f"{self._env} has episodes of more than {LONGEST_EPISODE_STEPS} steps: it cannot be evaluated.")

    def _start(self, seed: int) -> CollectState:
        if isinstance(self._engine, HostEngine):
            return start_host(self._engine, seed)
        assert isinstance(self._engine, CompiledEngine)
        return start_compiled(self._engine, seed)

    def close(self) -> None:
        self._engine.close()


def success_rate(found: dict[str, np.ndarray]) -> dict[str, float]:
    """{"success_rate"} of evaluated episodes; empty where the environment does not report success."""
    success = found["success"]
    return {"success_rate": float(np.nanmean(success))} if np.isfinite(success).any() else {}
