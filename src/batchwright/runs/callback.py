"""Callbacks of the user: called between iterations; may stop a run, log metrics and set attributes of environments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan
from batchwright.runs.learner import RunState


class CallbackLearner(Protocol):
    """What a callback may use of a learner."""

    def policy_params(self, state: Any) -> jax.Array: ...
    def set_env_attribute(self, name: str, value: Any, iteration: int) -> None: ...
    def restart_environments(self, state: Any) -> Any: ...


class RunView:
    """A run as a callback sees it between two iterations, and what the callback may ask of it."""

    def __init__(self, run_dir: Path, plan: Plan, learner: CallbackLearner, state: RunState) -> None:
        self.run_dir, self.plan = run_dir, plan
        self._learner, self._state = learner, state
        counters = state.counters
        self.iteration = int(counters.iteration)
        """Iterations done."""
        self.env_steps, self.episodes = int(counters.env_steps), int(counters.episodes)
        self.logged: dict[str, float] = {}
        self.stop_reason: str | None = None
        self.has_set_env = False

    @property
    def params(self) -> np.ndarray:
        """A copy of the flat parameter vector of the policy that acts."""
        return np.array(self._learner.policy_params(self._state))

    def log(self, name: str, value: float) -> None:
        """Adds a metric to the record of this iteration: the page draws it, writers write it."""
        self.logged[name] = float(value)

    def stop(self, reason: str = "asked by the callback") -> None:
        """Ends the run after this iteration: it is saved, evaluated and finished."""
        self.stop_reason = reason

    def set_env(self, name: str, value: Any) -> None:
        """Sets an attribute of every training environment; evaluations are not affected.

        `value` is a number, a text, or lists and dicts of them, so that a checkpoint can hold it.
        """
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(f"set_env({name!r}): a checkpoint cannot hold the value: {error}.") from None
        self._learner.set_env_attribute(name, value, self.iteration)
        self.has_set_env = True


class Callback:
    """Subclass it and override what you need; all methods do nothing.

    A run goes on exactly after a stop if what the callback does depends on its arguments and on what `save` returns.
    """

    def on_start(self, view: RunView) -> None:
        """Before the first iteration. Not after a resume, which calls `load`."""

    def on_iteration(self, metrics: Mapping[str, Any], view: RunView) -> None:
        """After every iteration, with its record; `view.log` adds to it."""

    def on_evaluation(self, evaluation: Mapping[str, Any], view: RunView) -> None:
        """After every evaluation, with its statistics: episodes, mean, median, iqm, returns."""

    def on_end(self, view: RunView) -> None:
        """When training has ended in this process: finished, stopped or interrupted."""

    def save(self) -> Any:
        """What a checkpoint must hold of the callback, as JSON can write it."""
        return None

    def load(self, state: Any) -> None:
        """Takes back what `save` returned, when the run is resumed."""


OnIteration = Callable[[Mapping[str, Any], RunView], Any]
CallbackLike = Callback | OnIteration | Sequence["Callback | OnIteration"]
"""A callback, a function (metrics, view), or several of both."""


class _Function(Callback):
    def __init__(self, function: OnIteration) -> None:
        self._function = function

    def on_iteration(self, metrics: Mapping[str, Any], view: RunView) -> None:
        self._function(metrics, view)


class Callbacks:
    """Several callbacks as one."""

    def __init__(self, given: CallbackLike | None) -> None:
        parts = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
        self._parts = [part if isinstance(part, Callback) else _Function(_checked(part)) for part in parts]
        self.names = [_name_of(part) for part in parts]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def on_start(self, view: RunView) -> None:
        for part in self._parts:
            part.on_start(view)

    def on_iteration(self, metrics: Mapping[str, Any], view: RunView) -> None:
        for part in self._parts:
            part.on_iteration(metrics, view)

    def on_evaluation(self, evaluation: Mapping[str, Any], view: RunView) -> None:
        for part in self._parts:
            part.on_evaluation(evaluation, view)

    def on_end(self, view: RunView) -> None:
        for part in self._parts:
            part.on_end(view)

    def save(self) -> list[Any]:
        found = [part.save() for part in self._parts]
        try:
            json.dumps(found, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(f"save() of a callback returned what JSON cannot hold: {error}.") from None
        return found

    def load(self, saved: Any) -> None:
        if not isinstance(saved, list) or len(saved) != len(self._parts):
            count = len(saved) if isinstance(saved, list) else 0
            raise UserError(
                f"the checkpoint holds {count} callbacks, {len(self._parts)} are given.",
                ["pass the callbacks that the run was trained with, in their order"],
            )
        for part, state in zip(self._parts, saved, strict=True):
            part.load(state)


def _checked(part: Any) -> OnIteration:
    if not callable(part):
        raise UserError(f"callback is {part!r}; a batchwright.Callback or a function (metrics, view) is needed.")
    function: OnIteration = part
    return function


def _name_of(part: Any) -> str:
    code = type(part) if isinstance(part, Callback) else part
    return f"{getattr(code, '__module__', '?')}:{getattr(code, '__qualname__', type(code).__qualname__)}"
