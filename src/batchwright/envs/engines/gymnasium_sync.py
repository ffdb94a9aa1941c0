"""Gymnasium environments stepped one after another in this process."""

# N envs

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from batchwright.envs.agent_groups import AgentLayout
from batchwright.envs.engines.agent_loop import make_loop
from batchwright.envs.engines.engine import HostEngine, OnEvent, Step
from batchwright.envs.engines.host_arrays import action_rows
from batchwright.envs.engines.loop_arrays import LoopArrays
from batchwright.envs.failures import close_env
from batchwright.envs.gymnasium_source import EnvSource, layout_of, spaces_of
from batchwright.envs.masks import Activity
from batchwright.envs.parallel_agents import time_limit_steps
from batchwright.envs.reward_components import reward_parts, vector_names
from batchwright.envs.spaces import Spec, unflatten
from batchwright.envs.watchdog import Watch


class GymnasiumSync(HostEngine):
    """One process, one loop: the least work per step for environments that are cheap."""

    name = "gymnasium-sync"

    def __init__(
        self,
        source: EnvSource,
        num_envs: int,
        on_event: OnEvent,
        info_keys: Sequence[str] = (),
        components: Sequence[str] | None = None,
    ) -> None:
        self.num_envs = num_envs
        found = probe(source)
        self.observation, self.action, self.max_episode_steps, offered, self.action_activity, self.layout = found
        self.agents = () if self.layout is None else self.layout.names
        parts = reward_parts(offered, components, source.name)
        self.reward_names = parts.names
        spaces = (self.observation, self.action)
        self._arrays = LoopArrays.allocate(spaces, self.num_rows, len(info_keys), len(parts.names))
        at = [-1]
        self._watch = Watch(source.name, on_event, at)
        with self._watch:
            self._loop = make_loop(source, self.layout, spaces, self._arrays, 0, on_event, info_keys, parts, at)
        self._to_rows = action_rows(self.action)
        self._step = as_step(self.observation, self._arrays, info_keys, bool(self.agents))
        self.idle = self._step.idle

    def start(self, seed: int) -> Any:
        return self._start(seed, None)

    def start_share(self, seed: int, share_N: Sequence[int]) -> tuple[Any, bool]:
        return self._start(seed, share_N), True

    def _start(self, seed: int, share_N: Sequence[int] | None) -> Any:
        with self._watch:
            self._loop.start(seed, share_N)
        has_masks = self._arrays.masked.any() or (self.layout is not None and len(self.layout.groups) > 1)
        self.mask, self.masked = self._arrays.mask if has_masks else None, self._arrays.masked
        self._step = self._step._replace(mask=self.mask)
        return self._step.obs

    def step(self, action: Any) -> Step:
        with self._watch:
            self._loop.step(self._to_rows(action))
        return self._step

    def set_attribute(self, name: str, value: Any) -> None:
        self._loop.set_attribute(name, value)

    def close(self) -> None:
        self._loop.close()


Probed: TypeAlias = tuple[Spec, Spec, int | None, tuple[str, ...], Mapping[str, Activity], AgentLayout | None]


def probe(source: EnvSource) -> Probed:
    """Spaces, time limit, reward components, activity and agents of an environment, made and closed again."""
    env, limit_steps = source.make()
    try:
        layout = layout_of(env, source.name, source.agent_groups)
        if layout is not None:
            limit = limit_steps or time_limit_steps(env)
            return layout.observation, layout.action, limit, (), layout.activity, layout
        registration = getattr(env, "spec", None)
        known_limit = limit_steps or getattr(registration, "max_episode_steps", None)
        activity = getattr(getattr(env, "unwrapped", env), "action_activity", None) or {}
        return (*spaces_of(env, source.name), known_limit, vector_names(env), activity, None)
    finally:
        close_env(env)


def as_step(observation: Spec, arrays: LoopArrays, info_keys: Sequence[str], has_agents: bool) -> Step:
    """The Step that shows `arrays`; it stays valid because the arrays are written in place."""
    extras = {key: arrays.extras[at] for at, key in enumerate(info_keys)}
    obs = unflatten(observation, list(arrays.observations))
    components = arrays.components if arrays.components.shape[1] else None
    flags = arrays.terminated, arrays.truncated
    idle = arrays.idle if has_agents else None
    return Step(obs, arrays.reward, *flags, None, extras, components, None, arrays.success, idle)
