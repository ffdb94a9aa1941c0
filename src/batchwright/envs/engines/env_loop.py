"""The loop over single Gymnasium environments in next-step form; survives environments that raise."""

# n environments of this loop (all of them, or one worker's share), K info keys

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Sequence
from typing import Any

from batchwright.core.errors import UserError
from batchwright.envs.engines.engine import OnEvent, env_seed
from batchwright.envs.engines.host_arrays import ObservationRows
from batchwright.envs.engines.loop_arrays import LoopArrays
from batchwright.envs.engines.step_results import PLAIN_NUMBERS, info_of, one_number, refuse_step, reset_parts
from batchwright.envs.failures import RAISED, close_env, failure, source_line
from batchwright.envs.gymnasium_source import EnvSource, spaces_of
from batchwright.envs.masks import flat_mask, refuse_empty
from batchwright.envs.reward_components import NO_PARTS, RewardParts, success_of
from batchwright.envs.spaces import Spec, from_gymnasium

MAX_RESTARTS = 3
"""How often one environment, or one worker process, may fail before the run is stopped."""


_NOTHING = object()


class EnvLoop:
    """Environments `first_index`, `first_index + 1`, ... stepped one after another into `arrays`.

    `at[0]` is the environment that is being stepped or reset, for those who watch.
    """

    rows_per_env = 1

    def __init__(
        self,
        source: EnvSource,
        spaces: tuple[Spec, Spec],
        arrays: LoopArrays,
        first_index: int,
        on_event: OnEvent,
        info_keys: Sequence[str] = (),
        parts: RewardParts = NO_PARTS,
        at: Any = None,
    ) -> None:
        self._source = source
        self._spaces = spaces
        self._arrays = arrays
        self._first_index = first_index
        self._on_event = on_event
        self._at: Any = [-1] if at is None else at
        self._info_keys = tuple(enumerate(info_keys))
        self._parts = None if parts == NO_PARTS else parts
        self._rows = ObservationRows(spaces[0], arrays.observations, self._who)
        count = len(arrays.reward) // self.rows_per_env
        self._limit_steps: float = math.inf
        self._attributes: dict[str, Any] = {}
        self._envs: list[Any] = []
        self._failures = [0] * count
        self._action_spaces: list[Any] = [None] * count
        for row in range(count):
            self._envs.append(self._make(row))
        self._elapsed_steps = [0] * count
        self._ended = [True] * count
        self._seeds: list[int | None] = [None] * count
        self._seed = 0
        self._has_started = False
        self._restarts = [0] * count
        self._share: list[int] | None = None

    @property
    def num_envs(self) -> int:
        return len(self._envs)

    def start(self, seed: int, share: Sequence[int] | None = None) -> None:
        """Seeds and resets every environment; one that cannot even begin is the user's to mend.

        With a `share` of episodes for each, an environment stands still after its last one.
        """
        self.reseed(seed)
        self._share = None if share is None else [int(count) for count in share]
        for row in range(len(self._envs)):
            if self._has_started:
                self._reset_until_it_works(row)
            else:
                self._reset_first(row)
        self._has_started = True
        self._arrays.reward[:] = 0.0
        self._arrays.terminated[:] = False
        self._arrays.truncated[:] = False

    def reseed(self, seed: int, restart: int = 0) -> None:
        """Every environment begins a new episode at the next step, with seeds derived from `seed`."""
        self._seed = seed
        self._restarts = [restart] * len(self._envs)
        self._ended = [True] * len(self._envs)
        self._seeds = [env_seed(seed, self._first_index + row, restart) for row in range(len(self._envs))]

    def step(self, actions: Iterable[Any]) -> None:
        """One step of every environment; an environment that ended is reset instead."""
        arrays, ended, elapsed_steps = self._arrays, self._ended, self._elapsed_steps
        write, limit_steps, parts, at = self._rows.write, self._limit_steps, self._parts, self._at
        arrays.terminated[:] = False
        arrays.truncated[:] = False
        for row, (env, action) in enumerate(zip(self._envs, actions, strict=True)):
            if ended[row]:
                if self._stands_still(row):
                    arrays.reward[row] = 0.0
                    continue
                self._reset_until_it_works(row)
                continue
            at[0] = self._first_index + row
            returned: Any = _NOTHING
            try:
                returned = env.step(action)
                observation, reward, terminated, truncated, info = returned
                if type(info) is not dict:
                    info = info_of(info, self._who(row))
                if parts is None:
                    arrays.reward[row] = reward if type(reward) in PLAIN_NUMBERS else one_number(reward, self._who(row))
                else:
                    arrays.reward[row], arrays.components[row] = parts.split(reward, info, self._who(row))
                write(row, observation)
                over = bool(terminated or truncated)
            except UserError:
                raise
            except RAISED as error:
                if returned is not _NOTHING:
                    raise refuse_step(returned, error, self._who(row)) from error
                self._replace(row, error)
                self._arrays.rows(row, 1).mark_cut()
                continue
            elapsed_steps[row] += 1
            if over or elapsed_steps[row] >= limit_steps:
                # Where both hold, terminated wins.
                arrays.terminated[row] = bool(terminated)
                arrays.truncated[row] = not terminated
                ended[row] = True
                arrays.success[row] = success_of(info)
            elif arrays.masked[row]:
                self._write_mask(row, info)
            for place, key in self._info_keys:
                arrays.extras[place, row] = info.get(key, math.nan)

    def _stands_still(self, row: int) -> bool:
        """Whether the episode that ended before this step was the last of the environment's share."""
        if self._share is None:
            return False
        self._share[row] = max(0, self._share[row] - 1)
        return self._share[row] == 0

    def set_attribute(self, name: str, value: Any) -> None:
        """Sets an attribute of every environment, those that replace failed ones included."""
        self._attributes[name] = value
        for env in self._envs:
            set_env_attribute(env, name, value, self._source.name)

    def close(self) -> None:
        """Closes every environment, whatever they raise."""
        for env in self._envs:
            close_env(env)
        self._envs = []

    def _make(self, row: int) -> Any:
        env, limit_steps = self._source.make()
        self._limit_steps = limit_steps if limit_steps is not None else math.inf
        if spaces_of(env, self._source.name) != self._spaces:
            raise UserError(
                f"{self._source.name}: the spaces of environment {self._first_index + row} differ: "
                f"{spaces_of(env, self._source.name)} instead of {self._spaces}."
            )
        for name, value in self._attributes.items():
            set_env_attribute(env, name, value, self._source.name)
        return env

    def _reset(self, row: int) -> None:
        seed = self._seeds[row]
        env = self._envs[row]
        self._at[0] = self._first_index + row
        if seed is not None:
            env.action_space.seed(seed)
        observation, info = reset_parts(env.reset(seed=seed), self._who(row))
        if env.action_space is not self._action_spaces[row]:
            self._check_action_space(row, env)
        self._rows.write(row, observation)
        if self._arrays.masked[row] or "action_mask" in info:
            self._write_mask(row, info)
        self._seeds[row] = None
        self._ended[row] = False
        self._elapsed_steps[row] = 0
        self._arrays.reward[row] = 0.0
        self._arrays.extras[:, row] = math.nan
        self._arrays.components[row] = 0.0

    def _check_action_space(self, row: int, env: Any) -> None:
        """Refuses a space that changes from episode to episode: a policy's outputs are made for one."""
        space = from_gymnasium(env.action_space, f"{self._source.name}'s action")
        if space != self._spaces[1]:
            raise UserError(
                f"{self._who(row)}: reset changed the action space from {self._spaces[1]} to {space}.",
                ["declare the largest space and give info['action_mask']"],
            )
        self._action_spaces[row] = env.action_space

    def _env_at(self, place: int) -> str:
        return f"{self._source.name}, environment {self._first_index + place}"

    def _who(self, row: int) -> str:
        return self._env_at(row)

    def _write_mask(self, row: int, info: Any) -> None:
        """What may be done next; an environment that gives masks gives one whenever an action is asked for."""
        mask, spec = info.get("action_mask"), self._spaces[1]
        if mask is None:
            raise UserError(
                f"{self._who(row)}: info has no 'action_mask' in this step; it had one before.",
                ["give info['action_mask'] from reset and from every step"],
            )
        row_M = flat_mask(spec, mask, self._who(row))
        refuse_empty(spec, row_M, self._who(row))
        self._arrays.mask[row] = row_M
        self._arrays.masked[row] = True

    def _reset_first(self, row: int) -> None:
        try:
            self._reset(row)
        except UserError:
            raise
        except RAISED as error:
            raise UserError(f"{self._env_at(row)}, raised in reset: {failure(error)}", _reset_fixes(error)) from error

    def _reset_until_it_works(self, row: int) -> None:
        while True:
            try:
                return self._reset(row)
            except UserError:
                raise
            except RAISED as error:
                self._replace(row, error)

    def _replace(self, row: int, error: BaseException) -> None:
        """Puts a new environment in the place of one that raised, or gives up after too many times."""
        index = self._first_index + row
        self._failures[row] += 1
        what = failure(error)
        if self._failures[row] > MAX_RESTARTS:
            raise UserError(
                f"{self._source.name}, environment {index}, raised {self._failures[row]} times "
                f"(at most {MAX_RESTARTS} restarts); the last: {what}"
            ) from error
        event = {
            "event": "environment_restarted",
            "environment": index,
            "restarts": self._failures[row],
            "max_restarts": MAX_RESTARTS,
            "error": what,
            "traceback": traceback.format_exc(),
        }
        self._on_event(event)
        close_env(self._envs[row])
        self._envs[row], self._action_spaces[row] = self._make(row), None
        # A seed of its own: with the old one the environment would run into the same failure again.
        self._restarts[row] += 1
        self._seeds[row] = env_seed(self._seed, index, self._restarts[row])
        self._ended[row] = True


def set_env_attribute(env: Any, name: str, value: Any, where: str) -> None:
    """Sets an attribute where a wrapper or the environment has it; an unknown name is refused."""
    holder = env
    while holder is not None and name not in dir(holder.__class__) and name not in getattr(holder, "__dict__", {}):
        holder = getattr(holder, "env", None)
    if holder is None:
        raise UserError(
            f"{where} has no attribute {name!r} to set.", [f"self.{name} = ... in the environment's __init__"]
        )
    try:
        setattr(holder, name, value)
    except RAISED as error:
        raise UserError(f"{where}: {name} cannot be set to {value!r}: {failure(error)}") from error


def _reset_fixes(error: BaseException) -> list[str]:
    """What helps against the two ways in which `reset` is often written for callers of its own."""
    if "options" in str(error) or "options" in source_line(error):
        return ["let reset work without options: they are None here", "set them in a factory of your own"]
    if isinstance(error, TypeError) and "seed" in str(error):
        return ["def reset(self, *, seed=None, options=None)"]
    return []
