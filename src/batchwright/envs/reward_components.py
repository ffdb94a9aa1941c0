"""Rewards of several named components: which an environment has, and which of them are trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batchwright.core.errors import UserError, unknown

NO_COMPONENTS = ("none",)
"""The value of `--components` with which the plain sum is trained on."""
REST = "rest"
"""The component that holds what the keys of info named beside it leave out of the reward."""
NUMBERS = (int, float, np.number)


def chosen_components(offered: Sequence[str], wanted: Sequence[str] | None, where: str) -> tuple[str, ...]:
    """The components of a vector reward that are used: all when nothing is stated, none for `none`."""
    if wanted is None:
        return tuple(offered)
    if tuple(wanted) == NO_COMPONENTS:
        return ()
    for name in wanted:
        if name not in offered:
            if not offered:
                raise UserError(
                    f"the reward of {where} has no component {name!r}: it is one number.", ["--engine gymnasium"]
                )
            raise unknown(f"reward component of {where}", name, offered, "--components")
    return tuple(wanted)


@dataclass(frozen=True)
class RewardParts:
    """Which components one step of an environment gives, and where it gives them."""

    names: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    """In a vector reward; empty where components are keys of info."""
    size: int = 0
    """Of the vector reward; 0 where the reward is one number."""

    def split(self, reward: Any, info: Mapping[str, Any], who: str) -> tuple[Any, Any]:
        """(the reward as one number, its components [K]) of one step."""
        if self.size:
            vector = np.asarray(reward, np.float32)
            if vector.shape != (self.size,):
                raise UserError(f"{who}: the reward has shape {vector.shape}, its reward_space says ({self.size},).")
            return vector.sum(), vector[list(self.places)]
        paid = [0.0 if name == REST else _of_info(info, name, who) for name in self.names]
        if REST in self.names:
            paid[self.names.index(REST)] = float(reward) - sum(paid)
        return reward, paid


NO_PARTS = RewardParts()


def reward_parts(offered: Sequence[str], wanted: Sequence[str] | None, where: str) -> RewardParts:
    """How to read the wanted components: from a vector reward where the environment has one, else from info."""
    if offered:
        names = chosen_components(offered, wanted, where)
        return RewardParts(names, tuple(offered.index(name) for name in names), len(offered))
    if wanted is None or tuple(wanted) == NO_COMPONENTS:
        return NO_PARTS
    return RewardParts(tuple(wanted))


def _of_info(info: Mapping[str, Any], name: str, who: str) -> float:
    try:
        return float(info[name])
    except (KeyError, TypeError, ValueError):
        raise missing_key(info, name, who) from None


def missing_key(info: Mapping[str, Any], name: str, who: str) -> UserError:
    """The error for a step whose info lacks a component, with the numbers that it has."""
    numbers = [str(key) for key, value in info.items() if np.ndim(value) == 0 and isinstance(value, NUMBERS)]
    has = f"it has {', '.join(sorted(numbers))}" if numbers else "it has no numbers"
    fixes = [f"--components {' '.join(sorted(numbers))}"] if numbers else ["--components none"]
    return UserError(f"{who}: info has no number {name!r} in this step; {has}.", fixes)


def success_of(info: Mapping[str, Any]) -> float:
    """1.0 or 0.0 from `info["is_success"]` or `info["success"]` of an episode's last step; NaN where neither is."""
    success = info.get("is_success", info.get("success"))
    return math.nan if success is None else float(bool(success))


def vector_names(env: Any) -> tuple[str, ...]:
    """Names of a made environment's vector reward (MO-Gymnasium's `reward_space`); empty where it is one number."""
    bare = getattr(env, "unwrapped", env)
    space = getattr(bare, "reward_space", None)
    shape = getattr(space, "shape", None)
    if not shape:
        return ()
    names = getattr(bare, "reward_names", None) or getattr(bare, "reward_components", None)
    if names is None:
        return tuple(f"reward[{k}]" for k in range(int(shape[0])))
    names = tuple(str(name) for name in names)
    if len(shape) != 1 or len(names) != shape[0] or len(set(names)) != len(names):
        raise UserError(
            f"reward_space has shape {tuple(shape)}, and its names are {names}: one name per component is needed."
        )
    return names
