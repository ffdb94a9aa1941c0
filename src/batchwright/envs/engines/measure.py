"""How fast each engine really steps an environment, with random actions."""

# T time, N envs

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.envs.engines.base import CompiledEngine, Engine, HostEngine
from batchwright.envs.engines.select import available_engines, make_engine
from batchwright.envs.spaces import (
    Box,
    Leaf,
    MultiBinary,
    MultiDiscrete,
    Spec,
    leaf_shape,
    leaves,
    unflatten,
    value_at,
)

# Steps between two looks at the clock.
CHUNK_STEPS = 64

# Where a Box has no bound, random actions are drawn up to here.
UNBOUNDED = 1.0


@dataclass(frozen=True)
class Measured:
    """What one engine did with one number of environments."""

    engine: str
    num_envs: int
    steps_per_second: float
    """Environment steps, all environments together."""


def measure_engines(
    name: str,
    num_envs_candidates: Sequence[int],
    seconds_each: float,
    engines: Sequence[str] | None = None,
) -> list[Measured]:
    """Every engine that has the environment at every candidate count, fastest first; compilation excluded."""
    results = []
    for engine_name in available_engines(name) if engines is None else engines:
        for num_envs in num_envs_candidates:
            engine = make_engine(name, num_envs, engine_name)
            try:
                results.append(Measured(engine.name, num_envs, steps_per_second(engine, seconds_each)))
            finally:
                engine.close()
    return sorted(results, key=lambda measured: -measured.steps_per_second)


def steps_per_second(engine: Engine, seconds: float) -> float:
    """Environment steps per second of a fresh engine over about `seconds`."""
    actions_T = random_actions(engine.action, CHUNK_STEPS, engine.num_envs)
    if isinstance(engine, CompiledEngine):
        chunk = _compiled_chunk(engine, actions_T)
    else:
        assert isinstance(engine, HostEngine)
        chunk = _host_chunk(engine, actions_T)
    chunk()
    begin = time.perf_counter()
    chunks = 0
    while (spent_seconds := time.perf_counter() - begin) < seconds or chunks == 0:
        chunk()
        chunks += 1
    return chunks * CHUNK_STEPS * engine.num_envs / spent_seconds


def random_actions(spec: Spec, steps: int, num_envs: int) -> Any:
    """Canonical random actions [T, N, ...], uniform within bounds, the same at every call."""
    source = np.random.default_rng(0)
    return unflatten(spec, [_random_leaf(leaf, (steps, num_envs), source) for _, leaf in leaves(spec)])


def _random_leaf(leaf: Leaf, lead: tuple[int, int], source: np.random.Generator) -> Any:
    shape = (*lead, *leaf_shape(leaf))
    if isinstance(leaf, Box):
        low = np.where(np.isfinite(leaf.low), leaf.low, -UNBOUNDED).astype(np.float64)
        high = np.where(np.isfinite(leaf.high), leaf.high, UNBOUNDED).astype(np.float64)
        return (low + (high - low) * source.random(shape)).astype(np.float32)
    if isinstance(leaf, MultiDiscrete):
        choices: Any = np.asarray(leaf.nvec)
    else:
        choices = 2 if isinstance(leaf, MultiBinary) else leaf.n
    return source.integers(0, choices, shape).astype(np.int32)


def _host_chunk(engine: HostEngine, actions_T: Any) -> Any:
    arrays = [value_at(actions_T, path) for path, _ in leaves(engine.action)]
    steps_T = [unflatten(engine.action, [array[t] for array in arrays]) for t in range(CHUNK_STEPS)]
    engine.start(0)

    def run() -> None:
        for action in steps_T:
            engine.step(action)

    return run


def _compiled_chunk(engine: CompiledEngine, actions_T: Any) -> Any:
    import jax

    state, _ = engine.start(0)

    def one(state: Any, action: Any) -> tuple[Any, Any]:
        state, step = engine.step(state, action)
        # The observations stay in the program, or the compiler would leave their computation out.
        return state, (step.obs, step.reward)

    scanned = jax.jit(lambda state: jax.lax.scan(one, state, actions_T))

    def run() -> None:
        nonlocal state
        state, _ = jax.block_until_ready(scanned(state))  # type: ignore[no-untyped-call]

    return run
