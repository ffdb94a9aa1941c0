"""How fast each engine really steps an environment, with random actions."""

# T time, N envs

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.envs.engines.engine import CompiledEngine, Engine, HostEngine
from batchwright.envs.engines.select import available_engines, make_engine
from batchwright.envs.spaces import (
    Box,
    Leaf,
    MultiBinary,
    MultiDiscrete,
    Spec,
    leaf_shape,
    leaves,
    observation_bytes,
    unflatten,
    value_at,
)

# Steps that are unrolled into one array of observations, fewer where those are large.
CHUNK_STEPS = 64
CHUNK_BYTES = 64 * 2**20

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
    bytes_per_step = max(1, observation_bytes(engine.observation) * engine.num_envs)
    chunk_steps = int(np.clip(CHUNK_BYTES // bytes_per_step, 1, CHUNK_STEPS))
    actions_T = random_actions(engine.action, chunk_steps, engine.num_envs)
    if isinstance(engine, CompiledEngine):
        run = _compiled_chunks(engine, actions_T)
    else:
        assert isinstance(engine, HostEngine)
        run = _host_chunks(engine, actions_T, chunk_steps)
    run(1)
    chunks, chunks_per_call = 0, 1
    begin = time.perf_counter()
    while (spent_seconds := time.perf_counter() - begin) < seconds or chunks == 0:
        # Long calls, so that the cost of entering a compiled program does not count.
        if spent_seconds < seconds / 8:
            chunks_per_call *= 2
        run(chunks_per_call)
        chunks += chunks_per_call
    return chunks * chunk_steps * engine.num_envs / spent_seconds


def random_actions(spec: Spec, steps: int, num_envs: int) -> Any:
    """Canonical random actions [T, N, ...], uniform within bounds, the same at every call."""
    rng = np.random.default_rng(0)
    return unflatten(spec, [_random_leaf(leaf, (steps, num_envs), rng) for _, leaf in leaves(spec)])


def _random_leaf(leaf: Leaf, lead: tuple[int, int], rng: np.random.Generator) -> Any:
    shape = (*lead, *leaf_shape(leaf))
    if isinstance(leaf, Box):
        low = np.where(np.isfinite(leaf.low), leaf.low, -UNBOUNDED).astype(np.float64)
        high = np.where(np.isfinite(leaf.high), leaf.high, UNBOUNDED).astype(np.float64)
        return (low + (high - low) * rng.random(shape)).astype(np.float32)
    if isinstance(leaf, MultiDiscrete):
        choices: Any = np.asarray(leaf.nvec)
    else:
        choices = 2 if isinstance(leaf, MultiBinary) else leaf.n
    return rng.integers(0, choices, shape).astype(np.int32)


def _host_chunks(engine: HostEngine, actions_T: Any, chunk_steps: int) -> Callable[[int], None]:
    arrays = [value_at(actions_T, path) for path, _ in leaves(engine.action)]
    steps_T = [unflatten(engine.action, [array[t] for array in arrays]) for t in range(chunk_steps)]
    engine.start(0)

    def run(chunks: int) -> None:
        for _ in range(chunks):
            for action in steps_T:
                engine.step(action)

    return run


def _compiled_chunks(engine: CompiledEngine, actions_T: Any) -> Callable[[int], None]:
    import jax
    import jax.numpy as jnp

    def one(state: Any, action: Any) -> tuple[Any, Any]:
        state, step = engine.step(state, action)
        # Kept, as a rollout keeps them, or the compiler would leave their computation out.
        return state, (step.obs, step.reward)

    def chunk(_: Any, carry: Any) -> Any:
        return jax.lax.scan(one, carry[0], actions_T)

    @jax.jit
    def many(state: Any, chunks: Any) -> Any:
        # What a chunk leaves is overwritten by the next one; one body to compile, not two.
        left = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(chunk, 0, (state, None))[1])
        return jax.lax.fori_loop(0, chunks, chunk, (state, left))

    state, _ = engine.start(0)

    def run(chunks: int) -> None:
        nonlocal state
        state, _ = jax.block_until_ready(many(state, chunks))  # type: ignore[no-untyped-call]

    return run
