"""An environment's own vectorised Gymnasium form, each autoreset mode brought to one of our two."""

# N envs

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.envs.engines.engine import HostEngine, OnEvent, Step, env_seed
from batchwright.envs.engines.host_arrays import MEND_OBSERVATIONS, allocate_observations, native_tree, out_of_range
from batchwright.envs.engines.step_results import one_number
from batchwright.envs.failures import RAISED, close_env, failure
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.envs.masks import flat_mask, mask_size, refuse_empty
from batchwright.envs.reward_components import REST, missing_key, reward_parts, vector_names
from batchwright.envs.spaces import (
    Box,
    Discrete,
    Leaf,
    MultiDiscrete,
    from_gymnasium,
    leaves,
    path_name,
    unflatten,
    value_at,
)
from batchwright.envs.watchdog import Watch

MODES = ("NextStep", "SameStep", "Disabled")


class GymnasiumVector(HostEngine):
    """A third-party vector environment.

    Its sub-environments may share one random generator, as Gymnasium's own CartPole does: then a
    trajectory depends on how many there are. The seed is one number for all.
    """

    name = "gymnasium-vector"

    def __init__(
        self,
        source: EnvSource,
        num_envs: int,
        on_event: OnEvent,
        info_keys: Sequence[str] = (),
        components: Sequence[str] | None = None,
    ) -> None:
        self.num_envs = num_envs
        self._name = source.name
        self._info_keys = tuple(info_keys)
        self._env = source.make_vector(num_envs)
        self._watch = Watch(source.name, on_event)
        self.observation = from_gymnasium(self._env.single_observation_space, f"{source.name}'s observation")
        self.action = from_gymnasium(self._env.single_action_space, f"{source.name}'s action")
        self.max_episode_steps = source.max_episode_steps or self._env.spec.max_episode_steps
        self._mode = _autoreset_mode(self._env, source.name)
        self.autoreset = "next" if self._mode == "NextStep" else "same"
        self._leaves = leaves(self.observation)
        self._arrays = allocate_observations(self.observation, num_envs)
        self._final_arrays = allocate_observations(self.observation, num_envs)
        self._ended = np.zeros(num_envs, np.bool_)
        single = getattr(self._env, "envs", [self._env])[0]
        self.action_activity = getattr(single.unwrapped, "action_activity", None) or {}
        self._parts = reward_parts(vector_names(single), components, source.name)
        self.reward_names = self._parts.names

    def start(self, seed: int) -> Any:
        number = env_seed(seed, 0)
        self._env.action_space.seed(number)
        try:
            with self._watch:
                observation, info = self._env.reset(seed=number)
        except RAISED as error:
            raise UserError(f"{self._name} raised in reset: {failure(error)}") from error
        self._ended[:] = False
        self.mask = self._masks(info, self._ended) if "action_mask" in info else None
        return self._store(self._arrays, observation)

    def step(self, action: Any) -> Step:
        try:
            with self._watch:
                observation, reward, terminated, truncated, info = self._env.step(native_tree(self.action, action))
        except RAISED as error:
            # One vector environment is one object: there is no single part of it to restart.
            raise UserError(f"{self._name} raised in step: {failure(error)}", ("--engine gymnasium-sync",)) from error
        terminated = np.array(terminated, np.bool_)
        truncated = np.asarray(truncated, np.bool_) & ~terminated
        reward, components = self._rewards(reward, info)
        extras = {key: self._extra(info, key) for key in self._info_keys}
        final_obs = None
        if self._mode == "NextStep":
            reward[self._ended] = 0.0
            if components is not None:
                components[self._ended] = 0.0
            self._ended = terminated | truncated
        else:
            observation, final_obs, info = self._with_finals(observation, terminated | truncated, info)
        obs = self._store(self._arrays, observation)
        if self.mask is not None:
            asked = ~self._ended if self._mode == "NextStep" else np.ones(self.num_envs, np.bool_)
            self.mask = self._masks(info, ~asked)
        success = self._success(info, terminated | truncated)
        return Step(obs, reward, terminated, truncated, final_obs, extras, components, self.mask, success)

    def close(self) -> None:
        close_env(self._env)

    def _with_finals(
        self, observation: Any, ended: NDArray[np.bool_], info: Mapping[str, Any]
    ) -> tuple[Any, Any, Mapping[str, Any]]:
        """Observations after the reset, our arrays of last observations (rows that ended), and info."""
        finals = unflatten(self.observation, list(self._final_arrays))
        if not ended.any():
            return observation, finals, info
        if self._mode == "Disabled":
            finals = self._store(self._final_arrays, observation)
            observation, after = self._env.reset(options={"reset_mask": ended})
            return observation, finals, _merged(info, after, ended)
        self._store_finals(info, np.flatnonzero(ended))
        return observation, finals, info

    def _store_finals(self, info: Mapping[str, Any], rows: NDArray[np.intp]) -> None:
        """Copies the last observations a SAME_STEP environment hands over in its info."""
        given = info.get("final_obs")
        if given is None:
            raise UserError(f"{self._name} resets in the same step but gives no info['final_obs'].")
        for (path, leaf), array in zip(self._leaves, self._final_arrays, strict=True):
            for row in rows:
                # One object per environment, or one array per leaf: Gymnasium allows both.
                per_env = isinstance(given, np.ndarray) and given.dtype == object
                value = value_at(given[row], path) if per_env else value_at(given, path)[row]
                array[row] = np.asarray(value) - _start(leaf)

    def _store(self, arrays: list[NDArray[Any]], observation: Any) -> Any:
        """Our arrays holding the given observations [N, ...], refused when a shape is not the space's."""
        for (path, leaf), array in zip(self._leaves, arrays, strict=True):
            value = np.asarray(value_at(observation, path))
            if value.shape != array.shape or not np.can_cast(value.dtype, _own_dtype(leaf), "same_kind"):
                part = f" at {path_name(path)!r}" if path else ""
                raise UserError(
                    f"{self._name}: observations{part} are {value.dtype.name} {value.shape}, "
                    f"the space says {_own_dtype(leaf).name} {array.shape}."
                )
            value = value - _start(leaf) if np.any(_start(leaf)) else value
            outside = out_of_range(leaf, value)
            if outside is not None:
                raise UserError(f"{self._name}: an observation is {outside}.", (MEND_OBSERVATIONS,))
            np.copyto(array, value, casting="unsafe")
        return unflatten(self.observation, list(arrays))

    def _rewards(self, reward: Any, info: Mapping[str, Any]) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Rewards [N] and their components [N, K]; a row that is a reset has none."""
        paid = np.array(reward, np.float32)
        parts = self._parts
        if parts.size:
            if paid.shape != (self.num_envs, parts.size):
                raise UserError(
                    f"{self._name}: rewards have shape {paid.shape}, its reward_space says ({parts.size},)."
                )
            return paid.sum(-1), paid[:, list(parts.places)] if parts.names else None
        if paid.shape != (self.num_envs,):
            if paid.size != self.num_envs:
                one_number(paid[0], self._name)  # raises what is wrong with it
            paid = paid.reshape(self.num_envs)
        if not parts.names:
            return paid, None
        columns = [np.zeros_like(paid) if name == REST else self._extra(info, name) for name in parts.names]
        components = np.stack(columns, -1)
        resets = self._ended if self._mode == "NextStep" else np.zeros(self.num_envs, np.bool_)
        for k, name in enumerate(parts.names):
            if name != REST and np.isnan(components[~resets, k]).any() and not _given(info, name)[~resets].all():
                row = {key: value[0] for key, value in info.items() if isinstance(value, np.ndarray) and key[0] != "_"}
                raise missing_key({key: value for key, value in row.items() if key != name}, name, self._name)
        if REST in parts.names:
            components[:, parts.names.index(REST)] = paid - components.sum(-1)
        return paid, components

    def _masks(self, info: Mapping[str, Any], free: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """[N, M]; rows of `free` need no mask: no action is asked of them."""
        masks = np.ones((self.num_envs, mask_size(self.action)), np.bool_)
        given = _given(info, "action_mask")
        for row in np.flatnonzero(~free):
            if not given[row]:
                raise UserError(f"{self._name}, environment {row}: info has no 'action_mask' in this step.")
            where = f"{self._name}, environment {row}"
            masks[row] = flat_mask(self.action, _row_of(info["action_mask"], int(row)), where)
        refuse_empty(self.action, masks, self._name)
        return masks

    def _success(self, info: Mapping[str, Any], ended: NDArray[np.bool_]) -> NDArray[np.float32]:
        """1, 0 or NaN (unknown) in the rows that ended."""
        success = np.full(self.num_envs, np.nan, np.float32)
        if ended.any():
            for key in ("success", "is_success"):
                value = self._extra(info, key)
                success = np.where(np.isnan(value), success, (value > 0).astype(np.float32))
        return np.where(ended, success, np.float32(np.nan))

    def _extra(self, info: Mapping[str, Any], key: str) -> NDArray[np.float32]:
        """One number per environment; SAME_STEP keeps that of an ended episode apart."""
        values = np.full(self.num_envs, np.nan, np.float32)
        for given in (info, info.get("final_info", {})):
            if key in given:
                mask = np.asarray(given.get(f"_{key}", np.ones(self.num_envs, np.bool_)))
                values[mask] = np.asarray(given[key], np.float32)[mask]
        return values


def _given(info: Mapping[str, Any], key: str) -> NDArray[np.bool_]:
    """[N], which environments gave an entry of info, in an ended episode's own included."""
    given = np.asarray(info[f"_{key}"], np.bool_) if f"_{key}" in info else np.asarray(key in info)
    finals = info.get("final_info", {})
    if key in finals:
        given = given | np.asarray(finals.get(f"_{key}", True), np.bool_)
    return given


def _row_of(tree: Any, row: int) -> Any:
    """One environment's part of a tree that Gymnasium's vector form gathered."""
    if isinstance(tree, Mapping):
        return {key: _row_of(value, row) for key, value in tree.items() if not key.startswith("_")}
    if isinstance(tree, tuple):
        return tuple(_row_of(value, row) for value in tree)
    return tree[row]


def _merged(info: Mapping[str, Any], after: Mapping[str, Any], ended: NDArray[np.bool_]) -> Mapping[str, Any]:
    """The info of the steps, with the masks of those that were reset since."""
    if "action_mask" not in after:
        return info
    new, old = after["action_mask"], info["action_mask"]
    if not isinstance(new, np.ndarray):
        raise UserError("masks of several parts need an environment that resets itself.", ("--engine gymnasium-sync",))
    rows = ended.reshape(-1, *[1] * (new.ndim - 1))
    return {**info, "action_mask": np.where(rows, new, old)}


def _autoreset_mode(env: Any, name: str) -> str:
    """The name of the mode the environment declares; a missing or unknown one is refused."""
    mode = (env.metadata or {}).get("autoreset_mode")
    word = str(getattr(mode, "value", mode))
    if word not in MODES:
        raise UserError(
            f"{name}: its vector form declares autoreset_mode {word!r}; known are {', '.join(MODES)}. "
            "Without it the true last observations cannot be told from first ones.",
            ("--engine gymnasium-sync",),
        )
    return word


def _start(leaf: Leaf) -> Any:
    return np.asarray(leaf.start or 0) if isinstance(leaf, Discrete | MultiDiscrete) else 0


def _own_dtype(leaf: Leaf) -> np.dtype[Any]:
    return leaf.dtype if isinstance(leaf, Box) else np.dtype(np.int64)
