"""Environments by Gymnasium's names and by a user's file; the one file that imports gymnasium."""

from __future__ import annotations

import ast
import contextlib
import copy
import hashlib
import importlib
import importlib.util
import multiprocessing
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from batchwright.core.errors import UserError, did_you_mean
from batchwright.envs.agent_groups import AgentLayout
from batchwright.envs.env_names import passed_factory, split_name
from batchwright.envs.failures import RAISED, failure
from batchwright.envs.mujoco_warnings import deduplicate
from batchwright.envs.parallel_agents import (
    EXTRA,
    PACKAGES,
    agent_layout,
    is_parallel,
    parallel_factory,
    refuse_turns,
)
from batchwright.envs.spaces import Discrete, Leaf, Spec, from_gymnasium, leaf_shape, leaves, path_name
from batchwright.envs.watchdog import Watch, print_no_answer

# Package that a family of Gymnasium's registry needs, by the module of its entry point.
_NEEDS = {
    "gymnasium.envs.box2d": ("Box2D", 'pip install "gymnasium[box2d]"'),
    "gymnasium.envs.mujoco": ("mujoco", 'pip install "gymnasium[mujoco]"'),
    "batchwright.envs.piano_reach": ("mujoco", "pip install 'batchwright[envpool,mujoco]'"),
    "gymnasium.envs.phys2d": ("jax", "pip install jax"),
    "gymnasium.envs.tabular": ("jax", "pip install jax"),
}

# Packages that register a namespace only once they are imported.
_NAMESPACE_PACKAGES = {"ALE": "ale_py"}
_PREFIX_PACKAGES = {"mo-": "mo_gymnasium"}
# Packages whose ids are found as `package:Id`, by how those begin.
_ID_PACKAGES = {
    "mo_gymnasium": (
        "breakable-bottles",
        "deep-sea-treasure",
        "four-room",
        "fruit-tree",
        "minecart",
        "resource-gathering",
        "water-reservoir",
    ),
    "minigrid": ("MiniGrid-", "BabyAI-"),
    "highway_env": ("highway-", "intersection-", "merge-", "parking-", "racetrack-", "roundabout-"),
    "gymnasium_robotics": ("AdroitHand", "AntMaze_", "Fetch", "FrankaKitchen", "HandManipulate", "PointMaze_"),
    "minatar": ("MinAtar/",),
}

MOST_VALUES = 1_000_000
"""Of one Discrete space; `--action-size` has the same limit."""


def _gymnasium() -> ModuleType:
    try:
        import gymnasium
    except ImportError as error:
        raise UserError("gymnasium is not installed.", ('pip install "batchwright"',)) from error
    from batchwright.envs import registration  # noqa: F401  (adds our own environments)

    return gymnasium


@dataclass(frozen=True)
class EnvSource:
    """How to make one Gymnasium environment; picklable, so that a worker process can make its own."""

    name: str
    max_episode_steps: int | None = None
    """Overrides the registered time limit."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    agent_groups: tuple[str, ...] = ()
    """Patterns of the agents that share a policy; none for those of equal spaces."""

    def make(self) -> tuple[Any, int | None]:
        """A new environment, and the time limit that the caller has to apply (None: the environment does)."""
        factory, kwargs = user_factory(self.name), {**split_name(self.name)[1], **self.env_kwargs}
        watched = multiprocessing.parent_process() is None  # of workers the trainer's process says it
        try:
            with Watch(f"making {self.name}", print_no_answer) if watched else contextlib.nullcontext():
                if factory is not None:
                    return factory(**kwargs), self.max_episode_steps
                return self._make_registered(kwargs)
        except UserError:
            raise
        except RAISED as error:
            raise _could_not_make(self.name, error) from error

    def _make_registered(self, kwargs: Mapping[str, Any]) -> tuple[Any, int | None]:
        gymnasium = _gymnasium()
        spec = copy.deepcopy(registered_spec(self.name))
        if spec is None:
            raise UserError(f"{self.name} is not in Gymnasium's registry.")
        stated, kwargs = kwargs.get("max_episode_steps"), {k: v for k, v in kwargs.items() if k != "max_episode_steps"}
        limit_steps = self.max_episode_steps or stated or spec.max_episode_steps
        # The engine checks shapes and order itself: three wrappers less per step. Wrappers of the
        # registration sit outside the time limit, so with those the limit stays where it was.
        spec.order_enforce = False
        if "mujoco" in str(spec.entry_point):
            deduplicate()
        counts_itself = bool(spec.additional_wrappers)
        env = gymnasium.make(
            spec,
            max_episode_steps=limit_steps if counts_itself else -1,
            disable_env_checker=True,
            **kwargs,
        )
        return env, None if counts_itself else limit_steps

    def make_vector(self, num_envs: int) -> Any:
        """The environment's own vectorised form, for those that have one."""
        gymnasium = _gymnasium()
        kwargs = {**split_name(self.name)[1], **self.env_kwargs}
        if self.max_episode_steps is not None:
            kwargs["max_episode_steps"] = self.max_episode_steps
        try:
            with warnings.catch_warnings():
                # A missing autoreset mode is an error of ours, not a warning.
                warnings.simplefilter("ignore")
                return gymnasium.make_vec(
                    registered_spec(self.name),
                    num_envs=num_envs,
                    vectorization_mode="vector_entry_point",
                    **kwargs,
                )
        except RAISED as error:
            raise _could_not_make(self.name, error) from error


def spaces_of(env: Any, name: str) -> tuple[Spec, Spec]:
    """Observation and action specs of a made environment; what is no single environment is refused by name."""
    refuse_other_kinds(env, name)
    observation = from_gymnasium(env.observation_space, f"{name}'s observation")
    action = from_gymnasium(env.action_space, f"{name}'s action")
    _check_spaces(observation, action, name)
    return observation, action


def layout_of(env: Any, name: str, groups: Sequence[str] = ()) -> AgentLayout | None:
    """The agents of a made environment with their spaces; None where it has one agent, as Gymnasium's have."""
    refuse_turns(env, name)
    if not is_parallel(env):
        return None
    layout = agent_layout(env, name, groups)
    for group in layout.groups:
        _check_spaces(group.observation, group.action, name)
    return layout


def _check_spaces(observation: Spec, action: Spec, name: str) -> None:
    for what, spec in (("observation", observation), ("action", action)):
        if not leaves(spec):
            raise UserError(f"{name}'s {what} space has no parts.", [f"give the {what}_space at least one number"])
        for path, leaf in leaves(spec):
            _refuse_sizes(f"{name}'s {what}" + (f" at {path_name(path)!r}" if path else ""), leaf)


def _refuse_sizes(who: str, leaf: Leaf) -> None:
    """Refuses a space that holds no number, and one with more values than a network has inputs or outputs for."""
    if 0 in leaf_shape(leaf):
        raise UserError(
            f"{who} has shape {leaf_shape(leaf)}: it holds no number.",
            ["leave it out of the space, or give it at least one number"],
        )
    if isinstance(leaf, Discrete) and leaf.n > MOST_VALUES:
        raise UserError(
            f"{who} is one of {leaf.n:,} values, each an input or output of the network; at most {MOST_VALUES:,}.",
            ["declare a Box", "several values of fewer choices: a MultiDiscrete"],
        )


def refuse_other_kinds(env: Any, name: str) -> None:
    """Refuses vector environments and what is no environment at all, each by its name."""
    kind = type(env).__name__
    if isinstance(env, type):
        raise UserError(f"{name} gave the class {env.__name__}, not an environment.", [f"return {env.__name__}()"])
    if hasattr(env, "single_observation_space") and hasattr(env, "num_envs"):
        raise UserError(
            f"{name} gave a {kind} of {env.num_envs} environments; a factory gives one, Batchwright makes the copies.",
            ["return one gymnasium.Env", "--num-envs sets how many copies are stepped"],
        )
    if not hasattr(env, "observation_space") or not hasattr(env, "action_space"):
        raise UserError(f"{name} gave a {kind}, which is not a gymnasium.Env.")


def simulator(env: Any) -> str:
    """`mujoco` or `box2d` where one moves an environment, or nothing."""
    bare = getattr(env, "unwrapped", None)
    if type(getattr(bare, "model", None)).__module__.startswith("mujoco"):
        return "mujoco"
    return "box2d" if type(getattr(bare, "world", None)).__module__.startswith("Box2D") else ""


def stacked_frames(env: Any) -> int:
    """Frames that an observation stacks by Gymnasium's own wrapper, 1 where none does or another changes its output."""
    wrappers = _gymnasium().wrappers
    while isinstance(env, _gymnasium().Wrapper):
        if isinstance(env, wrappers.FrameStackObservation):
            return int(env.stack_size) if isinstance(env.observation_space, _gymnasium().spaces.Box) else 1
        if isinstance(env, _gymnasium().ObservationWrapper):
            return 1
        env = env.env
    return 1


def gymnasium_names() -> list[tuple[str, str]]:
    """Every id of Gymnasium's registry with a note: empty, or what keeps it from being made."""
    return sorted((name, _note(spec)) for name, spec in _gymnasium().registry.items())


def registered_spec(name: str) -> Any | None:
    """Gymnasium's registration of `Id` or `module:Id`, or None; `module` is imported first."""
    gymnasium, name = _gymnasium(), split_name(name)[0]
    module, _, env_id = name.rpartition(":")
    if module:
        import_user_module(module)
    elif (package := _NAMESPACE_PACKAGES.get(name.split("/", maxsplit=1)[0])) and name not in gymnasium.registry:
        import_namespace(package, name)
    elif name not in gymnasium.registry:
        for prefix, owner in _PREFIX_PACKAGES.items():
            if name.startswith(prefix):
                import_namespace(owner, name)
    return gymnasium.registry.get(env_id)


def package_of(name: str) -> str | None:
    """The package that registers an id which only `package:Id` finds, as far as it is known by how ids begin."""
    return next((package for package, starts in _ID_PACKAGES.items() if name.startswith(starts)), None)


def has_vector_form(name: str) -> bool:
    """Whether the environment has a vectorised form of its own."""
    if user_factory(name) is not None:
        return False
    spec = registered_spec(name)
    return spec is not None and spec.vector_entry_point is not None


def user_factory(name: str) -> Callable[..., Any] | None:
    """The callable that `path/to/file.py:factory` or `module:factory` names; None for any other name."""
    passed = passed_factory(name)
    if passed is not None:
        return passed
    location, _, attribute = split_name(name)[0].rpartition(":")
    found: Callable[..., Any] | None = None
    if location.endswith(".py"):
        module = load_user_file(location)
        found = getattr(module, attribute, None)
        if not callable(found):
            names = names_in_file(location)
            close = list(dict.fromkeys([*did_you_mean(attribute, names), *names]))[:3]
            raise UserError(f"{location} has no callable named {attribute!r}.", [f"{location}:{n}" for n in close])
    elif location and attribute.isidentifier():
        found = getattr(import_user_module(location), attribute, None)
        if not callable(found):
            found = parallel_factory(location, attribute)
    return found if callable(found) else None


def load_user_file(location: str) -> ModuleType:
    """The module of a Python file, run once per process; its folder can be imported from."""
    path = Path(location).expanduser().resolve()
    if not path.is_file():
        raise UserError(f"there is no file {location}.")
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    module_name = f"batchwright_user_{path.stem}_{digest}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None  # a .py file always has a loader
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except RAISED as error:
        del sys.modules[module_name]
        raise UserError(f"{location} could not be run: {failure(error)}") from error
    return module


def names_in_file(location: str) -> list[str]:
    """Functions and classes that a Python file defines, read without running it; likely factories first."""
    try:
        tree = ast.parse(Path(location).expanduser().read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    return sorted(names, key=lambda name: not (name.startswith("make") or "env" in name.lower()))


def import_user_module(module: str) -> ModuleType:
    """The imported module of `module:Id`, looked for in the working directory too."""
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(module)
    except RAISED as error:
        missing = module.split(".", maxsplit=1)[0] in PACKAGES and isinstance(error, ImportError)
        raise UserError(f"could not import {module!r}: {failure(error)}", [EXTRA] if missing else []) from error


def import_namespace(package: str, name: str) -> None:
    """Registers the environments of a package that `name` belongs to, such as ale_py for ALE/..."""
    try:
        _gymnasium().register_envs(importlib.import_module(package))
    except ImportError as error:
        fix = f"pip install {package.replace('_', '-')}"
        raise UserError(f"{name} needs {package}, which is not installed.", (fix,)) from error


def _note(spec: Any) -> str:
    entry = spec.entry_point
    if callable(entry):
        return "cannot be made: deprecated" if entry.__name__.startswith("_raise") else ""
    for family, (package, fix) in _NEEDS.items():
        if str(entry).startswith(family) and importlib.util.find_spec(package) is None:
            return f"needs {package}: {fix}"
    return ""


def _could_not_make(name: str, error: BaseException) -> UserError:
    return UserError(f"{name} could not be made: {failure(error)}")
