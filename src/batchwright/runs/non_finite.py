"""Non-finite numbers: where they are first found, and a dump of the iteration for debugging."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from batchwright.core.files import write_atomically
from batchwright.core.safe_open import make_folder
from batchwright.data.rollout import Rollout
from batchwright.nets.param_roles import param_name
from batchwright.nets.policy import Policy


def locate_in_rollout(rollout: Rollout, column: str = "environment", agents: tuple[str, ...] = ()) -> str:
    """The first non-finite number of a rollout that has one; `column` names what lies side by side."""
    for name, leaves in (
        ("observation", jax.tree_util.tree_leaves_with_path(rollout.obs)),
        ("reward", [((), rollout.reward)]),
    ):
        for path, leaf in leaves:
            array = np.asarray(leaf)
            where = np.argwhere(~np.isfinite(array)) if array.dtype.kind == "f" else np.empty((0, 2), int)
            if len(where):
                step, number, *index = (int(i) for i in where[0])
                part = f"{jax.tree_util.keystr(path)}{index}" if index or path else ""
                place = f"{column} {number // max(1, len(agents))} at step {step}"
                place = f"{agents[number % len(agents)]} of {place}" if agents else place
                return f"{name}{part} of {place} of the rollout is {array[tuple(where[0])]}"
    raise ValueError("all numbers of the rollout are finite")


def locate_in_params(params: jax.Array, policy: Policy, metrics: Mapping[str, float]) -> str:
    """The first non-finite parameter of a policy that has one, and which losses are not finite either."""
    array = np.asarray(params)
    index = int(np.argwhere(~np.isfinite(array))[0][0])
    names = [name for name in ("loss", "gradient_norm") if not np.isfinite(metrics.get(name, 0.0))]
    cause = f" (not finite: {', '.join(names)})" if names else ""
    return f"parameter {param_name(policy, array, index)} became {array[index]} in the update{cause}"


def dump(folder: Path, iteration: int, rollout: Rollout, params_before: jax.Array) -> Path:
    """Writes the rollout and the parameters before its update as plain arrays; returns the file."""
    make_folder(folder, 1)
    path = folder / f"iteration-{iteration:09d}.npz"
    named = {jax.tree_util.keystr(p): np.asarray(leaf) for p, leaf in jax.tree_util.tree_leaves_with_path(rollout)}
    content = io.BytesIO()
    np.savez(content, parameters=np.asarray(params_before), **named)  # type: ignore[arg-type]
    write_atomically(path, content.getvalue(), 2)
    return path
