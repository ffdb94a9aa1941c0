"""Compiled programs that runs of one process share: what has the same shapes and constants is compiled once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from batchwright.envs.engines import Engine, make_engine
from batchwright.envs.engines.engine import OnEvent

ProgramT = TypeVar("ProgramT")

ARRAYS_OF_EVERY_RUN = frozenset(
    {"seed", "total_steps", "total_episodes", "iterations", "actual_steps", "total_updates", "hold"}
    | {"eval_every", "eval_episodes", "eval_threshold", "stop_return", "checkpoint_every", "doctor"}
    | {"learning_rate", "learning_rate_schedule", "warmup_updates", "num_threads"}
    | {"init_from", "init_digest", "callback"}
    | {"process_bytes", "env_bytes", "rollout_bytes", "update_bytes", "memory_bytes"}
)
"""Numbers of a plan that no compiled program contains: they count, or they are passed to it as arrays."""


MOST_PROGRAMS = 256
"""Each compiled program maps several regions of memory, of which Linux gives a process 65,530: beyond about 1,200
programs LLVM ends it."""


class SharedPrograms:
    """Programs by what they were made from. A run alone has its own; runs in one process may share one of these.

    A key holds every number of the plan that is not known to be passed as an array, so that an unknown one costs a
    compilation and never a bit.
    """

    def __init__(self, most: int = MOST_PROGRAMS) -> None:
        """`most` is the number of programs that are kept; the oldest go first."""
        self._programs: dict[Hashable, Any] = {}
        self._most = most

    def __contains__(self, key: Hashable) -> bool:
        return key in self._programs

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, key: Hashable, make: Callable[[], ProgramT]) -> ProgramT:
        """The program of a key, made by the first run that asks for it."""
        if key not in self._programs:
            made = make()
            while len(self._programs) >= self._most:
                del self._programs[next(iter(self._programs))]
            self._programs[key] = made
        program: ProgramT = self._programs[key]
        return program


_OF_THIS_PROCESS = SharedPrograms(most=64)


def programs_of_process(engine: str) -> SharedPrograms | None:
    """Programs that all runs of this process share, so that a second one compiles nothing.

    Only those of our own JAX tasks: their code is part of the package, so a name always means the same environment.
    """
    return _OF_THIS_PROCESS if engine == "jax" else None


def program_key(name: str, env: str, values: Mapping[str, Any], arrays: frozenset[str], *more: Hashable) -> Hashable:
    """What a program was made from: its name, the environment and all numbers that are not arrays."""
    constants = sorted((key, repr(value)) for key, value in values.items() if key not in arrays)
    return name, env, tuple(constants), more


def make_shared_engine(
    programs: SharedPrograms | None,
    env: str,
    num_envs: int,
    engine: str,
    *,
    num_threads: int | None,
    on_event: OnEvent | None,
    components: Sequence[str],
    step_timeout: float,
    info_keys: Sequence[str] = (),
    agent_groups: Sequence[str] = (),
) -> Engine:
    """An engine; the JAX engine keeps nothing of a run, so runs share it with its compiled start."""
    options: dict[str, Any] = {"on_event": on_event, "components": components, "step_timeout": step_timeout}
    options |= {"info_keys": info_keys, "agent_groups": agent_groups}
    make = partial(make_engine, env, num_envs, engine, num_threads=num_threads, **options)
    if programs is None or engine != "jax":
        return make()
    return programs.get(("engine", env, num_envs, tuple(components)), make)
