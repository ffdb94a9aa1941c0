"""Rewards of several named components: which an environment has, and which of them are trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from batchwright.core.errors import UserError, unknown

NO_COMPONENTS = "none"
"""What `--components` says to train on the plain sum."""


def chosen_components(offered: Sequence[str], wanted: Sequence[str] | None, where: str) -> tuple[str, ...]:
    """The components of a vector reward that are used: all when nothing is stated, none for `none`."""
    if wanted is None:
        return tuple(offered)
    if tuple(wanted) == (NO_COMPONENTS,):
        return ()
    for name in wanted:
        if name not in offered:
            if not offered:
                raise UserError(
                    f"the reward of {where} has no component {name!r}: it is one number.", ["--engine gymnasium"]
                )
            raise unknown(f"reward component of {where}", name, offered, "--components")
    return tuple(wanted)


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
