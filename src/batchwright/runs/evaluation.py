"""Evaluation with exploration off, in environments and with seeds of its own, so that training is not affected."""

# T steps of a chunk, N environments.

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from batchwright.collect.agent_rollouts import make_python_collect
from batchwright.collect.compiled_rollouts import CollectState, make_collect, start_compiled
from batchwright.collect.episode_rollouts import shares
from batchwright.collect.host_rollouts import Act, start_host
from batchwright.core.streams import Streams
from batchwright.envs.engines import CompiledEngine, Engine, HostEngine, evaluation_engine, make_engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.envs.reward_components import NO_COMPONENTS
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy
from batchwright.planning.quantity import counted
from batchwright.watch.statistics import summarise

EVAL_ENVS = 16
CHUNK_STEPS = 64

Episode: TypeAlias = tuple[float, int, float, bool, np.ndarray]
"""Return, length, success (NaN: unknown), whether it was cut, and the return of each agent where there are several."""


class Evaluated(NamedTuple):
    """Evaluated episodes, in the order of environments and of their episodes."""

    returns: np.ndarray
    lengths: np.ndarray
    success: np.ndarray
    """1, 0, or NaN where the environment reports none."""
    cut: np.ndarray
    """Episodes that had not ended at the step limit: return and length are those up to there."""
    agents: np.ndarray
    """[episodes, A] returns of the agents, NaN of those that had no part; no columns where environments have one."""
    agent_names: tuple[str, ...] = ()

    def summary(self) -> dict[str, Any]:
        """`summarise`, and where the environment has them `success_rate` and the mean return of each of its agents."""
        known = np.isfinite(self.success)
        more: dict[str, Any] = {"success_rate": float(self.success[known].mean())} if known.any() else {}
        if self.agent_names:
            more["agents"] = agent_means(self.agents, self.agent_names)
        return summarise(self.returns, np.flatnonzero(self.cut).tolist()) | more

    def warnings(self, env: str, max_steps: int) -> tuple[str, ...]:
        """What the user should know of these episodes."""
        found = []
        if self.cut.any():
            found.append(
                f"{self.cut.sum()} of {counted(len(self.cut), 'evaluated episode')} of {env} had not ended after "
                f"{max_steps:,} steps and were cut there (--eval-max-steps)"
            )
        bad = int((~np.isfinite(self.returns)).sum())
        if bad:
            found.append(
                f"{bad} of {counted(len(self.returns), 'evaluated episode')} of {env} had a return that is not finite: "
                "left out of the statistics"
            )
        return tuple(found)


def agent_means(returns_BA: np.ndarray, names: tuple[str, ...]) -> dict[str, float]:
    """The mean return of each agent over the episodes that it had a part in; those without any are left out."""
    means = {}
    for name, column in zip(names, np.asarray(returns_BA, np.float64).T, strict=True):
        if np.isfinite(column).any():
            means[name] = float(column[np.isfinite(column)].mean())
    return means


class Evaluator:
    """Plays whole episodes; each environment gets its share in advance, so that short episodes are not over-counted."""

    def __init__(
        self, engine: Engine, policy: Policy, episodes: int, max_steps: int, collect: Any, chunk_steps: int
    ) -> None:
        self._engine, self._policy, self._episodes = engine, policy, episodes
        self._max_steps, self._collect, self._chunk_steps = max_steps, collect, chunk_steps

    @classmethod
    def with_own_engine(
        cls,
        env: str,
        engine_name: str,
        policy: Policy,
        episodes: int,
        max_steps: int,
        on_event: OnEvent | None = None,
        step_timeout: float | None = None,
        make_act: Callable[[], Act] | None = None,
        agent_groups: tuple[str, ...] = (),
    ) -> Evaluator:
        """With environments of its own; `make_act` gives the compiled choice of actions that training has."""
        name, num_envs = evaluation_engine(engine_name), min(episodes, EVAL_ENVS)
        engine = make_engine(
            env,
            num_envs,
            name,
            on_event=on_event,
            components=NO_COMPONENTS,
            step_timeout=step_timeout,
            agent_groups=agent_groups,
        )
        if isinstance(engine, HostEngine):
            collect: Any = make_python_collect(engine, policy, CHUNK_STEPS, make_act() if make_act else None)
        else:
            assert isinstance(engine, CompiledEngine)
            collect = jax.jit(make_collect(engine, policy))
        return cls(engine, policy, episodes, max_steps, collect, CHUNK_STEPS)

    def __call__(self, params: Any, stats: ObsStats, seed: int, deterministic: bool = True) -> Evaluated:
        """The episodes; one that has not ended after the most steps is cut, and all environments are started again."""
        share_N = shares(self._episodes, self._engine.num_envs)
        found: list[list[Episode]] = [[] for _ in share_N]
        for attempt in itertools.count():
            left_N = [int(share) - len(done) for share, done in zip(share_N, found, strict=True)]
            if not any(left_N):
                break
            again = seed if attempt == 0 else Streams(seed).number("evaluation-after-cut", attempt)
            for done, episodes in zip(found, self._play(params, stats, again, deterministic, left_N), strict=True):
                done.extend(episodes)
        columns: Any = [np.array(column) for column in zip(*itertools.chain(*found), strict=True)]
        return Evaluated(*columns)._replace(agent_names=self._engine.agents)

    def _play(
        self, params: Any, stats: ObsStats, seed: int, deterministic: bool, left_N: list[int]
    ) -> list[list[Episode]]:
        """Episodes of each environment until it has played what is left of its share, or one was cut."""
        state, streams, heads = self._start(seed), Streams(seed), self._policy.heads
        found: list[list[Episode]] = [[] for _ in left_N]
        open_N = np.array(left_N) > 0
        shape = (self._chunk_steps, self._engine.num_rows)
        for chunk in itertools.count():
            if not open_N.any():
                return found
            drawn = None if deterministic else streams.number("evaluated-actions", chunk)
            noise = heads.no_noise(shape) if drawn is None else heads.noise(drawn, shape)
            state, _, episodes = self._collect(params, stats, state, noise)
            returns, lengths, ended = (np.asarray(x) for x in (episodes.returns, episodes.lengths, episodes.ended))
            success = np.full(ended.shape, np.nan) if episodes.success is None else np.asarray(episodes.success)
            agents = np.zeros((*ended.shape, 0)) if episodes.agents is None else episodes.agents
            for t, i in np.argwhere(ended | (lengths == self._max_steps)):
                if open_N[i]:
                    cut = not ended[t, i]
                    one = float(returns[t, i]), int(lengths[t, i]), float(success[t, i]), bool(cut)
                    found[i].append((*one, np.array(agents[t, i])))
                    open_N[i] = not cut and len(found[i]) < left_N[i]
        raise AssertionError("unreachable: chunks are counted without end")

    def _start(self, seed: int) -> CollectState:
        memory = self._policy.initial_memory(self._engine.num_rows)
        if isinstance(self._engine, HostEngine):
            return start_host(self._engine, seed)._replace(memory=memory)
        assert isinstance(self._engine, CompiledEngine)
        return start_compiled(self._engine, seed)._replace(memory=memory)

    def close(self) -> None:
        self._engine.close()
