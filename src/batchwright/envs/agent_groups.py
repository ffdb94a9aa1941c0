"""Groups of agents with a policy each: one row form for all of them, whatever they observe and do.

A row of several groups holds which group its agent belongs to and the observation of that group; the parts of the
others are zero. Its action has a part for every group. Masks leave one value for all choices but those of its group,
so that the others add nothing to log-probs and entropies; boxes are used with their own group alone.
"""

# G groups, M booleans of one mask.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.masks import Activity, leaf_mask_size, mask_size
from batchwright.envs.spaces import (
    Box,
    DictSpace,
    Discrete,
    Leaf,
    MultiBinary,
    Spec,
    leaves,
    path_name,
)

GROUP = "agent_group"
"""The part of observation and action that says which group a row belongs to."""
MASK, OBSERVATION = "action_mask", "observation"
"""Keys of an observation that holds the mask of its actions, as in PettingZoo's board games."""


@dataclass(frozen=True)
class AgentGroup:
    """Agents with one policy, and what one of them observes and does."""

    name: str
    agents: tuple[str, ...]
    observation: Spec
    action: Spec
    masks_in_obs: bool = False
    """Whether observations are {"observation": ..., "action_mask": ...}: the mask is no part of what is observed."""

    def split_mask(self, obs: Any, mask: Any) -> tuple[Any, Any]:
        """(what an agent observes, what it may do) of an observation that may hold both."""
        return (obs[OBSERVATION], obs[MASK]) if self.masks_in_obs else (obs, mask)


@dataclass(frozen=True)
class AgentLayout:
    """The agents of an environment, in the order of their rows, and their groups."""

    names: tuple[str, ...]
    groups: tuple[AgentGroup, ...]

    @property
    def observation(self) -> Spec:
        """Of one row: that of an agent, or of several groups the form above."""
        if len(self.groups) == 1:
            return self.groups[0].observation
        parts = ((group.name, group.observation) for group in self.groups)
        return DictSpace(((GROUP, Discrete(len(self.groups))), *parts))

    @property
    def action(self) -> Spec:
        if len(self.groups) == 1:
            return self.groups[0].action
        parts = ((group.name, group.action) for group in self.groups)
        return DictSpace(((GROUP, Discrete(len(self.groups))), *parts))

    @property
    def activity(self) -> Mapping[str, Activity]:
        """Boxes of several groups are used with their own."""
        if len(self.groups) == 1:
            return {}
        of_group = {group.name: number for number, group in enumerate(self.groups)}
        boxes = [path for path, leaf in leaves(self.action) if isinstance(leaf, Box)]
        return {path_name(path): (GROUP, (of_group[str(path[0])],)) for path in boxes}

    def group_of(self, agent: str) -> int:
        """The number of an agent's group."""
        return next(number for number, group in enumerate(self.groups) if agent in group.agents)

    def mask_part(self, group: int) -> slice:
        """Where the booleans of a group's own action are in the mask of a row."""
        if len(self.groups) == 1:
            return slice(0, mask_size(self.groups[0].action))
        first = len(self.groups) + sum(mask_size(other.action) for other in self.groups[:group])
        return slice(first, first + mask_size(self.groups[group].action))

    def base_mask(self, group: int) -> np.ndarray:
        """[M] what the rows of a group may do where its agents are not masked."""
        if len(self.groups) == 1:
            return np.ones(mask_size(self.action), bool)
        parts = [np.arange(len(self.groups)) == group]
        for number, other in enumerate(self.groups):
            parts += [_free(leaf) if number == group else _forced(leaf) for _, leaf in leaves(other.action)]
        return np.concatenate(parts)


def _free(leaf: Leaf) -> np.ndarray:
    return np.ones(leaf_mask_size(leaf), bool)


def _forced(leaf: Leaf) -> np.ndarray:
    """The mask that leaves the first value of every choice, and 0 of every bit."""
    if isinstance(leaf, Box):
        return np.zeros(0, bool)
    if isinstance(leaf, MultiBinary):
        return np.arange(2 * leaf.n) < leaf.n
    counts = (leaf.n,) if isinstance(leaf, Discrete) else leaf.nvec
    return np.concatenate([np.arange(n) == 0 for n in counts])


def make_groups(
    spaces: Mapping[str, tuple[Spec, Spec, bool]], stated: Sequence[tuple[str, tuple[str, ...]]], name: str
) -> tuple[AgentGroup, ...]:
    """Groups as `stated` by name and agents, else those of equal spaces; `spaces` by agent."""
    for group, agents in stated:
        odd = [agent for agent in agents if spaces[agent] != spaces[agents[0]]]
        if odd:
            raise UserError(
                f"{name}: the group {group!r} has agents with different spaces: {agents[0]} and {odd[0]}.",
                ["leave out --agent-groups: agents with equal spaces are a group"],
            )
    found = list(stated) or _by_spaces(spaces)
    return tuple(AgentGroup(group, agents, *spaces[agents[0]]) for group, agents in found)


def _by_spaces(spaces: Mapping[str, tuple[Spec, Spec, bool]]) -> list[tuple[str, tuple[str, ...]]]:
    found: list[list[str]] = []
    for agent in spaces:
        same = next((agents for agents in found if spaces[agents[0]] == spaces[agent]), None)
        found.append([agent]) if same is None else same.append(agent)
    names = [_common_name(agents) for agents in found]
    unique = [name if names.count(name) == 1 else agents[0] for name, agents in zip(names, found, strict=True)]
    return [(name, tuple(agents)) for name, agents in zip(unique, found, strict=True)]


def _common_name(agents: Sequence[str]) -> str:
    """`adversary` of adversary_0 and adversary_1; the first agent where they have no such name in common."""
    stems = {agent.rpartition("_")[0] for agent in agents}
    return stems.pop() if len(stems) == 1 and "" not in stems else agents[0]
