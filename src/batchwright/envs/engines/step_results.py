"""What `reset` and `step` of a Gymnasium environment returned, read with care: what is wrong is said with the fix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from batchwright.core.errors import UserError

PLAIN_NUMBERS = frozenset((float, int, np.float32, np.float64))
"""Types of rewards that need no second look."""


def one_number(reward: Any, who: str) -> float:
    """A reward as one number: of any shape with one entry; more entries, text and None are refused."""
    try:
        array = np.asarray(reward, np.float64)
    except (TypeError, ValueError):
        array = None
    if reward is None or array is None:
        raise UserError(
            f"{who}: step returned {reward!r} of type {type(reward).__name__} as the reward; it must be a number.",
            ["return float(reward) from step"],
        )
    if array.size != 1:
        raise UserError(
            f"{who}: step returned a reward of shape {array.shape}; it must be one number.",
            [
                f"for components: self.reward_space = gymnasium.spaces.Box(-np.inf, np.inf, {array.shape})",
                "return the sum from step",
            ],
        )
    return float(array.reshape(()))


def info_of(info: Any, who: str) -> Mapping[str, Any]:
    """The info of a step or reset; None counts as empty."""
    if info is None:
        return {}
    if not isinstance(info, Mapping):
        raise UserError(
            f"{who}: info is {type(info).__name__}; it must be a dict.", ["return {} where there is nothing to say"]
        )
    return info


def reset_parts(returned: Any, who: str) -> tuple[Any, Mapping[str, Any]]:
    """(observation, info) of what `reset` returned."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise UserError(
            f"{who}: reset returned {_shown(returned)}; Gymnasium's reset returns (observation, info).",
            ["return observation, {} from reset"],
        )
    return returned[0], info_of(returned[1], who)


def refuse_step(returned: Any, error: BaseException, who: str) -> UserError:
    """The error for what `step` returned without raising, and could not be read."""
    count = len(returned) if isinstance(returned, tuple | list) else 1
    if count != 5:
        old = ": (observation, reward, done, info) is the old Gym interface" if count == 4 else ""
        return UserError(
            f"{who}: step returned {_shown(returned)}{old}; Gymnasium's step returns 5 values.",
            ["return observation, reward, terminated, truncated, info from step"],
        )
    return UserError(
        f"{who}: what step returned cannot be read: {type(error).__name__}: {error}.",
        ["return observation, reward, terminated, truncated, info: an array, a number, two bools, a dict"],
    )


def _shown(returned: Any) -> str:
    if isinstance(returned, tuple | list):
        return f"{len(returned)} values"
    return f"one {type(returned).__name__}"
