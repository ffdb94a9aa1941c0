"""JAX-native environments: N copies by vmap, with time limit and autoreset inside the compiled program."""

# N envs

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.engines.engine import CompiledEngine, Step, env_seeds
from batchwright.envs.masks import flat_mask
from batchwright.envs.reward_components import chosen_components
from batchwright.envs.tasks.jax_task import JaxTask

NO_LIMIT_STEPS = np.iinfo(np.int32).max


class JaxState(NamedTuple):
    """All there is to N environments; plain arrays, so that a checkpoint can hold it."""

    task: Any
    """Tree of arrays [N, ...]."""
    key: jax.Array
    """[N, 2] uint32, fixed from the start on: one random stream per environment."""
    tick: jax.Array
    """[] uint32, steps since the start: numbers the draws of a stream."""
    elapsed_steps: jax.Array
    """[N] int32, steps of the running episode."""
    ended: jax.Array
    """[N] bool, episodes that ended at the last step."""


class JaxEngine(CompiledEngine):
    """Steps a task of pure functions; the whole state is in what `step` takes and gives."""

    name = "jax"
    saves_state = True

    def __init__(
        self,
        task: JaxTask,
        num_envs: int,
        max_episode_steps: int | None = None,
        components: Sequence[str] | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.observation = task.observation
        self.action = task.action
        self.max_episode_steps = max_episode_steps or task.max_episode_steps
        self.action_activity = task.action_activity
        self.reward_names = chosen_components(task.reward_names, components, "the task")
        self._task = task
        self._places = [task.reward_names.index(name) for name in self.reward_names]
        # It runs once: most of its time is its compilation, which takes about half as long this way (docs/log.md).
        self._start = jax.jit(self._first, compiler_options={"xla_backend_optimization_level": 0})

    def start(self, seed: int) -> tuple[JaxState, Any]:
        first: tuple[JaxState, Any] = self._start(jnp.asarray(env_seeds(seed, self.num_envs), jnp.uint32))
        return first

    def step(self, state: JaxState, action: Any) -> tuple[JaxState, Step]:
        keys_N = _keys(state.key)
        began_N = state.ended
        step_keys_N = _draw(keys_N, 2 * state.tick)
        stepped, paid_N, terminated_N = jax.vmap(self._task.step)(state.task, action, step_keys_N)

        def with_resets() -> Any:
            fresh = jax.vmap(self._task.init)(_draw(keys_N, 2 * state.tick + 1))
            return jax.tree.map(lambda new, old: _where_rows(began_N, new, old), fresh, stepped)

        # Drawing new episodes is most of a step, and in most steps none begins: 0.9M -> 4.8M steps/s
        # for 8 CartPoles, 6.7M -> 8.9M for 1024.
        task = jax.lax.cond(jnp.any(began_N), with_resets, lambda: stepped)

        elapsed_N = jnp.where(began_N, 0, state.elapsed_steps + 1)
        limit_steps = self.max_episode_steps or NO_LIMIT_STEPS
        terminated_N = terminated_N.astype(bool) & ~began_N
        truncated_N = (elapsed_N >= limit_steps) & ~terminated_N
        reward_N, components_NK = self._rewards(paid_N, began_N)
        ended_N = terminated_N | truncated_N
        after = JaxState(task, state.key, state.tick + 1, elapsed_N, ended_N)
        succeeded_N = jax.vmap(self._task.succeeded)(task)
        success_N = None if succeeded_N is None else jnp.where(ended_N, succeeded_N.astype(jnp.float32), jnp.nan)
        obs = jax.vmap(self._task.observe)(task)
        mask = self.mask_of(after)
        return after, Step(obs, reward_N, terminated_N, truncated_N, None, {}, components_NK, mask, success_N)

    def mask_of(self, state: JaxState) -> Any:
        def one(task: Any) -> Any:
            mask = self._task.mask(task)
            return None if mask is None else flat_mask(self.action, mask, type(self._task).__name__, jnp)

        return jax.vmap(one)(state.task)

    def _rewards(self, paid: jax.Array, began_N: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """The reward [N] and its chosen components [N, K], both 0 in rows that began an episode."""
        if not self._task.reward_names:
            return jnp.where(began_N, 0.0, paid).astype(jnp.float32), None
        paid = jnp.where(began_N[:, None], 0.0, paid).astype(jnp.float32)
        return paid.sum(-1), paid[:, jnp.asarray(self._places)] if self._places else None

    def close(self) -> None:
        """Nothing to release."""

    def _first(self, seeds_N: jax.Array) -> tuple[JaxState, Any]:
        keys_N = jax.vmap(lambda seed: jax.random.key(seed, impl="threefry2x32"))(seeds_N)
        # The last number of a stream, which no step reaches within 2**31 steps.
        task = jax.vmap(self._task.init)(_draw(keys_N, jnp.uint32(2**32 - 1)))
        state = JaxState(
            task,
            jax.random.key_data(keys_N),
            jnp.uint32(0),
            jnp.zeros(self.num_envs, jnp.int32),
            jnp.zeros(self.num_envs, jnp.bool_),
        )
        return state, jax.vmap(self._task.observe)(task)


def _keys(data_N: jax.Array) -> Any:
    return jax.random.wrap_key_data(data_N, impl="threefry2x32")


def _draw(keys_N: jax.Array, number: jax.Array) -> Any:
    """Draw `number` of every stream. Two fold-ins of one key, not a split: what is unused is not computed."""
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys_N, number)


def _where_rows(mask_N: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(mask_N.reshape(-1, *[1] * (new.ndim - 1)), new, old)
