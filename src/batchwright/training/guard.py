"""Non-finite numbers: found where they arise, named, dumped for replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from batchwright.data.rollout import Rollout
from batchwright.nets.policy import Policy

MOST_BAD_ITERATIONS = 3
"""After so many rolled-back iterations in a row the run stops: it will not mend by itself."""


def find_bad(
    rollout: Rollout, told: dict[str, Any], flat: Any, policy: Policy, column: str = "environment"
) -> str | None:
    """What is not finite and where it began, or None where all is well; `column` is what stands side by side."""
    if not bool(told["finite_rollout"]):
        for name, leaves in (
            ("observation", jax.tree_util.tree_leaves_with_path(rollout.obs)),
            ("reward", [((), rollout.reward)]),
        ):
            for path, leaf in leaves:
                array = np.asarray(leaf)
                where = np.argwhere(~np.isfinite(array)) if array.dtype.kind == "f" else np.empty((0, 2), int)
                if len(where):
                    step, number, *rest = (int(i) for i in where[0])
                    part = f"{jax.tree_util.keystr(path)}{rest}" if rest or path else ""
                    place = f"{column} {number} at step {step}"
                    return f"{name}{part} of {place} of the rollout is {array[tuple(where[0])]}"
    if not bool(told["finite_parameters"]):
        array = np.asarray(flat)
        index = int(np.argwhere(~np.isfinite(array))[0][0])
        names = [name for name in ("loss", "gradient_norm") if not np.isfinite(np.asarray(told[name]))]
        cause = f" (not finite: {', '.join(names)})" if names else ""
        return f"parameter {policy.name_of(array, index)} became {array[index]} in the update{cause}"
    return None


def dump(folder: Path, iteration: int, rollout: Rollout, flat: Any) -> Path:
    """The rollout and the parameters before it, as plain arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"iteration-{iteration:09d}.npz"
    named = {jax.tree_util.keystr(p): np.asarray(leaf) for p, leaf in jax.tree_util.tree_leaves_with_path(rollout)}
    np.savez(path, parameters=np.asarray(flat), **named)  # type: ignore[arg-type]
    return path
