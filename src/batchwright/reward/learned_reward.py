"""Loads a trained reward model, which is called with steps and returns rewards."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from batchwright.config.schema import REPLAY
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import read_plain
from batchwright.core.trust import check_trust
from batchwright.envs import spaces
from batchwright.envs.catalog import describe
from batchwright.envs.spaces import Discrete, Leaf, MultiDiscrete
from batchwright.nets.policy import unraveller
from batchwright.planning.network_plan import hidden_sizes
from batchwright.reward.reward_model import ROWS_AT_ONCE, RewardModel, Scales
from batchwright.reward.reward_spec import SPEC_FILE, ModelSpec
from batchwright.reward.reward_state import start_state
from batchwright.runs import checkpoints
from batchwright.runs.launch import open_run
from batchwright.store.recorded.bank import Steps

Values = ArrayLike | Mapping[str, ArrayLike]
"""One array, or arrays by key."""


class LearnedReward:
    """Call it with observations, actions and next observations: one reward per step, on the scale of one step.

    Each is an array [B, ...], or a dict of them where there are several keys; without the leading axis it is one step.
    """

    def __init__(self, model: RewardModel, params: optax.Params, scales: Scales, iteration: int) -> None:
        self.spec, self.iteration = model.spec, iteration
        self._model, self._params, self._scales = model, params, scales

    def __call__(self, obs: Values, action: Values, next_obs: Values) -> np.ndarray:
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
        obs_arrays, action_arrays, next_obs_arrays = (arrays for arrays, _ in parts)
        count = lead[0] if lead else 1
        action_BD = np.concatenate([np.asarray(v, np.float32).reshape(count, -1) for v in action_arrays.values()], -1)
        steps = Steps(_with_rows(obs_arrays, lead), action_BD, _with_rows(next_obs_arrays, lead))
        reward = self._predict(steps, count)
        return reward if lead else reward[0]

    def _predict(self, steps: Steps, count: int) -> np.ndarray:
        """Predicts at most `ROWS_AT_ONCE` rows per call, so that memory stays bounded."""
        at_once = ROWS_AT_ONCE[self.spec.images]
        rewards = [np.zeros(0, np.float32)]
        for start in range(0, count, at_once):
            part = jax.tree.map(lambda x, start=start: x[start : start + at_once], steps)
            rewards.append(np.asarray(self._model.predict(self._params, self._scales, part)))
        return np.concatenate(rewards)


def _with_rows(values: dict[str, np.ndarray], lead: tuple[int, ...]) -> dict[str, np.ndarray]:
    return values if lead else {key: value[None] for key, value in values.items()}


def _arrays(given: Values, leaves: Mapping[str, Leaf], name: str) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """(arrays of the stored types by key, their leading axes); refuses other shapes and missing keys."""
    if not isinstance(given, Mapping):
        if len(leaves) > 1:
            raise UserError(
                f"{name} must be a dict with {', '.join(leaves)}.", [f"{name}={{{next(iter(leaves))!r}: ...}}"]
            )
        given = {next(iter(leaves)): given}
    missing = [key for key in leaves if key not in given]
    if missing:
        raise UserError(f"{name} has no {', '.join(missing)}; it has {', '.join(map(str, given)) or 'nothing'}.", [])
    arrays: dict[str, np.ndarray] = {}
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
        arrays[key] = np.asarray(value - start if np.any(start) else value, spaces.stored_dtype(leaf))
        leads.add(value.shape[:extra])
    if len(leads) > 1:
        raise UserError(f"the keys of {name} have different numbers of rows: {sorted(leads)}.", [])
    return arrays, leads.pop()


def load_reward(run: str | Path, trust: bool = False) -> LearnedReward:
    """The reward model of a run's last good checkpoint; it needs no recording.

    Of a run in an environment, its reward network: on its own (`batchwright rrd ENV`) or beside a policy. That asks the
    environment for its spaces, whose code runs only where it is trusted. A damaged checkpoint is passed over with a
    Python warning.
    """
    directory = RunDir.open(run)
    if not (directory.path / SPEC_FILE).exists():
        return _load_online(directory, trust)
    model = RewardModel(_read_spec(directory))
    template = start_state(model, 0, model.unit_scales())
    found = checkpoints.load_last(directory.checkpoints, template, lambda text: warnings.warn(text, stacklevel=4))
    if found is None:
        raise UserError(f"{directory} has no checkpoint yet.", [f"batchwright resume {directory}"])
    state, manifest, _ = found
    params, scales = jax.tree.map(jnp.asarray, (state.params, state.scales))
    return LearnedReward(model, params, scales, manifest["iteration"])


def _load_online(run: RunDir, trust: bool) -> LearnedReward:
    """The reward network that a replay run learned beside its policy, or alone."""
    _, resolved, plan = open_run(run.path)
    if plan.regime != REPLAY or plan.get("reward_learning_rate") is None:
        raise UserError(
            f"{run} is not the run of a reward model: it has no {SPEC_FILE} and learned no rewards beside its policy.",
            ["batchwright rrd DATA", "batchwright rrd ENV", "batchwright.load(run)"],
        )
    check_trust(run, resolved.config.task.env, trust)
    task = describe(str(resolved.config.task.env))
    model = RewardModel(ModelSpec(_by_key(task.observation), _by_key(task.action), hidden_sizes(plan) or ()))
    found = checkpoints.load_named(run.checkpoints, lambda text: warnings.warn(text, stacklevel=4))
    if found is None:
        raise UserError(f"{run} has no checkpoint yet.", [f"batchwright resume {run}"])
    arrays, manifest = found
    params = unraveller(model.init(0)[0])(jnp.asarray(arrays[".reward_model.params"]))
    return LearnedReward(model, params, _half_ranges(model), manifest["iteration"])


def _by_key(spec: spaces.Spec) -> dict[str, Leaf]:
    """The leaves of a space by the path to each; a space of one leaf has the key `value`."""
    return {"/".join(map(str, path)) or "value": leaf for path, leaf in spaces.leaves(spec)}


def _half_ranges(model: RewardModel) -> Scales:
    """Scales of a network that saw observations as they are, and boxes of actions in units of half their range."""
    scales, means, stds = model.unit_scales(), [], []
    for leaf in model.spec.action.values():
        size = spaces.action_size(leaf)
        low, high = -np.ones(size), np.ones(size)
        if isinstance(leaf, spaces.Box) and np.isfinite(leaf.low).all() and np.isfinite(leaf.high).all():
            low, high = np.ravel(leaf.low), np.ravel(leaf.high)
        means.append((high + low) / 2)
        stds.append((high - low) / 2)
    mean, std = (jnp.asarray(np.concatenate(parts), jnp.float32) for parts in (means, stds))
    return scales._replace(action=scales.action._replace(mean=mean, std=std))


def _read_spec(run: RunDir) -> ModelSpec:
    """The specification that the run directory holds."""
    try:
        return ModelSpec.from_json(read_plain(run.path / SPEC_FILE).decode())
    except FileNotFoundError:
        raise UserError(
            f"{run} is not the run of a reward model: it has no {SPEC_FILE}.",
            ["batchwright rrd DATA", "batchwright.load(run)"],
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise UserError(f"{run.path / SPEC_FILE} is damaged: {error}.", ["train anew in another --run-dir"]) from None
