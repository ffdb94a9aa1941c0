"""Environments with one fault each, addressed as `nasty_spaces.py:FAULT`, with continuous actions as `FAULT_box`.

Every fault says what the command may do: train (FINE), refuse with a message that has certain words (a pattern), or
either. What ends the process that steps an environment can be survived only by an engine with all of them in workers.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

FINE = ""
LATE = 21
"""The step of a copy in which a late fault shows, counted over its episodes of 10 steps."""


class Base(gymnasium.Env):
    """A harmless environment whose parts faults replace: a random walk with episodes of 10 steps."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, box: bool = False, **options: Any) -> None:
        self.observation_space: Any = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space: Any = spaces.Box(-1, 1, (2,), np.float32) if box else spaces.Discrete(2)
        self.render_mode = options.get("render_mode")
        self.total = self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.see(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.total += 1
        return self.see(), float(self.np_random.normal()), False, self.steps >= 10, {}

    def see(self) -> Any:
        return self.np_random.normal(size=3).astype(np.float32)

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)


@dataclass(frozen=True)
class Fault:
    """How an environment is made, and what its name in a message may be; FINE where it must train."""

    make: Callable[[bool], Any]
    words: str
    own_process: bool = False
    may_train: bool = False
    flags: tuple[str, ...] = field(default=())


FAULTS: dict[str, Fault] = {}


def fault(name: str, words: str, make: Callable[[bool], Any], **options: Any) -> None:
    FAULTS[name] = Fault(make, words, **options)


def changed(**methods: Callable[..., Any]) -> Callable[[bool], Any]:
    """Makes Base with some of its methods replaced."""
    return type("Nasty", (Base,), methods)


def step_with(change: Callable[[Base, list[Any]], Any], at: int = 1) -> Callable[[bool], Any]:
    """Makes Base whose steps, from a certain one on, are changed: the function gets the five parts in a list."""

    def step(self: Base, action: Any) -> Any:
        parts = list(Base.step(self, action))
        if self.total < at:
            return tuple(parts)
        found = change(self, parts)
        return tuple(parts) if found is None else found

    return changed(step=step)


def part(place: int, value: Any, at: int = 1) -> Callable[[bool], Any]:
    """Makes Base with one part of its steps replaced from a certain step on."""

    def change(env: Base, parts: list[Any]) -> None:
        parts[place] = value() if callable(value) else value

    return step_with(change, at)


def raising(error: Callable[[], BaseException], at: int = LATE) -> Callable[[bool], Any]:
    def change(env: Base, parts: list[Any]) -> None:
        raise error()

    return step_with(change, at)


def with_spaces(observation: Any = None, action: Any = None, see: Callable[[Base], Any] | None = None) -> Any:
    """Makes Base with other spaces; observations are samples of theirs where nothing else is stated."""

    def make(box: bool) -> Any:
        env = type("Nasty", (Base,), {"see": see or (lambda self: self.observation_space.sample())})(box)
        if observation is not None:
            env.observation_space = observation
        elif see is None:
            type(env).see = Base.see
        if action is not None:
            env.action_space = action
        return env

    return make


# Rewards
REWARDS: dict[str, tuple[Any, str]] = {
    "nan": (float("nan"), "reward|nan|finite"),
    "inf": (float("inf"), "reward|inf|finite"),
    "minus_inf": (float("-inf"), "reward|inf|finite"),
    "huge": (3e38, "reward|finite|diverged"),
    "beyond_float32": (1e300, "reward|finite|diverged"),
    "none": (None, "reward"),
    "text": ("many", "reward"),
    "two_numbers": (lambda: np.ones(2), "reward"),
    "empty": (lambda: np.zeros(0), "reward"),
    "complex": (1j, "reward"),
    "object": (object, "reward"),
    "dict": (dict, "reward"),
}
for _name, (_value, _words) in REWARDS.items():
    fault(f"reward_{_name}", _words, part(1, _value), may_train=_name in ("huge", "beyond_float32"))
    fault(f"reward_{_name}_late", _words, part(1, _value, LATE), may_train=isinstance(_value, float))
fault("reward_one_number_in_an_array", FINE, part(1, lambda: np.ones(1)))
fault("reward_true", FINE, part(1, True))
fault("reward_decimal_of_numpy", FINE, part(1, np.float16(0.5)))

# Observations
OBSERVATIONS: dict[str, tuple[Any, str]] = {
    "nan": (lambda: np.full(3, np.nan, np.float32), "observation|nan|finite"),
    "inf": (lambda: np.full(3, np.inf, np.float32), "observation|inf|finite"),
    "none": (None, "observation"),
    "longer": (lambda: np.zeros(4, np.float32), "observation|shape"),
    "shorter": (lambda: np.zeros(1, np.float32), "observation|shape"),
    "square": (lambda: np.zeros((3, 3), np.float32), "observation|shape"),
    "scalar": (0.0, "observation|shape"),
    "empty": (lambda: np.zeros(0, np.float32), "observation|shape"),
    "text": ("far away", "observation"),
    "dict": (lambda: {"x": 1}, "observation"),
    "objects": (lambda: np.array([None, None, None]), "observation"),
}
for _name, (_value, _words) in OBSERVATIONS.items():
    fault(f"observation_{_name}_late", _words, part(0, _value, LATE), may_train=_name in ("nan", "inf"))
    fault(f"observation_{_name}_at_reset", _words, changed(see=lambda self, v=_value: v() if callable(v) else v))
fault("observation_float64", FINE, part(0, lambda: np.zeros(3)))
fault("observation_list", FINE, part(0, lambda: [0.0, 1.0, 2.0]))
fault("observation_read_only", FINE, part(0, lambda: np.broadcast_to(np.float32(1), (3,))))

# What step and reset return
fault("step_of_four", "5|step|terminated", step_with(lambda env, parts: tuple(parts[:4])))
fault("step_of_six", "5|step", step_with(lambda env, parts: (*parts, 0), LATE))
fault("step_of_nothing", "step", changed(step=lambda self, action: None))
fault("step_a_list", FINE, step_with(lambda env, parts: parts))
fault("reset_observation_alone", "reset", changed(reset=lambda self, **options: Base.reset(self)[0]))
fault("reset_of_nothing", "reset", changed(reset=lambda self, **options: None))
fault("reset_without_seed", "seed|reset", changed(reset=lambda self: (self.see(), {})), may_train=True)
fault("reset_needs_options", "reset|options|level", changed(reset=lambda self, *, seed=None, options: options["level"]))
for _name, _value in {"none": None, "list": list, "text": "x"}.items():
    fault(f"info_{_name}", "info", part(4, _value), may_train=True)
fault("info_huge", FINE, part(4, lambda: {f"key {k}": np.zeros(100) for k in range(300)}))
fault("info_unpicklable", FINE, part(4, lambda: {"lock": threading.Lock()}))
fault("info_changing", FINE, part(4, lambda: {random.random(): 1, "x": random.choice([None, 1, "a", [2]])}))
for _name, _value in {"none": None, "text": "yes", "nan": float("nan"), "two": lambda: np.zeros(2, bool)}.items():
    fault(f"terminated_{_name}", "terminated|bool", part(2, _value), may_train=_name in ("none", "nan", "text"))
fault("terminated_one", FINE, step_with(lambda env, parts: (*parts[:2], int(env.steps >= 5), 0, {})))
fault("terminated_array", FINE, step_with(lambda env, parts: (*parts[:2], np.array(env.steps >= 5), False, {})))


# Errors
class Own(Exception):  # noqa: N818 - named by a user
    """An error that cannot be pickled and whose text raises too."""

    def __init__(self, one: int, two: int) -> None:
        self.handle = threading.Lock()

    def __str__(self) -> str:
        raise RuntimeError("not even a text")


ERRORS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "value": (lambda: ValueError("the simulator lost its licence"), "lost its licence"),
    "key": (lambda: KeyError("arm"), "arm|KeyError"),
    "without_text": (RuntimeError, "RuntimeError"),
    "long": (lambda: RuntimeError("long " * 5000), "long"),
    "many_lines": (lambda: RuntimeError("one\ntwo\nTraceback of mine\nerror: three"), "one"),
    "of_its_own": (lambda: Own(1, 2), "Own"),
    "stop_iteration": (StopIteration, "StopIteration"),
    "generator_exit": (GeneratorExit, "GeneratorExit"),
    "memory": (MemoryError, "MemoryError|memory"),
    "recursion": (RecursionError, "RecursionError|recursion"),
    "system_exit": (lambda: SystemExit(0), "exit"),
    "system_exit_text": (lambda: SystemExit("goodbye"), "exit|goodbye"),
    "os_error": (lambda: FileNotFoundError(2, "No such file", "mesh.stl"), "mesh.stl"),
    "broken_pipe": (lambda: BrokenPipeError(32, "Broken pipe"), "pipe"),
    "eof": (EOFError, "EOFError"),
    "unicode": (lambda: RuntimeError("d\udcffjà \x1b[31m vu\0"), "j"),
}
for _name, (_error, _words) in ERRORS.items():
    fault(f"error_{_name}", _words, raising(_error))
fault("error_in_first_step", "licence", raising(ERRORS["value"][0], 1))


def _raise(text: str) -> Callable[..., Any]:
    def method(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError(text)

    return method


fault("error_in_reset", "no display", changed(reset=_raise("no display found")))
fault("error_in_close", "not closed", changed(close=_raise("it is not closed")), may_train=True)
fault("error_in_render", "no screen", changed(render=_raise("no screen")), may_train=True)
fault("error_in_del", "", changed(__del__=_raise("deleted badly")), may_train=True)
fault("error_when_made", "no licence", lambda box: _raise("no licence")())
fault("exit_when_made", "exit", lambda box: sys.exit(3))
_made: list[int] = []


def _third_fails(box: bool) -> Any:
    _made.append(1)
    if len(_made) % 5 == 4:
        raise RuntimeError("only three licences")
    return Base(box)


fault("error_when_made_often", "only three licences", _third_fails, may_train=True)

# Ends of the process
fault("os_exit", "ended|exit|died|worker|process", step_with(lambda e, p: os._exit(0), LATE), own_process=True)
fault("os_exit_7", "ended|exit|died|worker|process", step_with(lambda e, p: os._exit(7), LATE), own_process=True)
for _signal in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
    _make = step_with(lambda e, p, s=_signal: os.kill(os.getpid(), s), LATE)
    fault(f"killed_by_{_signal.name.lower()}", "ended|signal|died|worker|process|killed", _make, own_process=True)

# Time
PATIENCE = ("--step-timeout", "3")
_sleep = lambda e, p: time.sleep(10_000)  # noqa: E731 - one of many
fault("hangs_in_step", "not answer", step_with(_sleep, LATE), flags=PATIENCE)
fault("hangs_in_first_step", "not answer", step_with(_sleep), flags=PATIENCE)
fault("hangs_in_reset", "not answer", changed(reset=lambda self, **o: time.sleep(10_000)), flags=PATIENCE)
fault("hangs_in_close", "", changed(close=lambda self: time.sleep(10_000)), may_train=True, flags=PATIENCE)
fault(
    "spins_for_ever",
    "not answer",
    step_with(lambda e, p: all(iter(int, 1)) or _spin(), LATE),
    flags=PATIENCE,
)
fault("never_ends", "", step_with(lambda e, p: (*p[:2], False, False, {})), may_train=True)
fault("ends_at_once", FINE, step_with(lambda e, p: (*p[:2], True, False, {})))
fault("both_ends", FINE, step_with(lambda e, p: (*p[:2], True, True, {})))


def _spin() -> None:
    while True:
        pass
