"""One driver for every kind of engine, and where the sample environments are."""

# T time, N envs

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from batchwright.envs.engines import CompiledEngine, Engine

SAMPLES = str(Path(__file__).with_name("sample_envs.py"))


class Trajectory(NamedTuple):
    """What an engine gave, as numpy copies: first observations [N, ...], then arrays [T, N, ...]."""

    first: Any
    obs: Any
    reward: Any
    terminated: Any
    truncated: Any
    final_obs: Any
    extras: Any
    components: Any
    mask: Any
    success: Any
    idle: Any


def _scan(engine: CompiledEngine, policy: Callable[[Any], Any], steps: int) -> Callable[[Any], Any]:
    """A compiled program from (state, first observations) to the steps that follow."""

    def one(carry: Any, _: Any) -> Any:
        state, obs = carry
        state, step = engine.step(state, policy(obs))
        return (state, step.obs), step

    return jax.jit(lambda carry: jax.lax.scan(one, carry, None, length=steps)[1])


_scanned = functools.cache(_scan)


def drive(engine: Engine, policy: Callable[[Any], Any], steps: int, seed: int = 0) -> Trajectory:
    """Starts the engine and steps it with `policy(obs)` as actions."""
    if isinstance(engine, CompiledEngine):
        state, first = engine.start(seed)
        program = _scanned(engine, policy, steps) if engine.saves_state else _scan(engine, policy, steps)
        return Trajectory(*jax.tree.map(np.asarray, (first, *program((state, first)))))
    obs = first = engine.start(seed)
    first = jax.tree.map(np.copy, first)
    rows = []
    for _ in range(steps):
        step = engine.step(policy(obs))
        obs = step.obs
        rows.append(jax.tree.map(np.copy, step))
    return Trajectory(first, *jax.tree.map(lambda *values: np.stack(values), *rows))


def same(a: Any, b: Any) -> bool:
    """Whether two trees of arrays are equal to the bit, NaN equal to NaN."""
    return jax.tree.all(jax.tree.map(lambda x, y: np.array_equal(x, y, equal_nan=True), a, b))
