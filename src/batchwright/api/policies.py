"""Trained policies: to call, and as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.api.jax_setup import set_up_jax
from batchwright.api.stored_runs import pass_again
from batchwright.core.errors import unknown

if TYPE_CHECKING:
    from batchwright.nets.policy import NetworkMaker
    from batchwright.policies.trained_policy import TrainedPolicy


def load(
    run: str | Path,
    network: NetworkMaker | None = None,
    *,
    trust: bool = False,
    on_warning: Callable[[str], None] | None = None,
    checkpoint: int | str = "last",
    env: Any = None,
) -> TrainedPolicy:
    """The trained policy of a run: call it with an observation, get an action.

    `checkpoint` is "last", "best" (by its evaluations during training) or the number of an iteration. `trust` lets code
    run that the run of somebody else names as its environment. `on_warning` hears of damaged checkpoints; without it
    they are Python warnings. `env` passes an environment again that the run was given as an object.
    """
    set_up_jax()
    pass_again(run, env)
    from batchwright.policies.trained_policy import load as load_policy

    return load_policy(run, network, trust, on_warning, checkpoint)


def export(
    run: str | Path,
    to: str = "onnx",
    out: str | Path | None = None,
    *,
    checkpoint: int | str = "last",
    trust: bool = False,
) -> list[Path]:
    """Writes the policy of a run as one file that runs without Batchwright; returns the files.

    `to` is "onnx" or "numpy"; `out` is `policy.onnx` or `policy.npz` in the run directory when not stated. Observation
    normalisation, heads, masks and the scaling of actions are inside.
    """
    set_up_jax()
    from batchwright.policies.export import FORMATS, export_policy

    if to not in FORMATS:
        raise unknown("format", to, FORMATS, "--to")
    policy = load(run, trust=trust, checkpoint=checkpoint)
    path = Path(out or Path(run) / f"policy{FORMATS[to]}")
    if not policy.groups:
        return export_policy(policy, to, path)
    files = [export_policy(one, to, path.with_stem(f"{path.stem}-{name}")) for name, one in policy.groups.items()]
    return list(dict.fromkeys(file for part in files for file in part))
