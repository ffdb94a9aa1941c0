"""Evaluation: exploration off, its own seeds, its own environments; training does not notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.engines import CompiledEngine, Engine, HostEngine, make_engine
from batchwright.envs.engines.base import OnEvent
from batchwright.nets.policy import ObsStats, Policy

EVAL_ENVS = 16
LONGEST_EPISODE_STEPS = 100_000


class Evaluator:
    """Plays whole episodes; every environment has its share in advance, so that short episodes are not over-counted."""

    def __init__(
        self, env: str, engine_name: str, policy: Policy, episodes: int, on_event: OnEvent | None = None
    ) -> None:
        self._env, self._engine_name, self._episodes, self._on_event = env, engine_name, episodes, on_event
        self._policy = policy
        self._engine: Engine | None = None
        self._step: Any = None

        @jax.jit
        def act(flat: jax.Array, stats: ObsStats, obs: Any, noise: Any) -> Any:
            out = policy.outputs(flat, policy.see(obs, stats))
            action = policy.heads.mode(out.raw) if noise is None else policy.heads.sample(out.params, out.raw, noise)
            return policy.heads.to_env(action)

        self._act = act

    def __call__(self, flat: Any, stats: ObsStats, seed: int, deterministic: bool = True) -> dict[str, np.ndarray]:
        """{"returns", "lengths"} of the episodes, in the order of environments and of their episodes."""
        step, obs, num_envs = self._open(seed)
        share = np.full(num_envs, self._episodes // num_envs)
        share[: self._episodes % num_envs] += 1
        found: list[list[tuple[float, int]]] = [[] for _ in range(num_envs)]
        returns, lengths, ended = np.zeros(num_envs), np.zeros(num_envs, int), np.zeros(num_envs, bool)
        key = jax.random.key(seed)
        for t in range(LONGEST_EPISODE_STEPS * int(share.max())):
            noise = None if deterministic else self._policy.heads.noise(jax.random.fold_in(key, t), (num_envs,))
            took = step(self._act(flat, stats, obs, noise))
            obs, reward = took.obs, np.asarray(took.reward)
            same = took.final_obs is not None
            begun = ended
            live = np.ones(num_envs, bool) if same else ~ended
            returns, lengths = np.where(begun, 0.0, returns) + reward * live, np.where(begun, 0, lengths) + live
            ended = np.asarray(took.terminated) | np.asarray(took.truncated)
            for i in np.flatnonzero(ended):
                if len(found[i]) < share[i]:
                    found[i].append((float(returns[i]), int(lengths[i])))
            if all(len(done) >= wanted for done, wanted in zip(found, share, strict=True)):
                break
        else:
            raise UserError(
                f"{self._env} has episodes of more than {LONGEST_EPISODE_STEPS} steps: it cannot be evaluated."
            )
        rows = [row for done in found for row in done]
        return {"returns": np.array([r for r, _ in rows]), "lengths": np.array([n for _, n in rows])}

    def _open(self, seed: int) -> tuple[Callable[[Any], Any], Any, int]:
        """(step of a tree of actions, first observations, environments) of a freshly seeded engine."""
        if self._engine is None:
            name = "envpool-host" if self._engine_name == "envpool" else self._engine_name
            self._engine = make_engine(self._env, min(self._episodes, EVAL_ENVS), name, on_event=self._on_event)
            if isinstance(self._engine, CompiledEngine):
                self._step = jax.jit(self._engine.step)
        engine = self._engine
        if isinstance(engine, HostEngine):
            obs = engine.start(seed)
            return lambda action: engine.step(jax.tree.map(np.asarray, action)), obs, engine.num_envs
        state, obs = engine.start(seed)  # type: ignore[attr-defined]
        held = [state]

        def step(action: Any) -> Any:
            held[0], took = self._step(held[0], action)
            return took

        return step, obs, engine.num_envs

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        self._engine = None
