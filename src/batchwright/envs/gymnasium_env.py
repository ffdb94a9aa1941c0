"""Our own tasks as Gymnasium environments: the same dynamics, one environment at a time, with pictures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.spaces import Box, DictSpace, Discrete, MultiDiscrete, Spec
from batchwright.envs.tasks import OWN_TASKS
from batchwright.envs.tasks.jax_task import OwnTask


@dataclass(frozen=True)
class Programs:
    """A task and its compiled functions, made once per process."""

    task: OwnTask
    first: Callable[..., Any]
    next: Callable[..., Any]


@functools.cache
def _programs(name: str) -> Programs:
    task = OWN_TASKS[name].load()
    assert isinstance(task, OwnTask)

    def shown(state: Any) -> tuple[Any, Any]:
        return task.observe(state), task.mask(state)

    def first(seed: Any) -> tuple[Any, Any]:
        state = task.init(jax.random.key(seed))
        return state, shown(state)

    def following(state: Any, action: Any, seed: Any, tick: Any) -> tuple[Any, Any, Any, Any, Any]:
        key = jax.random.fold_in(jax.random.key(seed), tick)
        after, reward, terminated = task.step(state, action, key)
        return after, reward, terminated, task.succeeded(after), shown(after)

    return Programs(task, jax.jit(first), jax.jit(following))


class OwnEnv(gymnasium.Env[Any, Any]):
    """One of our tasks; `info` holds the mask of the next action, the components of the reward and success."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  (as Gymnasium declares it)

    def __init__(self, task: str, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise UserError(f"{task} cannot be rendered as {render_mode!r}.", ["render_mode='rgb_array'"])
        card = OWN_TASKS[task]
        self.render_mode = render_mode
        self.observation_space = _space(card.observation)
        self.action_space = _space(card.action)
        self.action_activity = card.action_activity
        self._names = card.reward_names
        self._programs = _programs(task)
        self.metadata = {**self.metadata, "render_fps": self._programs.task.frames_per_second}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._seed = np.uint32(self.np_random.integers(2**32))
        self._tick = np.uint32(0)
        self._state, shown = self._programs.first(self._seed)
        return self._shown(shown, False)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._tick += np.uint32(1)
        result = self._programs.next(self._state, action, self._seed, self._tick)
        self._state, reward, terminated, success, shown = result
        obs, info = self._shown(shown, bool(terminated) and bool(success))
        rewards = np.asarray(reward)
        if self._names:
            info |= dict(zip(self._names, rewards.tolist(), strict=True))
        return obs, float(rewards.sum()), bool(terminated), False, info

    def render(self) -> Any:
        return None if self.render_mode is None else self._programs.task.draw(self._state)

    def _shown(self, shown: tuple[Any, Any], success: bool) -> tuple[Any, dict[str, Any]]:
        obs, mask = shown
        info: dict[str, Any] = {"is_success": success}
        if mask is not None:
            # int8 is what Gymnasium's Space.sample(mask=) takes.
            info["action_mask"] = jax.tree.map(lambda part: np.array(part, np.int8), mask)
        return jax.tree.map(np.array, obs), info


def _space(spec: Spec) -> gymnasium.Space[Any]:
    """Gymnasium's space of a spec."""
    if isinstance(spec, DictSpace):
        return gymnasium.spaces.Dict({name: _space(part) for name, part in spec.items})
    if isinstance(spec, Discrete):
        return gymnasium.spaces.Discrete(spec.n, start=spec.start)
    if isinstance(spec, MultiDiscrete):
        return gymnasium.spaces.MultiDiscrete(list(spec.nvec))
    assert isinstance(spec, Box), spec  # our own tasks have no other parts
    return gymnasium.spaces.Box(spec.low, spec.high, spec.shape, spec.dtype.type)
