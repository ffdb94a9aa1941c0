"""Environments of several agents, as PettingZoo's parallel interface describes them; the one file that knows it.

PettingZoo itself is not imported: an environment is recognised by its methods.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

from batchwright.core.errors import UserError, unknown
from batchwright.envs.agent_groups import MASK, OBSERVATION, AgentLayout, make_groups
from batchwright.envs.failures import RAISED, failure
from batchwright.envs.spaces import DictSpace, Spec, from_gymnasium
from batchwright.planning.agent_plan import match_groups

EXTRA = 'pip install "batchwright[agents]"'
PACKAGES = ("mpe2", "pettingzoo")
"""Packages of the extra."""


def is_parallel(env: Any) -> bool:
    """Whether an environment steps all its agents at once: PettingZoo's ParallelEnv, or one with its methods."""
    return _has_agents(env) and not _takes_turns(env)


def refuse_turns(env: Any, name: str) -> None:
    """Refuses environments whose agents take turns (PettingZoo's AECEnv)."""
    if _has_agents(env) and _takes_turns(env):
        raise UserError(
            f"{name} gave a {type(env).__name__}, whose agents take turns; agents that act at once can be trained.",
            ["return module.parallel_env()", "return pettingzoo.utils.conversions.aec_to_parallel(env)"],
        )


def _has_agents(env: Any) -> bool:
    spaces = (getattr(env, "observation_space", None), getattr(env, "action_space", None))
    return not isinstance(env, type) and (hasattr(env, "possible_agents") or all(callable(space) for space in spaces))


def _takes_turns(env: Any) -> bool:
    return hasattr(env, "agent_iter") or hasattr(env, "agent_selection")


def parallel_factory(package: str, name: str) -> Callable[..., Any] | None:
    """`parallel_env` of the module `package.name`, as PettingZoo's modules have it; None where there is no such module.

    A name that a package of the extra does not have, and a module whose agents take turns, are refused.
    """
    full = f"{package}.{name}"
    try:
        is_there = importlib.util.find_spec(full) is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        if package.split(".", maxsplit=1)[0] in PACKAGES:
            raise unknown("environment", f"{package}:{name}", _environments(package))
        return None
    try:
        module = importlib.import_module(full)
    except RAISED as error:
        raise UserError(f"could not import {full!r}: {failure(error)}") from error
    found = getattr(module, "parallel_env", None)
    if found is None and hasattr(module, "env"):
        raise UserError(f"{full} has no parallel_env: its agents take turns; agents that act at once can be trained.")
    return found if callable(found) else None


def _environments(package: str) -> list[str]:
    """`package:name` of all modules of a package whose names end in a version."""
    path = getattr(importlib.import_module(package), "__path__", [])
    names = [module.name for module in pkgutil.iter_modules(path)]
    return [f"{package}:{name}" for name in names if name.rpartition("_v")[2].isdigit()]


def agent_layout(env: Any, name: str, patterns: Sequence[str] = ()) -> AgentLayout:
    """The agents of a made environment and their groups: as the patterns say, else those of equal spaces."""
    names = _names(env, name)
    spaces = {agent: _spaces(env, agent, name) for agent in names}
    return AgentLayout(names, make_groups(spaces, match_groups(names, patterns, name), name))


def time_limit_steps(env: Any) -> int | None:
    """The time limit that an environment applies itself, where it says so by `max_cycles` as PettingZoo's do."""
    limit = getattr(getattr(env, "unwrapped", env), "max_cycles", None)
    return limit if type(limit) is int and limit > 0 else None


def _names(env: Any, name: str) -> tuple[str, ...]:
    listed = getattr(env, "possible_agents", None)
    if not listed:
        raise UserError(
            f"{name} gave a {type(env).__name__} without possible_agents: the rows of a rollout are those agents.",
            ["self.possible_agents = [...] in the environment's __init__, every agent that can ever be there"],
        )
    names = tuple(str(agent) for agent in listed)
    if len(set(names)) < len(names):
        raise UserError(f"{name}: possible_agents names an agent twice: {', '.join(names)}.")
    return names


def _spaces(env: Any, agent: str, name: str) -> tuple[Spec, Spec, bool]:
    """(what an agent observes, what it does, whether its mask is in the observation)."""
    key = next(listed for listed in env.possible_agents if str(listed) == agent)
    observation = from_gymnasium(env.observation_space(key), f"{name}'s observation of {agent}")
    action = from_gymnasium(env.action_space(key), f"{name}'s action of {agent}")
    if isinstance(observation, DictSpace) and {part for part, _ in observation.items} == {MASK, OBSERVATION}:
        return dict(observation.items)[OBSERVATION], action, True
    return observation, action, False
