"""Environments in the style of gymnax and brax as tasks of ours, distinguished by their methods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.spaces import Discrete, Spec, box, from_gymnasium, without_huge_bounds
from batchwright.envs.tasks.jax_task import JaxTask

# Beyond any episode, small enough that one more step does not overflow int32.
FAR_AWAY_STEPS = 2**30


class Seen(NamedTuple):
    """A foreign state with what it showed: these interfaces give observations only when they step."""

    state: Any
    obs: Any


def adapt(made: Any, name: str) -> JaxTask | None:
    """A task from what a factory gave: one of ours, gymnax's env or (env, params), brax's env; or None."""
    if isinstance(made, JaxTask):
        return made
    env, params = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if hasattr(env, "step_env") and hasattr(env, "reset_env"):
        return GymnaxTask(env, env.default_params if params is None else params, name)
    if hasattr(env, "observation_size") and hasattr(env, "action_size") and hasattr(env, "reset"):
        return BraxTask(env, name)
    if hasattr(env, "default_params") or params is not None:
        raise UserError(
            f"{name}: a {type(env).__name__} that resets itself inside step() hides its last observations.",
            ("give it step_env and reset_env as gymnax environments have",),
        )
    return None


class GymnaxTask(JaxTask):
    """A gymnax-style environment through step_env, which unlike step does not reset."""

    def __init__(self, env: Any, params: Any, name: str) -> None:
        self._env = env
        self.max_episode_steps = None
        # gymnax counts a time limit as an end like any other. Ours keeps them apart, so theirs is moved away.
        if hasattr(params, "max_steps_in_episode"):
            self.max_episode_steps = int(params.max_steps_in_episode)
            params = params.replace(max_steps_in_episode=FAR_AWAY_STEPS)
        self._params = params
        self.observation = _gymnax_space(env.observation_space(params), f"{name}'s observation")
        self.action = _gymnax_space(env.action_space(params), f"{name}'s action")

    def init(self, key: Any) -> Seen:
        obs, state = self._env.reset_env(key, self._params)
        return Seen(state, _canonical(obs))

    def step(self, state: Seen, action: Any, key: Any) -> tuple[Seen, Any, Any]:
        obs, after, reward, done, _ = self._env.step_env(key, state.state, action, self._params)[:5]
        return Seen(after, _canonical(obs)), reward, done.astype(bool)

    def observe(self, state: Seen) -> Any:
        return state.obs


class BraxTask(JaxTask):
    """A bare brax-style environment; the wrappers that count and reset are ours, so theirs are refused."""

    def __init__(self, env: Any, name: str, max_episode_steps: int | None = 1000) -> None:
        wrappers = _wrapper_names(env) & {"AutoResetWrapper", "EpisodeWrapper", "VmapWrapper"}
        if wrappers:
            raise UserError(
                f"{name} is wrapped in {', '.join(sorted(wrappers))}; "
                "Batchwright counts, resets and vectorises itself.",
                ("give the bare environment, for instance brax.envs.get_environment(...)",),
            )
        self._env = env
        self.max_episode_steps = max_episode_steps
        self.observation = _brax_observation(env.observation_size)
        self.action = box(-1.0, 1.0, (int(env.action_size),))

    def init(self, key: Any) -> Any:
        return self._env.reset(key)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Any, Any]:
        after = self._env.step(state, action)
        return after, after.reward, after.done.astype(bool)

    def observe(self, state: Any) -> Any:
        return _canonical(state.obs)


def _canonical(obs: Any) -> Any:
    """Observations in the dtypes we store: float32, uint8, int32."""
    import jax
    import jax.numpy as jnp

    def cast(value: Any) -> Any:
        value = jnp.asarray(value)
        if jnp.issubdtype(value.dtype, jnp.floating):
            return value.astype(jnp.float32)
        return value if value.dtype == jnp.uint8 else value.astype(jnp.int32)

    return jax.tree.map(cast, obs)


def _gymnax_space(space: Any, where: str) -> Spec:
    kind = type(space).__name__
    if kind == "Discrete":
        return Discrete(int(space.n))
    if kind == "Box":
        return without_huge_bounds(tuple(space.shape), np.dtype(space.dtype), space.low, space.high)
    return from_gymnasium(space, where)


def _brax_observation(size: Any) -> Spec:
    if isinstance(size, int | np.integer):
        return box(-np.inf, np.inf, (int(size),))
    raise UserError(f"brax observations in several parts ({size}) are not supported; one vector is.")


def _wrapper_names(env: Any) -> set[str]:
    names: set[str] = set()
    while env is not None:
        names.add(type(env).__name__)
        env = vars(env).get("env")
    return names
