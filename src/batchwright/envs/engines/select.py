"""One engine by name, or the best that is there for an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchwright.config.schema import ENGINE_CHOICES
from batchwright.core.errors import UserError, unknown
from batchwright.envs import envpool_source, gymnasium_source
from batchwright.envs.catalog import describe
from batchwright.envs.engines.engine import Engine, OnEvent
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.envs.jax_adapters import adapt
from batchwright.envs.tasks import OWN_TASKS
from batchwright.envs.watchdog import print_no_answer

ENGINES = ENGINE_CHOICES
EVALUATION_ENGINES = {"envpool": "envpool-host"}
"""EnvPool's compiled rollout is compiled again for every start: evaluations drive it from Python."""


@dataclass(frozen=True)
class Wanted:
    """What was asked of `make_engine`."""

    name: str
    num_envs: int
    num_threads: int | None
    on_event: OnEvent
    max_episode_steps: int | None
    env_kwargs: Mapping[str, Any]
    info_keys: tuple[str, ...]
    components: tuple[str, ...] | None
    """Reward components: None for all of a vector reward, ("none",) for the plain sum."""
    step_timeout: float | None
    """Seconds that an environment of a worker may take for one step; None or 0 for no limit."""
    agent_groups: tuple[str, ...] = ()

    def source(self) -> EnvSource:
        """How a single Gymnasium environment is made."""
        return EnvSource(self.name, self.max_episode_steps, dict(self.env_kwargs), self.agent_groups)


def evaluation_engine(name: str) -> str:
    """The engine that evaluates what another trained on."""
    return EVALUATION_ENGINES.get(name, name)


def make_engine(
    name: str,
    num_envs: int,
    engine: str = "auto",
    *,
    num_threads: int | None = None,
    on_event: OnEvent | None = None,
    max_episode_steps: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    info_keys: Sequence[str] = (),
    components: Sequence[str] | None = None,
    step_timeout: float | None = None,
    agent_groups: Sequence[str] = (),
) -> Engine:
    """`num_envs` copies of an environment behind the one vector interface.

    `auto` takes the first of jax, envpool, gymnasium-vector, gymnasium-sync that has the environment.
    `num_threads` are EnvPool's threads, or the processes that step environments in gymnasium-async and, the trainer's
    own among them, in gymnasium-split; results do not depend on it.
    `info_keys` are the entries of `info` that come back as `Step.extras`; `components` are parts of a vector reward or
    keys of `info` that come back as `Step.components`: all of a vector reward when not given, none for ("none",).
    `step_timeout` are the seconds after which gymnasium-async and gymnasium-split replace a worker that hangs;
    `agent_groups` name the agents that share a policy, by default those of equal spaces.
    """
    for what, value in (
        ("num_envs", num_envs),
        ("num_threads", num_threads),
        ("max_episode_steps", max_episode_steps),
    ):
        if value is not None and value < 1:
            raise UserError(f"{what} is {value}; it must be at least 1.", (f"--{what.replace('_', '-')} 1",))
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES, "--engine")
    wanted = Wanted(
        name,
        num_envs,
        num_threads,
        on_event or print_no_answer,
        max_episode_steps,
        dict(env_kwargs or {}),
        tuple(info_keys),
        None if components is None else tuple(components),
        step_timeout,
        tuple(agent_groups),
    )
    return _MAKERS[_resolve(wanted, engine)](wanted)


def available_engines(name: str) -> tuple[str, ...]:
    """The engines that can run an environment, in the order `auto` prefers them; imports EnvPool."""
    return describe(name, ask_envpool=True).engines


def _resolve(wanted: Wanted, engine: str) -> str:
    """The engine that is meant, refused when it cannot run the environment."""
    if engine == "gymnasium":
        return "gymnasium-vector" if gymnasium_source.has_vector_form(wanted.name) else "gymnasium-sync"
    if engine in ("gymnasium-sync", "gymnasium-async", "gymnasium-split"):
        return engine
    if engine == "jax" and wanted.name in OWN_TASKS:
        return engine  # known without asking EnvPool, whose import takes seconds
    possible = available_engines(wanted.name)
    if engine == "auto":
        # Our own JAX tasks take no options; with any, the environment that does is meant.
        skips_jax = bool(wanted.env_kwargs or wanted.info_keys) and len(possible) > 1
        return next(choice for choice in possible if not (choice == "jax" and skips_jax))
    if engine.removesuffix("-host") not in possible:
        missing = engine == "envpool" and not envpool_source.is_installed()
        fixes = ['pip install "batchwright[envpool]"'] if missing else []
        fixes += [f"--engine {choice}" for choice in possible]
        raise UserError(f"{wanted.name} cannot be run by the engine {engine!r}.", fixes)
    return engine


def _jax(wanted: Wanted) -> Engine:
    from batchwright.envs.engines.jax_engine import JaxEngine

    if wanted.info_keys:
        raise UserError(f"the jax engine gives no info ({', '.join(wanted.info_keys)}).", ("--engine gymnasium",))
    card = OWN_TASKS.get(wanted.name)
    if card is not None and wanted.env_kwargs:
        raise UserError(f"{wanted.name} in JAX takes no options.", ("--engine gymnasium",))
    task = card.load() if card is not None else adapt(wanted.source().make()[0], wanted.name)
    assert task is not None  # `describe` listed the engine, so the factory gives a JAX environment
    return JaxEngine(task, wanted.num_envs, wanted.max_episode_steps, wanted.components)


def _envpool(wanted: Wanted) -> Engine:
    from batchwright.envs.engines.envpool_engine import EnvPoolEngine

    return EnvPoolEngine(
        wanted.name,
        wanted.num_envs,
        wanted.num_threads,
        wanted.max_episode_steps,
        wanted.env_kwargs,
        wanted.info_keys,
        wanted.components,
    )


def _envpool_host(wanted: Wanted) -> Engine:
    from batchwright.envs.engines.envpool_engine import EnvPoolEngine
    from batchwright.envs.engines.envpool_host import EnvPoolHost

    engine = _envpool(wanted)
    assert isinstance(engine, EnvPoolEngine)
    return EnvPoolHost(engine, wanted.name, wanted.on_event)


def _vector(wanted: Wanted) -> Engine:
    from batchwright.envs.engines.gymnasium_vector import GymnasiumVector

    return GymnasiumVector(wanted.source(), wanted.num_envs, wanted.on_event, wanted.info_keys, wanted.components)


def _sync(wanted: Wanted) -> Engine:
    from batchwright.envs.engines.gymnasium_sync import GymnasiumSync

    return GymnasiumSync(wanted.source(), wanted.num_envs, wanted.on_event, wanted.info_keys, wanted.components)


def _async(wanted: Wanted) -> Engine:
    from batchwright.envs.engines.gymnasium_async import GymnasiumAsync

    return GymnasiumAsync(
        wanted.source(),
        wanted.num_envs,
        wanted.on_event,
        wanted.info_keys,
        wanted.num_threads,
        wanted.components,
        wanted.step_timeout,
    )


def _split(wanted: Wanted) -> Engine:
    from batchwright.envs.engines.gymnasium_split import GymnasiumSplit

    return GymnasiumSplit(
        wanted.source(),
        wanted.num_envs,
        wanted.on_event,
        wanted.info_keys,
        wanted.num_threads,
        wanted.components,
        wanted.step_timeout,
    )


_MAKERS: dict[str, Callable[[Wanted], Engine]] = {
    "jax": _jax,
    "envpool": _envpool,
    "envpool-host": _envpool_host,
    "gymnasium-vector": _vector,
    "gymnasium-sync": _sync,
    "gymnasium-async": _async,
    "gymnasium-split": _split,
}
