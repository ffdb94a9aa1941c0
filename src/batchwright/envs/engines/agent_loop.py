"""The loop over environments of several agents (PettingZoo's parallel interface): every agent is a row."""

# n environments of this loop, A agents of each, R = n x A rows

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from batchwright.core.errors import UserError
from batchwright.envs.agent_groups import MASK, AgentGroup, AgentLayout
from batchwright.envs.engines.engine import OnEvent
from batchwright.envs.engines.env_loop import EnvLoop, set_env_attribute
from batchwright.envs.engines.host_arrays import ObservationRows
from batchwright.envs.engines.loop_arrays import LoopArrays
from batchwright.envs.engines.step_results import PLAIN_NUMBERS, info_of, one_number, refuse_step, reset_parts
from batchwright.envs.failures import RAISED
from batchwright.envs.gymnasium_source import EnvSource, layout_of
from batchwright.envs.masks import flat_mask, refuse_empty
from batchwright.envs.reward_components import NO_PARTS, RewardParts, success_of
from batchwright.envs.spaces import leaves


class AgentLoop(EnvLoop):
    """Environments with the agents of `layout`, stepped one after another into `arrays`.

    A row is idle where its agent is not there: it left (terminated or truncated) while others go on, it has not come
    yet, or the environment is over. An environment is over when no agent is left; its next step is its reset.
    """

    def __init__(
        self,
        source: EnvSource,
        layout: AgentLayout,
        arrays: LoopArrays,
        first_index: int,
        on_event: OnEvent,
        info_keys: Sequence[str] = (),
        at: Any = None,
    ) -> None:
        self.rows_per_env = len(layout.names)
        self._layout = layout
        self._lingers = [False] * len(arrays.reward)
        super().__init__(source, (layout.observation, layout.action), arrays, first_index, on_event, info_keys, at=at)
        self._group_of = [layout.group_of(name) for name in layout.names] * self.num_envs
        self._group_rows = [self._rows]
        if len(layout.groups) > 1:
            self._prepare_groups()

    def _prepare_groups(self) -> None:
        """Rows of several groups: each has the number of its group, and the masks of the other groups' actions."""
        arrays, first, self._group_rows = self._arrays, 1, []
        for group in self._layout.groups:
            count = len(leaves(group.observation))
            parts = arrays.observations[first : first + count]
            self._group_rows.append(ObservationRows(group.observation, parts, self._who))
            first += count
        arrays.observations[0][:] = self._group_of
        arrays.mask[:] = [self._layout.base_mask(group) for group in self._group_of]

    def start(self, seed: int, share: Sequence[int] | None = None) -> None:
        super().start(seed, share)
        self._arrays.success[:] = math.nan

    def step(self, actions: Iterable[Any]) -> None:
        """One step of every environment; an environment that is over is reset instead."""
        arrays, count, at = self._arrays, self.rows_per_env, self._at
        arrays.terminated[:] = False
        arrays.truncated[:] = False
        rows = list(actions)
        for place, env in enumerate(self._envs):
            first = place * count
            if self._ended[place]:
                if self._stands_still(place):
                    arrays.reward[first : first + count] = 0.0
                else:
                    self._reset_until_it_works(place)
                continue
            at[0] = self._first_index + place
            returned: Any = None
            try:
                listed = frozenset(env.agents)
                keys = enumerate(env.possible_agents, first)
                returned = env.step({key: self._own_action(row, rows[row]) for row, key in keys if key in listed})
                self._read(place, env, *returned)
            except UserError:
                raise
            except RAISED as error:
                if returned is not None:
                    raise refuse_step(returned, error, self._env_at(place)) from error
                self._replace(place, error)
                self._cut(first)

    def set_attribute(self, name: str, value: Any) -> None:
        self._attributes[name] = value
        for env in self._envs:
            self._set(env, name, value)

    def _read(
        self, place: int, env: Any, obs: Any, rewards: Any, terminations: Any, truncations: Any, info: Any
    ) -> None:
        """What one step of one environment gave, row by row."""
        arrays, first = self._arrays, place * self.rows_per_env
        self._elapsed_steps[place] += 1
        out_of_time = self._elapsed_steps[place] >= self._limit_steps
        listed, infos = self._listed(place, env), info_of(info, self._env_at(place))
        for row, key in enumerate(env.possible_agents, first):
            of_agent = infos.get(key) or {}
            if arrays.idle[row]:
                arrays.reward[row] = 0.0
                self._lingers[row] = self._lingers[row] and key in listed
                if key in listed and key in obs and not self._lingers[row] and not out_of_time:
                    self._join(row, obs[key], of_agent)
                continue
            reward = self._paid(row, key, obs, rewards)
            arrays.reward[row] = reward if type(reward) in PLAIN_NUMBERS else one_number(reward, self._who(row))
            self._write(row, obs[key])
            terminated = bool(terminations.get(key, False))
            if terminated or truncations.get(key, False) or out_of_time:
                # Where both hold, terminated wins.
                arrays.terminated[row], arrays.truncated[row] = terminated, not terminated
                arrays.idle[row], self._lingers[row] = True, key in listed
                arrays.success[row] = success_of(of_agent)
            elif key not in listed:
                raise self._left_unsaid(row)
            else:
                self._write_agent_mask(row, obs[key], of_agent)
            for number, name in self._info_keys:
                arrays.extras[number, row] = of_agent.get(name, math.nan)
        self._ended[place] = bool(arrays.idle[first : first + self.rows_per_env].all())

    def _join(self, row: int, obs: Any, info: Mapping[str, Any]) -> None:
        """An agent acts from the next step on."""
        self._write(row, obs)
        self._write_agent_mask(row, obs, info)
        self._arrays.idle[row] = False

    def _own_action(self, row: int, action: Any) -> Any:
        return action if len(self._layout.groups) == 1 else action[self._group(row).name]

    def _group(self, row: int) -> AgentGroup:
        return self._layout.groups[self._group_of[row]]

    def _write(self, row: int, obs: Any) -> None:
        self._group_rows[self._group_of[row]].write(row, self._group(row).split_mask(obs, None)[0])

    def _write_agent_mask(self, row: int, obs: Any, info: Mapping[str, Any]) -> None:
        """What the agent may do next, from its observation or its info; all where it was never masked."""
        group = self._group(row)
        mask = group.split_mask(obs, info.get(MASK))[1]
        if mask is None:
            if self._arrays.masked[row]:
                self._write_mask(row, info)  # refuses
            return
        row_M = flat_mask(group.action, mask, self._who(row))
        refuse_empty(group.action, row_M, self._who(row))
        self._arrays.mask[row, self._layout.mask_part(self._group_of[row])] = row_M
        self._arrays.masked[row] = True

    def _make(self, row: int) -> Any:
        env, limit_steps = self._source.make()
        self._limit_steps = limit_steps if limit_steps is not None else math.inf
        layout = layout_of(env, self._source.name, self._source.agent_groups)
        if layout != self._layout:
            raise UserError(
                f"{self._env_at(row)}: its agents differ from those of others: {layout} instead of {self._layout}."
            )
        for name, value in self._attributes.items():
            self._set(env, name, value)
        return env

    def _set(self, env: Any, name: str, value: Any) -> None:
        bare = getattr(env, "unwrapped", env)
        holder = bare if not hasattr(type(env), name) and hasattr(bare, name) else env
        set_env_attribute(holder, name, value, self._source.name)

    def _reset(self, row: int) -> None:
        place, env, arrays = row, self._envs[row], self._arrays
        first, seed = place * self.rows_per_env, self._seeds[place]
        self._at[0] = self._first_index + place
        obs, info = reset_parts(env.reset(seed=seed), self._env_at(place))
        part = slice(first, first + self.rows_per_env)
        arrays.reward[part], arrays.extras[:, part], arrays.success[part] = 0.0, math.nan, math.nan
        arrays.idle[part] = True
        self._lingers[part] = [False] * self.rows_per_env
        if len(env.possible_agents) != self.rows_per_env:
            raise UserError(
                f"{self._env_at(place)}: reset changed possible_agents from {self.rows_per_env} agents to "
                f"{len(env.possible_agents)}.",
                ["name every agent that can ever be there from the start; those not in agents have no rows"],
            )
        listed = self._listed(place, env)
        for at, key in enumerate(env.possible_agents, first):
            if key in listed:
                if key not in obs:
                    raise UserError(f"{self._who(at)}: reset returned no observation of it.", [_OBSERVE])
                self._join(at, obs[key], info.get(key) or {})
        if arrays.idle[part].all():
            raise UserError(
                f"{self._env_at(place)}: after reset no agent is there.",
                ["set self.agents in reset, from possible_agents"],
            )
        self._seeds[place], self._ended[place], self._elapsed_steps[place] = None, False, 0

    def _cut(self, first: int) -> None:
        """All agents that were there leave as truncated: their environment is replaced."""
        rows = self._arrays.rows(first, self.rows_per_env)
        rows.mark_cut()
        rows.idle[:] = True

    def _who(self, row: int) -> str:
        place, agent = divmod(row, self.rows_per_env)
        return f"{self._env_at(place)}, {self._layout.names[agent]}"

    def _paid(self, row: int, key: Any, obs: Any, rewards: Any) -> Any:
        """The reward of an agent that acted; refused where it was not observed or given none."""
        what = "observation"
        try:
            if key in obs:
                what = "reward"
                return rewards[key]  # PettingZoo's wrappers give a defaultdict
        except KeyError:
            pass
        raise UserError(f"{self._who(row)}: it acted, and step returned no {what} of it.", [_OBSERVE])

    def _listed(self, place: int, env: Any) -> frozenset[Any]:
        """The agents that are there, all of them among those that the layout was made for."""
        listed = frozenset(env.agents)
        if not listed <= frozenset(env.possible_agents):
            stranger = next(iter(listed - frozenset(env.possible_agents)))
            raise UserError(
                f"{self._env_at(place)}: agents has {stranger!r}, which is not in possible_agents.",
                ["name every agent that can ever be there in possible_agents"],
            )
        return listed

    def _left_unsaid(self, row: int) -> UserError:
        return UserError(
            f"{self._who(row)}: it left `agents`, and neither terminations nor truncations say so.",
            ["terminations[agent] = True in its last step", "truncations[agent] = True where a time limit ended it"],
        )


_OBSERVE = "return the observation and the reward of every agent that acted, in its last step too"


def make_loop(
    source: EnvSource,
    layout: AgentLayout | None,
    spaces: tuple[Any, Any],
    arrays: LoopArrays,
    first_index: int,
    on_event: OnEvent,
    info_keys: Sequence[str] = (),
    parts: RewardParts = NO_PARTS,
    at: Any = None,
) -> EnvLoop:
    """The loop for environments of one agent, or of several where there is a `layout`."""
    if layout is None:
        return EnvLoop(source, spaces, arrays, first_index, on_event, info_keys, parts, at)
    return AgentLoop(source, layout, arrays, first_index, on_event, info_keys, at)
