"""EnvPool's environments: names, spaces, pools; the one file that imports envpool (which takes 2 s)."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.machine import usable_cores
from batchwright.envs.spaces import Box, DictSpace, Spec, TupleSpace, from_gymnasium

# Limits at or above this mean "none": EnvPool writes INT_MAX.
NO_LIMIT_STEPS = 2**31 - 1
# One step takes about a microsecond in these: handing it to another thread costs more.
CHEAP_FAMILIES = ("classic_control", "toy_text", "minigrid", "jumanji", "highway")


def is_installed() -> bool:
    """Whether EnvPool is here, without importing it."""
    return importlib.util.find_spec("envpool") is not None


def _envpool() -> ModuleType:
    try:
        import envpool
    except ImportError as error:
        raise UserError("envpool is not installed.", ('pip install "batchwright[envpool]"',)) from error
    module: ModuleType = envpool
    return module


def envpool_names() -> list[str]:
    """Every id EnvPool knows."""
    return sorted(_envpool().list_all_envs())


def knows(name: str) -> bool:
    """Whether EnvPool is installed and has this id; imports EnvPool."""
    return is_installed() and name in _envpool().list_all_envs()


def family(name: str) -> str:
    """The group of environments an id belongs to, such as `classic_control` or `mujoco`."""
    _envpool()
    from envpool.registration import registry

    return str(registry.specs[name][0]).split(".")[1]


def simulator(name: str) -> str:
    """`mujoco` or `box2d` where one moves an environment, or nothing."""
    return found if (found := family(name)) in ("mujoco", "box2d") else ""


def pool_spec(name: str, env_kwargs: Mapping[str, Any]) -> Any:
    """EnvPool's description of an environment; one for several players is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spec = _envpool().make_spec(name, **env_kwargs)
    except Exception as error:
        raise UserError(f"{name} could not be made by EnvPool: {type(error).__name__}: {error}") from error
    players = spec.config.max_num_players
    if players != 1:
        raise UserError(f"{name} has {players} players; Batchwright trains environments with one.")
    return spec


def spaces_of(spec: Any, name: str) -> tuple[Spec, Spec]:
    """Observation and action specs, with EnvPool's numeric-limit bounds read as unbounded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        observation = spec.gymnasium_observation_space
        action = spec.gymnasium_action_space
    return (
        _unbounded(from_gymnasium(observation, f"{name}'s observation")),
        _unbounded(from_gymnasium(action, f"{name}'s action")),
    )


def info_keys(name: str) -> list[str]:
    """Entries of info that EnvPool gives for an environment."""
    prefix = "info:"
    return [key.removeprefix(prefix) for key in pool_spec(name, {}).state_array_spec if key.startswith(prefix)]


def time_limit_steps(spec: Any) -> int | None:
    """The time limit of the environment, None when it has none."""
    steps = int(getattr(spec.config, "max_episode_steps", 0))
    return steps if 0 < steps < NO_LIMIT_STEPS else None


def reward_threshold(spec: Any) -> float | None:
    """The return at which the task counts as solved, when EnvPool states one."""
    value = getattr(spec.config, "reward_threshold", None)
    return None if value is None else float(value)


def stacked_frames(spec: Any, observation: Spec) -> int:
    """Frames that an observation stacks, newest last; 1 where it does not."""
    frames = int(getattr(spec.config, "stack_num", 1))
    stacks = isinstance(observation, Box) and len(observation.shape) == 3 and observation.shape[0] % frames == 0
    return frames if stacks else 1


@contextmanager
def without_precision_warnings() -> Iterator[None]:
    """Hides Gymnasium's remark on the bounds of EnvPool's own spaces, which no user can change."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*Box (low|high)'s precision lowered by casting", UserWarning)
        yield


def make_pool(name: str, seeds: Sequence[int], num_threads: int, env_kwargs: Mapping[str, Any]) -> Any:
    """A pool of len(seeds) environments in Gymnasium's form, one seed each, always stepped together."""
    try:
        return _envpool().make(
            name,
            env_type="gymnasium",
            num_envs=len(seeds),
            seed=list(seeds),
            num_threads=num_threads,
            **env_kwargs,
        )
    except Exception as error:
        raise UserError(f"{name} could not be made by EnvPool: {type(error).__name__}: {error}") from error


def _unbounded(spec: Spec) -> Spec:
    """The same spec where EnvPool's "no lower bound", the smallest positive number, is -inf."""
    if isinstance(spec, DictSpace):
        return DictSpace(tuple((name, _unbounded(part)) for name, part in spec.items))
    if isinstance(spec, TupleSpace):
        return TupleSpace(tuple(_unbounded(part) for part in spec.items))
    if not isinstance(spec, Box) or spec.dtype.kind != "f":
        return spec
    low = np.where(spec.low == np.finfo(spec.dtype).tiny, -np.inf, spec.low).astype(spec.dtype)
    return Box(spec.shape, spec.dtype, low, spec.high)


def default_threads(name: str, num_envs: int) -> int:
    """One thread for cheap environments, else as many as there are cores and environments."""
    return 1 if family(name) in CHEAP_FAMILIES else min(usable_cores(), num_envs)
