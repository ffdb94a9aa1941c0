"""How fast each engine really steps an environment, with random actions."""

# T time, N envs

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.core.machine import process_tree_bytes
from batchwright.envs.engines.engine import CompiledEngine, Engine, HostEngine
from batchwright.envs.engines.select import make_engine
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

CHUNK_STEPS = 2
"""Steps that a compiled engine unrolls into one array of observations, fewer where those are large."""
HOST_STEPS = 64
"""Different random actions that an engine driven from Python repeats."""
CHUNK_BYTES = 64 * 2**20
BURST_SECONDS = 0.002
"""Time of one burst: shorter than the time slices by which a busy machine takes turns."""
REST_SECONDS = 0.0005
"""Sleep before a burst: a process that has slept is given the core at once, with a whole time slice ahead of it."""
CLEAN_SHARE = 0.1
"""The fastest bursts that count. Other programs slow bursts down and never speed one up; the very fastest would be a
lucky one, without a reset of an environment."""
BURSTS, FEWEST_BURSTS = 50, 3
"""Bursts that are waited for on a busy machine, and those of very slow environments."""
LONGEST = 8
"""How many times the planned time is waited for them."""
CALIBRATION_TRIES, CALIBRATION_SECONDS = 20, 1.0
"""Bursts that must all be long enough before their length is settled: one that was held up only seems to be. One that
worked for that long, by the time of the processor, is."""

# Where a Box has no bound, random actions are drawn up to here.
UNBOUNDED = 1.0


@dataclass(frozen=True)
class Measured:
    """What one engine did with one number of environments."""

    engine: str
    num_envs: int
    steps_per_second: float
    """Environment steps, all environments together."""
    memory_bytes: int = 0
    """RAM that making and first stepping it took."""


def measure_engines(
    name: str, candidates: Sequence[tuple[str, int]], seconds_each: float, num_threads: int | None = None
) -> list[Measured]:
    """Engines with numbers of environments, fastest first; compilation excluded.

    All candidates step in turn, in short bursts, and each is judged by its fastest ones: so other programs on the
    machine change neither the rates nor their order, as long as some bursts get the cores they need. `num_threads` as
    for `make_engine`: with 1, a burst needs one core.
    """
    made: list[Engine] = []
    bursts: list[_Burst] = []
    taken_bytes: list[int] = []
    try:
        for engine_name, num_envs in candidates:
            before_bytes = process_tree_bytes() or 0
            made.append(make_engine(name, num_envs, engine_name, num_threads=num_threads))
            bursts.append(_Burst(made[-1]))
            taken_bytes.append(max(0, (process_tree_bytes() or 0) - before_bytes))
        _take_turns(bursts, seconds_each)
    finally:
        for engine in made:
            engine.close()
    found = [
        Measured(engine.name, engine.num_envs, burst.steps_per_second(), taken)
        for engine, burst, taken in zip(made, bursts, taken_bytes, strict=True)
    ]
    return sorted(found, key=lambda measured: -measured.steps_per_second)


def _take_turns(bursts: Sequence[_Burst], seconds_each: float) -> None:
    """Runs all in turn for the planned time, and longer where other programs let too few bursts through."""
    planned_seconds, begin, turns = seconds_each * len(bursts), time.perf_counter(), 0
    while True:
        spent_seconds = time.perf_counter() - begin
        enough = turns >= BURSTS or spent_seconds > LONGEST * planned_seconds
        if turns >= FEWEST_BURSTS and enough and spent_seconds > planned_seconds:
            return
        for burst in bursts:
            burst.run()
        turns += 1


class _Burst:
    """Repeats a number of steps of one engine that takes about `BURST_SECONDS`, and keeps the time of each repeat."""

    def __init__(self, engine: Engine) -> None:
        bytes_per_step = max(1, observation_bytes(engine.observation) * engine.num_rows)
        compiled = isinstance(engine, CompiledEngine)
        chunk_steps = int(np.clip(CHUNK_BYTES // bytes_per_step, 1, CHUNK_STEPS if compiled else 1))
        if isinstance(engine, CompiledEngine):
            self._step = _compiled_chunks(engine, random_actions(engine.action, chunk_steps, engine.num_rows))
        else:
            assert isinstance(engine, HostEngine)
            self._step = _host_steps(engine, random_actions(engine.action, HOST_STEPS, engine.num_rows))
        self._env_steps_per_chunk = chunk_steps * engine.num_envs
        self._seconds: list[float] = []
        self._step(1)  # compiles
        self._chunks = chunks_of_a_burst(self._timed)

    def _timed(self, chunks: int) -> tuple[float, float]:
        time.sleep(REST_SECONDS)
        begin, worked = time.perf_counter(), time.process_time()
        self._step(chunks)
        return time.perf_counter() - begin, time.process_time() - worked

    def run(self) -> None:
        self._seconds.append(self._timed(self._chunks)[0])

    def steps_per_second(self) -> float:
        return self._chunks * self._env_steps_per_chunk / float(np.quantile(self._seconds, CLEAN_SHARE))


def chunks_of_a_burst(timed: Callable[[int], tuple[float, float]]) -> int:
    """The number of chunks that takes about `BURST_SECONDS`.

    `timed` runs so many and returns the seconds that passed and those that the processor worked for this process. On a
    busy machine the first are far more; where an environment waits for something, they are, too.
    """
    chunks, enough = 1, BURST_SECONDS / 2
    while True:
        spent_seconds = 0.0
        for _ in range(CALIBRATION_TRIES):
            seconds, worked_seconds = timed(chunks)
            spent_seconds += seconds
            if seconds < enough or worked_seconds >= enough or spent_seconds > CALIBRATION_SECONDS:
                break
        if seconds >= enough:
            return chunks
        chunks *= 2


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


def _host_steps(engine: HostEngine, actions_T: Any) -> Callable[[int], None]:
    arrays = [value_at(actions_T, path) for path, _ in leaves(engine.action)]
    steps_T = itertools.cycle([unflatten(engine.action, [array[t] for array in arrays]) for t in range(len(arrays[0]))])
    engine.start(0)

    def run(steps: int) -> None:
        for action in itertools.islice(steps_T, steps):
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
