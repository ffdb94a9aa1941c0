"""More environments with one fault each: spaces that lie or cannot be learned from, factories, and bad manners."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from nasty_envs import FAULTS, FINE, Base, changed, fault, part, step_with, with_spaces

BOX = spaces.Box(-1, 1, (2,), np.float32)
fault("box_with_infinite_bounds", "", with_spaces(action=spaces.Box(-np.inf, np.inf, (2,), np.float32)), may_train=True)
fault("box_half_open", "", with_spaces(action=spaces.Box(0, np.inf, (2,), np.float32)), may_train=True)
fault("box_of_no_size", "size|shape|empty|0", with_spaces(spaces.Box(0, 1, (0,), np.float32)))
fault("action_of_no_size", "size|shape|empty|0", with_spaces(action=spaces.Box(0, 1, (0,), np.float32)))
fault("box_of_one_point", "", with_spaces(action=spaces.Box(1, 1, (2,), np.float32)), may_train=True)
fault("box_huge_bounds", "", with_spaces(action=spaces.Box(-3e38, 3e38, (2,), np.float32)), may_train=True)
fault("box_of_whole_numbers", "", with_spaces(action=spaces.Box(0, 9, (2,), np.int64)), may_train=True)
fault("box_of_float64", "", with_spaces(action=spaces.Box(-1, 1, (2,), np.float64)), may_train=True)
fault("one_action", "", with_spaces(action=spaces.Discrete(1)), may_train=True)
fault("many_actions", "", with_spaces(action=spaces.Discrete(10**9)), may_train=True)
fault("actions_from_minus_five", "", with_spaces(action=spaces.Discrete(3, start=-5)), may_train=True)
fault("multi_binary", "", with_spaces(action=spaces.MultiBinary(3)), may_train=True)
fault("multi_discrete", "", with_spaces(action=spaces.MultiDiscrete([2, 3, 1])), may_train=True)
fault("text_observation", "[Tt]ext", with_spaces(spaces.Text(5)))
fault("text_action", "[Tt]ext", with_spaces(action=spaces.Text(5)))
fault("graph_observation", "[Gg]raph", with_spaces(spaces.Graph(BOX, BOX)))
fault("sequence_observation", "[Ss]equence", with_spaces(spaces.Sequence(BOX)))
fault("dict_observation", "", with_spaces(spaces.Dict(a=BOX, b=spaces.Discrete(3))), may_train=True)
_NEST = spaces.Tuple((spaces.Dict(x=spaces.Tuple((BOX, BOX)), y=spaces.MultiBinary(2)), spaces.Discrete(4)))
fault("nested_observation", "", with_spaces(_NEST), may_train=True)
fault(
    "nested_action",
    "",
    with_spaces(action=spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple((BOX, BOX)))),
    may_train=True,
)
fault("empty_dict", "empty|size|no |Dict", with_spaces(spaces.Dict({})))
fault("empty_tuple_action", "empty|size|no |Tuple", with_spaces(action=spaces.Tuple(())))
fault("small_image", "", with_spaces(spaces.Box(0, 255, (7, 7, 3), np.uint8)), may_train=True)
fault("image_of_one_pixel", "", with_spaces(spaces.Box(0, 255, (1, 1, 3), np.uint8)), may_train=True)
fault("five_dimensions", "", with_spaces(spaces.Box(0, 1, (2, 2, 2, 2, 2), np.float32)), may_train=True)
fault("a_million_numbers", "", with_spaces(spaces.Box(0, 1, (1_000_000,), np.float32)), may_train=True)
fault("discrete_out_of_range", "range|Discrete|outside|between", with_spaces(spaces.Discrete(4), see=lambda self: 9))
fault("discrete_negative", "range|Discrete|outside|between", with_spaces(spaces.Discrete(4), see=lambda self: -1))
fault("discrete_a_fraction", "", with_spaces(spaces.Discrete(4), see=lambda self: 1.5), may_train=True)
fault("discrete_none", "observation|None", with_spaces(spaces.Discrete(4), see=lambda self: None))
fault(
    "multi_discrete_out_of_range",
    "range|outside|between",
    with_spaces(spaces.MultiDiscrete([2, 2]), see=lambda s: [5, 0]),
)
fault("dict_without_a_key", "key|missing|b", with_spaces(spaces.Dict(a=BOX, b=BOX), see=lambda s: {"a": BOX.sample()}))
fault(
    "dict_with_a_key_more",
    "",
    with_spaces(spaces.Dict(a=BOX), see=lambda s: {"a": BOX.sample(), "z": 1}),
    may_train=True,
)
fault(
    "outside_its_bounds",
    "",
    with_spaces(spaces.Box(0, 1, (2,), np.float32), see=lambda s: np.full(2, 99.0)),
    may_train=True,
)
_IMAGE = spaces.Box(0, 255, (40, 40, 3), np.uint8)
fault("image_of_floats", "", with_spaces(_IMAGE, see=lambda s: np.full((40, 40, 3), 300.7)), may_train=True)


def _set(**values: Any) -> Any:
    def make(box: bool) -> Any:
        env = Base(box)
        for name, value in values.items():
            setattr(env, name, value)
        return env

    return make


fault("no_observation_space", "space", _set(observation_space=None))
fault("no_action_space", "space", _set(action_space=None))
fault("space_a_number", "space", _set(observation_space=3))
fault("space_a_method", "space", _set(action_space=lambda agent: spaces.Discrete(2)))
fault("space_a_class", "space", _set(observation_space=spaces.Box))


def _at_reset(name: str, space: Any) -> Any:
    def reset(self: Base, **options: Any) -> Any:
        setattr(self, name, space)
        return Base.reset(self, **options)

    return changed(reset=reset)


fault("action_space_changes", "action|space|chang", _at_reset("action_space", spaces.Discrete(7)))
fault("observation_space_changes", "observation|space|chang", _at_reset("observation_space", BOX), may_train=True)
_copies: list[int] = []


def _differing(box: bool) -> Any:
    _copies.append(1)
    env = Base(box)
    if len(_copies) % 2 == 0:
        env.observation_space = spaces.Box(-1, 1, (5,), np.float32)
        env.see = lambda: np.zeros(5, np.float32)  # type: ignore[method-assign]
    return env


fault("copies_differ", "space|shape|differ|observation", _differing, may_train=True)

# Factories
fault("factory_gives_none", "None|Env|environment", lambda box: None)
fault("factory_gives_text", "str|Env|environment", lambda box: "CartPole-v1")
fault("factory_gives_a_class", "Env|class|environment|type", lambda box: Base)
fault("factory_gives_many", "[Vv]ector", lambda box: gymnasium.vector.SyncVectorEnv([lambda: Base(box)] * 2))
fault("factory_gives_an_object", "object|Env|environment|space", lambda box: object())
fault("factory_gives_the_same_copy", "", lambda box: _ONE[box], may_train=True)
_ONE = {False: Base(False), True: Base(True)}
fault("no_metadata", "", _set(metadata=None), may_train=True)
fault("unpicklable", FINE, _set(lock=threading.Lock()))

# Manners


def _noisy(env: Base, parts: list[Any]) -> None:
    print("step", env.total, "\x1b[31m", "é" * 50)
    sys.stderr.write("simulator: all is well\n")
    logging.getLogger().warning("deprecated")
    warnings.warn(f"this warning is new: {env.total}", stacklevel=1)


def _rude(env: Base, parts: list[Any]) -> None:
    random.seed(0)
    np.random.seed(0)
    os.chdir("/")
    os.environ["SEED"] = "1"
    sys.setrecursionlimit(2000)
    np.seterr(all="raise")


def _threads(env: Base, parts: list[Any]) -> None:
    if env.total < 5:
        threading.Thread(target=threading.Event().wait, daemon=True).start()


def _signals(env: Base, parts: list[Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


_BUFFER = np.zeros(3, np.float32)


def _same_buffer(env: Base, parts: list[Any]) -> None:
    _BUFFER[:] = env.np_random.normal(size=3)
    parts[0] = _BUFFER


def _writes_action(self: Base, action: Any) -> Any:
    if isinstance(action, np.ndarray) and action.ndim:
        action[...] = 0
    return Base.step(self, action)


fault("prints_and_warns", FINE, step_with(_noisy))
fault("changes_the_process", FINE, step_with(_rude))
fault("leaves_threads", FINE, step_with(_threads))
fault("ignores_children", FINE, step_with(_signals))
fault("reuses_its_buffer", FINE, step_with(_same_buffer))
fault("writes_into_the_action", "", changed(step=_writes_action), may_train=True)
fault("long_name", FINE, type("N" * 3000, (Base,), {}))
fault("leaks_memory", FINE, step_with(lambda e, p: _LEAK.append(np.zeros(1000))))
_LEAK: list[Any] = []
fault("closes_its_output", "", step_with(lambda e, p: sys.stdout.flush()), may_train=True)
fault("counts_down", FINE, part(1, -1))

for _name in FAULTS:
    globals()[_name] = lambda n=_name, **options: FAULTS[n].make(False)
    globals()[f"{_name}_box"] = lambda n=_name, **options: FAULTS[n].make(True)
