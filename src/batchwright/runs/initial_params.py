"""Starts a run from the parameters and normalisers of another one (`--init-from`)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.config.schema import RECORDED
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import read_json
from batchwright.planning.plan import Plan, plan_from_dict
from batchwright.runs.checkpoint_choice import BEST, LAST, load_checkpoint
from batchwright.runs.engine_learner import digest
from batchwright.runs.learner import StateT

POLICY = ".train.params"
"""Where every learner's checkpoint keeps the parameters of the policy that acts."""
NORMALISERS = (
    ".obs.",
    ".rewards.",
    ".targets.",
    ".components.rewards.",
    ".components.returns.",
    ".components.outputs.",
)
PARTS = (".train.", ".reward_model.params", *NORMALISERS)
FRESH = ("opt_state", ".updates", ".learning_rate_factor", ".products")
"""Of the learner's own arrays, those that begin anew: a new run has its own optimiser and schedules."""
CARRIED_SETTINGS = ("algo", "hidden", "activation", "normalize_obs", "normalize_rewards", "popart")
"""Settings that the parameters were learned with: the new run takes them over unless it states others."""


@dataclass(frozen=True)
class InitialParams:
    """The arrays of a checkpoint that another run starts from."""

    run: Path
    iteration: int
    plan: Plan
    arrays: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        """The run and the iteration, as `--init-from` takes them."""
        return f"{self.run}@{self.iteration}"

    @property
    def digest(self) -> str:
        """A fingerprint of the policy's parameters."""
        return digest(self.arrays[POLICY])


def read_initial(text: str) -> InitialParams:
    """What `RUN`, `RUN@best`, `RUN@last` or `RUN@iteration` names; runs no code of that run."""
    path, at, which = text.rpartition("@")
    if not at or not (which in (BEST, LAST) or which.isdigit()):
        path, which = text, LAST
    run = RunDir.open(Path(path).expanduser().absolute())
    try:
        plan = plan_from_dict(read_json(run.plan_path))
    except (OSError, ValueError) as error:
        raise UserError(f"{run.plan_path} cannot be read: {error}.", ["--init-from another run"]) from None
    if plan.regime == RECORDED:
        raise UserError(f"{run} is the run of a reward model, not of a policy.", ["--init-from another run"])
    try:
        arrays, manifest = load_checkpoint(run, which, lambda said: warnings.warn(said, stacklevel=2))
    except UserError as error:
        fixes = [fix.replace("--checkpoint ", f"--init-from {run}@") for fix in error.fixes]
        raise UserError(error.message, fixes) from None
    if POLICY not in arrays:
        raise UserError(f"the checkpoint of {run} has no {POLICY}.", ["--init-from another run"])
    return InitialParams(run.path, manifest["iteration"], plan, arrays)


def carried_settings(initial: InitialParams) -> dict[str, object]:
    """The settings that the parameters were learned with, by name."""
    plan = initial.plan
    found = {name: plan.get(name) for name in CARRIED_SETTINGS if plan.get(name) is not None}
    return {**found, "algo": plan.algo}


def init_state(state: StateT, initial: InitialParams, env: str) -> tuple[StateT, list[str]]:
    """The fresh state with the parameters and normalisers of a checkpoint, and sentences about what was taken."""
    paths, structure = jax.tree_util.tree_flatten_with_path(state)
    taken: dict[str, int] = {}
    unfit, leaves = [], []
    for path, fresh in paths:
        name = jax.tree_util.keystr(path)
        stored = initial.arrays.get(name) if _is_carried(name) else None
        if stored is None:
            leaves.append(fresh)
            continue
        if stored.shape != np.shape(fresh) or stored.dtype.kind != np.asarray(fresh).dtype.kind:
            unfit.append(f"{name} {list(stored.shape)}, here {list(np.shape(fresh))}")
            leaves.append(fresh)
            continue
        leaves.append(jnp.asarray(stored) if isinstance(fresh, jax.Array) else stored.astype(np.asarray(fresh).dtype))
        taken[name] = int(np.size(stored))
    if POLICY not in taken:
        raise _refuse_policy(state, initial, env)
    return jax.tree_util.tree_unflatten(structure, leaves), _sentences(initial, taken, unfit)


def _is_carried(name: str) -> bool:
    return name.startswith(PARTS) and not any(part in name for part in FRESH)


def _sentences(initial: InitialParams, taken: dict[str, int], unfit: list[str]) -> list[str]:
    numbers = sum(size for name, size in taken.items() if not name.startswith(NORMALISERS))
    seen = int(initial.arrays.get(".obs.count", 0)) if ".obs.count" in taken else 0
    parts = [f"{numbers:,} parameters"]
    parts += [f"statistics of {seen:,} observations"] if seen else []
    said = [f"starts from {initial.run} after iteration {initial.iteration}: {', '.join(parts)}; the optimiser is new"]
    if unfit:
        said.append(f"does not fit and begins anew: {'; '.join(unfit)}")
    return said


def _refuse_policy(state: StateT, initial: InitialParams, env: str) -> UserError:
    paths, _ = jax.tree_util.tree_flatten_with_path(state)
    shapes = {jax.tree_util.keystr(path): np.shape(leaf) for path, leaf in paths}
    theirs, ours = initial.arrays[POLICY].size, int(np.prod(shapes.get(POLICY, (0,))))
    their_inputs, inputs = (np.size(found) for found in (initial.arrays.get(".obs.mean", ()), _obs_mean(state)))
    what = f"the policy of {initial.run} ({initial.plan.task.name}, {initial.plan.algo}) has {theirs:,} parameters"
    text = f"{what} for {their_inputs} inputs; that of {env} with these settings has {ours:,} for {inputs}."
    return UserError(text, ["--init-from a run with the same spaces", *_network_fixes(initial)])


def _obs_mean(state: StateT) -> np.ndarray:
    paths, _ = jax.tree_util.tree_flatten_with_path(state)
    found = [np.asarray(leaf) for path, leaf in paths if jax.tree_util.keystr(path) == ".obs.mean"]
    return found[0] if found else np.zeros(0)


def _network_fixes(initial: InitialParams) -> list[str]:
    hidden = initial.plan.get("hidden")
    return [f"--algo {initial.plan.algo} --hidden {hidden}"] if isinstance(hidden, str) and hidden[:1].isdigit() else []
