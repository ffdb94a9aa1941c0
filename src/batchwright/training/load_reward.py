"""A trained reward model to call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.envs import spaces
from batchwright.envs.spaces import Discrete, Leaf, MultiDiscrete
from batchwright.training import checkpoint
from batchwright.training.reward_model import ROWS_AT_ONCE, ModelSpec, RewardModel, Scales
from batchwright.training.reward_run import MODEL


class LearnedReward:
    """Call it with observations, actions and next observations: one reward per step, on the scale of one step.

    Each is an array [B, ...], or a dict of them where there are several keys; without the leading axis it is one step.
    """

    def __init__(self, model: RewardModel, params: Any, scales: Scales, iteration: int) -> None:
        self.spec, self.iteration = model.spec, iteration
        self._model, self._params, self._scales = model, params, scales

    def __call__(self, obs: Any, action: Any, next_obs: Any) -> np.ndarray:
        """[B] float32; a number without axes for one step."""
        parts = [
            _arrays(obs, self.spec.observation, "obs"),
            _arrays(action, self.spec.action, "action"),
            _arrays(next_obs, self.spec.observation, "next_obs"),
        ]
        leads = {lead for _, lead in parts}
        if len(leads) > 1:
            raise UserError(
                f"obs, action and next_obs have {', '.join(str(lead) for _, lead in parts)} leading axes; "
                "they must be the same.",
                ["reward(obs [B, ...], action [B, ...], next_obs [B, ...])"],
            )
        (lead,) = leads
        seen, taken, after = (values for values, _ in parts)
        count = lead[0] if lead else 1
        flat = np.concatenate([np.asarray(v, np.float32).reshape(count, -1) for v in taken.values()], -1)
        rows = (_with_rows(seen, lead), flat, _with_rows(after, lead))
        reward = self._predict(rows, count)
        return reward if lead else reward[0]

    def _predict(self, rows: Any, count: int) -> np.ndarray:
        """In parts of at most so many rows, so that memory stays bounded."""
        at_once = ROWS_AT_ONCE[self.spec.images]
        found = [np.zeros(0, np.float32)]
        for start in range(0, count, at_once):
            part = jax.tree.map(lambda x, start=start: x[start : start + at_once], rows)
            found.append(np.asarray(self._model.predict(self._params, self._scales, *part)))
        return np.concatenate(found)


def _with_rows(values: dict[str, np.ndarray], lead: tuple[int, ...]) -> dict[str, np.ndarray]:
    return values if lead else {key: value[None] for key, value in values.items()}


def _arrays(given: Any, leaves: Mapping[str, Leaf], name: str) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """(stored arrays by key, their leading axes); another shape or a missing key is refused with what is expected."""
    if not isinstance(given, Mapping):
        if len(leaves) > 1:
            raise UserError(
                f"{name} must be a dict with {', '.join(leaves)}.", [f"{name}={{{next(iter(leaves))!r}: ...}}"]
            )
        given = {next(iter(leaves)): given}
    missing = [key for key in leaves if key not in given]
    if missing:
        raise UserError(f"{name} has no {', '.join(missing)}; it has {', '.join(map(str, given)) or 'nothing'}.", [])
    found: dict[str, np.ndarray] = {}
    leads: set[tuple[int, ...]] = set()
    for key, leaf in leaves.items():
        value, shape = np.asarray(given[key]), spaces.leaf_shape(leaf)
        extra = value.ndim - len(shape)
        if extra not in (0, 1) or value.shape[extra:] != shape:
            wanted = f"[B{''.join(f', {side}' for side in shape)}]"
            raise UserError(f"{name} {key!r} has shape {list(value.shape)}; {wanted} is expected.", [])
        if spaces.is_image(leaf) and value.dtype != np.uint8:
            raise UserError(f"{name} {key!r} holds {value.dtype}; images are uint8, 0 to 255.", [])
        start = np.asarray(leaf.start or 0) if isinstance(leaf, Discrete | MultiDiscrete) else 0
        found[key] = np.asarray(value - start if np.any(start) else value, spaces.stored_dtype(leaf))
        leads.add(value.shape[:extra])
    if len(leads) > 1:
        raise UserError(f"the keys of {name} have different numbers of rows: {sorted(leads)}.", [])
    return found, leads.pop()


def load_reward(run: str | Path) -> LearnedReward:
    """The reward model of a run's last good checkpoint; the recording is not needed, and no code of a file is run."""
    directory = RunDir.open(run)
    model = RewardModel(_read_spec(directory))
    blank = model.start(0, model.no_scales())
    found = checkpoint.load_last(directory.checkpoints, blank, lambda text: warnings.warn(text, stacklevel=4))
    if found is None:
        raise UserError(f"{directory} has no checkpoint yet.", [f"batchwright resume {directory}"])
    state, manifest, _ = found
    params, scales = jax.tree.map(jnp.asarray, (state.params, state.scales))
    return LearnedReward(model, params, scales, manifest["iteration"])


def _read_spec(run: RunDir) -> ModelSpec:
    """What the model takes, by the run's own file."""
    try:
        return ModelSpec.from_json((run.path / MODEL).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{run} is not the run of a reward model: it has no {MODEL}.",
            ["batchwright rrd DATA", "batchwright.load(run)"],
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{run.path / MODEL} is damaged: {error}.", ["train anew in another --run-dir"]) from None
