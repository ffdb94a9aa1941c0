"""What can be trained here, and what one environment looks like; imports no engine until it is asked."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError, unknown
from batchwright.core.machine import usable_cores
from batchwright.envs import envpool_source, gymnasium_source
from batchwright.envs.agent_groups import AgentGroup
from batchwright.envs.env_names import PASSED
from batchwright.envs.failures import close_env
from batchwright.envs.gymnasium_source import spaces_of
from batchwright.envs.jax_adapters import adapt
from batchwright.envs.parallel_agents import time_limit_steps
from batchwright.envs.reward_components import vector_names
from batchwright.envs.spaces import Spec
from batchwright.envs.tasks import OWN_TASKS


@dataclass(frozen=True)
class EnvEntry:
    """One line of the list of environments; a name appears once per engine that has it."""

    name: str
    engine: str
    """`own`, `gymnasium` or `envpool`."""
    note: str = ""


@dataclass(frozen=True)
class TaskSpec:
    """What a plan needs to know of an environment."""

    name: str
    observation: Spec
    action: Spec
    max_episode_steps: int | None
    engines: tuple[str, ...]
    """Engines that can run it, in the order `auto` prefers them (see `describe` about envpool)."""
    reward_threshold: float | None
    reward_names: tuple[str, ...] = ()
    """Components of the reward, where the environment gives it as a vector."""
    stacked_frames: int = 1
    """Frames that an observation stacks along its first axis, newest last."""
    agents: tuple[str, ...] = ()
    """Agents of each environment; empty where there is one, as in Gymnasium's. Spaces are those of one agent's row."""
    agent_groups: tuple[AgentGroup, ...] = ()
    """Agents with equal spaces."""
    simulator: str = ""
    """`mujoco` or `box2d` where one moves it: each environment holds a world of its own."""


def list_environments(word: str | None = None) -> list[EnvEntry]:
    """Our own tasks, Gymnasium's registry and EnvPool's, those whose name contains `word`."""
    entries = [EnvEntry(card.name, "own", card.note) for card in OWN_TASKS.values()]
    entries += [EnvEntry(name, "gymnasium", note) for name, note in gymnasium_source.gymnasium_names()]
    if envpool_source.is_installed():
        entries += [EnvEntry(name, "envpool") for name in envpool_source.envpool_names()]
    wanted = (word or "").lower()
    return [entry for entry in entries if wanted in entry.name.lower()]


def describe(name: str, *, ask_envpool: bool = False) -> TaskSpec:
    """The spaces, time limit and engines of an environment by any of its kinds of name.

    Importing EnvPool takes 2 s, so a name that is ours or Gymnasium's lists the engine `envpool` only
    with `ask_envpool`.
    """
    try:
        task = _describe_own(name) or _describe_gymnasium(name)
    except UserError:
        # Gymnasium's form may lack a package that EnvPool's does not need (mujoco, Box2D).
        if ":" in name or not envpool_source.knows(name):
            raise
        return _describe_envpool(name)
    if task is None:
        if not envpool_source.knows(name):
            raise _unknown_environment(name)
        return _describe_envpool(name)
    if ask_envpool and envpool_source.knows(name):
        at = 1 if task.engines[0] == "jax" else 0
        return replace(task, engines=(*task.engines[:at], "envpool", *task.engines[at:]))
    return task


def _unknown_environment(name: str) -> UserError:
    if name.endswith(".py") and not Path(name).expanduser().is_file():
        return UserError(f"there is no file {name}.", ["path/to/file.py:make_env"])
    if name.endswith(".py"):
        made = gymnasium_source.names_in_file(name)
        what = f"{name} is a file; name the function or class in it that makes an environment."
        return UserError(what, [f"{name}:{one}" for one in made[:3]] or [f"{name}:make_env"])
    package = gymnasium_source.package_of(name)
    if package is None:
        found = unknown("environment", name, {entry.name for entry in list_environments()})
        return found if found.fixes else UserError(found.message, ["batchwright envs", "path/to/file.py:make_env"])
    fixes = [f"{package}:{name}"]
    if importlib.util.find_spec(package) is None:
        fixes.insert(0, f"pip install {package.replace('_', '-')}")
    return UserError(f"unknown environment {name!r}. It is one of {package}: name the package too.", fixes)


def _describe_own(name: str) -> TaskSpec | None:
    card = OWN_TASKS.get(name)
    if card is None:
        return None
    registered = gymnasium_source.registered_spec(name) is not None
    engines = ("jax", *_gymnasium_engines(name)) if registered else ("jax",)
    return TaskSpec(
        name,
        card.observation,
        card.action,
        card.max_episode_steps,
        engines,
        card.reward_threshold,
        card.reward_names,
    )


def _describe_gymnasium(name: str) -> TaskSpec | None:
    is_factory = gymnasium_source.user_factory(name) is not None
    if not is_factory and gymnasium_source.registered_spec(name) is None:
        return None
    env, limit_steps = gymnasium_source.EnvSource(name).make()
    if is_factory and (task := _describe_jax(name, env)) is not None:
        return task
    try:
        layout = gymnasium_source.layout_of(env, name)
        if layout is not None:
            limit, engines = limit_steps or time_limit_steps(env), _gymnasium_engines(name)
            spaces = layout.observation, layout.action
            return TaskSpec(name, *spaces, limit, engines, None, agents=layout.names, agent_groups=layout.groups)
        registration = getattr(env, "spec", None)
        return TaskSpec(
            name,
            *spaces_of(env, name),
            limit_steps or getattr(registration, "max_episode_steps", None),
            _gymnasium_engines(name),
            getattr(registration, "reward_threshold", None),
            vector_names(env),
            gymnasium_source.stacked_frames(env),
            simulator=gymnasium_source.simulator(env),
        )
    finally:
        close_env(env)


def _describe_jax(name: str, made: Any) -> TaskSpec | None:
    """What a factory gave as a JAX environment (ours, gymnax's or brax's kind), or None."""
    task = adapt(made, name)
    if task is None:
        return None
    return TaskSpec(name, task.observation, task.action, task.max_episode_steps, ("jax",), None, task.reward_names)


def _gymnasium_engines(name: str) -> tuple[str, ...]:
    if name.startswith(PASSED):
        return ("gymnasium-sync",)  # worker processes do not have the object
    vector = ("gymnasium-vector",) if gymnasium_source.has_vector_form(name) else ()
    split = ("gymnasium-split",) if usable_cores() > 1 else ()
    return (*vector, "gymnasium-sync", *split, "gymnasium-async")


def _describe_envpool(name: str) -> TaskSpec:
    spec = envpool_source.pool_spec(name, {})
    observation, action = envpool_source.spaces_of(spec, name)
    return TaskSpec(
        name,
        observation,
        action,
        envpool_source.time_limit_steps(spec),
        ("envpool",),
        envpool_source.reward_threshold(spec),
        stacked_frames=envpool_source.stacked_frames(spec, observation),
        simulator=envpool_source.simulator(name),
    )
