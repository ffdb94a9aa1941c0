"""EnvPool stepped inside the compiled program through its XLA interface."""

# N envs

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import envpool_source
from batchwright.envs.engines.engine import CompiledEngine, Step, env_seeds
from batchwright.envs.reward_components import REST, reward_parts
from batchwright.envs.spaces import (
    Box,
    DictSpace,
    Discrete,
    Leaf,
    MultiDiscrete,
    Spec,
    TupleSpace,
    leaf_shape,
    leaves,
    path_name,
    reader,
    stored_dtype,
    unflatten,
)


@partial(jax.tree_util.register_dataclass, data_fields=["handle", "ended"], meta_fields=["pool_number"])
@dataclass(frozen=True)
class PoolState:
    """What orders the calls into the pool; the environments themselves live outside of JAX."""

    handle: jax.Array
    ended: jax.Array
    """[N] bool, episodes that ended at the last step."""
    pool_number: int
    """Part of the structure: a program compiled for one pool is not taken for the next."""


_POOL_NUMBERS = itertools.count()


@dataclass(frozen=True)
class _ObsLeaf:
    """One leaf of the observation: how EnvPool's observation is read, and the form in which it is stored."""

    read: Callable[[Any], Any]
    shape: tuple[int, ...]
    """With the axis of environments."""
    dtype: np.dtype[Any]


class EnvPoolEngine(CompiledEngine):
    """A pool of C++ environments.

    `start` makes a new pool, because EnvPool takes seeds only then, and the address of a pool is part of the
    compiled program. The state's structure names its pool, so a jitted function that takes the state as an
    argument compiles again by itself after a `start`; its `clear_cache` frees the programs of old pools.
    An episode that terminates on the very step of its time limit comes back as truncated: EnvPool does not
    tell the two apart there.
    """

    name = "envpool"
    starts_at_once = False

    def __init__(
        self,
        name: str,
        num_envs: int,
        num_threads: int | None = None,
        max_episode_steps: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        info_keys: Sequence[str] = (),
        components: Sequence[str] | None = None,
    ) -> None:
        self.num_envs = num_envs
        self._name = name
        self._kwargs = dict(env_kwargs or {})
        if max_episode_steps is not None:
            self._kwargs["max_episode_steps"] = max_episode_steps
        spec = envpool_source.pool_spec(name, self._kwargs)
        self.observation, self.action = envpool_source.spaces_of(spec, name)
        self._obs_leaves, self._obs_structure = jax.tree.flatten(_obs_leaves(self.observation, num_envs))
        self._action_leaves = _action_leaves(self.action)
        self.max_episode_steps = envpool_source.time_limit_steps(spec)
        self.num_threads = num_threads or envpool_source.default_threads(name, num_envs)
        self.reward_names = reward_parts((), components, name).names
        # Components are entries of info like others; `read` puts them where they belong.
        named = [name for name in self.reward_names if name != REST]
        self.info_keys = tuple(dict.fromkeys((*info_keys, *named)))
        self._extra_keys = tuple(info_keys)
        self._success_key: str | None = None
        self.pool: Any = None
        self._xla_step: Any = None
        self.pool_number = -1

    def start(self, seed: int) -> tuple[PoolState, Any]:
        self.close()
        seeds = env_seeds(seed, self.num_envs)
        self.pool = envpool_source.make_pool(self._name, seeds, self.num_threads, self._kwargs)
        # MuJoCo tasks speak float64. Only the call into the pool sees 64 bits, the program stays at 32.
        with jax.enable_x64(True):
            handle, _, _, self._xla_step = self.pool.xla()
        with envpool_source.without_precision_warnings():  # the first answer makes the spaces
            observation, info = self.pool.reset()
        missing = [key for key in self.info_keys if key not in info]
        if missing:
            numbers = sorted(key for key, value in info.items() if np.shape(value) == (self.num_envs,))
            raise UserError(
                f"{self._name} in EnvPool gives no info {missing[0]!r}; it gives {', '.join(numbers)}.",
                ["--engine gymnasium"],
            )
        given = (key for key in ("success", "is_success") if np.shape(info.get(key)) == (self.num_envs,))
        self._success_key = next(given, None)
        self.pool_number = next(_POOL_NUMBERS)
        state = PoolState(jnp.asarray(handle), jnp.zeros(self.num_envs, jnp.bool_), self.pool_number)
        return state, jax.tree.map(jnp.asarray, self.canonical(observation, np))

    def step(self, state: PoolState, action: Any) -> tuple[PoolState, Step]:
        if state.pool_number != self.pool_number:
            raise RuntimeError("this state belongs to a pool that was closed by a later start() or close()")
        with jax.enable_x64(True):
            native = self.native(action, _native_leaf)
            handle, (observation, reward_N, terminated_N, truncated_N, info) = self._xla_step(state.handle, native)
            obs = self.canonical(observation, jnp)
            reward_N = reward_N.astype(jnp.float32)
            extras, components, success_N = self.read(info, reward_N, state.ended, terminated_N | truncated_N, jnp)
        truncated_N = truncated_N & ~terminated_N
        reward_N = jnp.where(state.ended, jnp.float32(0.0), reward_N)
        after = PoolState(handle, terminated_N | truncated_N, state.pool_number)
        return after, Step(obs, reward_N, terminated_N, truncated_N, None, extras, components, None, success_N)

    def read(
        self, info: Any, reward_N: Any, resets_N: Any, ended_N: Any, numpy: Any
    ) -> tuple[dict[str, Any], Any, Any]:
        """(extras, components [N, K], success [N]) of one step's info; components are 0 in rows that are resets."""
        extras = {key: info[key].astype(numpy.float32) for key in self._extra_keys}
        components = success = None
        if self.reward_names:
            named = {name: info[name].astype(numpy.float32) for name in self.reward_names if name != REST}
            rest = reward_N.astype(numpy.float32) - sum(named.values())
            columns = [named.get(name, rest) for name in self.reward_names]
            components = numpy.where(resets_N[:, None], numpy.float32(0.0), numpy.stack(columns, -1))
        if self._success_key is not None:
            succeeded = info[self._success_key] > 0
            success = numpy.where(ended_N, succeeded.astype(numpy.float32), numpy.float32(numpy.nan))
        return extras, components, success

    def reset_all(self, state: PoolState) -> tuple[PoolState, Any]:
        """The same pool with all its episodes begun anew: no new program."""
        observation, _ = self.pool.reset()
        fresh = PoolState(state.handle, jnp.zeros(self.num_envs, jnp.bool_), state.pool_number)
        return fresh, jax.tree.map(jnp.asarray, self.canonical(observation, np))

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
        self.pool, self._xla_step, self.pool_number = None, None, -1

    def canonical(self, observation: Any, numpy: Any) -> Any:
        """EnvPool's observations as the tree of the spec, in the dtypes we store."""
        values = [numpy.reshape(leaf.read(observation), leaf.shape).astype(leaf.dtype) for leaf in self._obs_leaves]
        return jax.tree.unflatten(self._obs_structure, values)

    def native(self, action: Any, convert: Callable[[Leaf, Any], Any]) -> Any:
        """Canonical actions as EnvPool takes them: one array, or a dict of arrays by dotted name."""
        if not isinstance(self.action, DictSpace | TupleSpace):
            return convert(self.action, action)
        return {name: convert(leaf, read(action)) for name, (read, leaf) in self._action_leaves.items()}


def _obs_leaves(spec: Spec, num_envs: int) -> Any:
    """A tree like the observation with a `_ObsLeaf` in the place of each array."""
    found = [_ObsLeaf(reader(path), (num_envs, *leaf_shape(leaf)), stored_dtype(leaf)) for path, leaf in leaves(spec)]
    return unflatten(spec, found)


def _action_leaves(spec: Spec) -> dict[str, tuple[Callable[[Any], Any], Leaf]]:
    """The leaves of an action by the names that EnvPool gives them, each with how it is read."""
    return {path_name(path).replace("/", "."): (reader(path), leaf) for path, leaf in leaves(spec)}


def _native_leaf(leaf: Leaf, action: Any) -> Any:
    if isinstance(leaf, Discrete | MultiDiscrete):
        start = jnp.asarray(leaf.start or 0, jnp.int32)
        return action.astype(jnp.int32) + start
    if isinstance(leaf, Box):
        rounded = action if leaf.dtype.kind == "f" else jnp.rint(action)
        return rounded.astype(leaf.dtype)
    return action.astype(jnp.int8)
