"""A reward network on recorded episodes: its scales, its updates in one compiled call, its predictions."""

# U updates, S subsequences, K timesteps, B rows, D numbers of one action.

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.spaces import Box, DictSpace, Discrete, Leaf, MultiBinary, MultiDiscrete
from batchwright.learn.rrd import decomposition_loss
from batchwright.nets.layers import SMALLEST_SIDE
from batchwright.nets.reward import make_reward_network
from batchwright.store.recorded.bank import Bank, Drawn

SMALLEST_SPREAD = 1e-6
"""Below it a number is constant in the recording; dividing by it would blow up noise."""
ROWS_AT_ONCE = {False: 4096, True: 128}
"""Of predictions, for vectors and for images."""


@dataclass(frozen=True)
class ModelSpec:
    """What a model takes: observations and actions by key."""

    observation: dict[str, Leaf]
    action: dict[str, Leaf]
    hidden: tuple[int, ...]

    @property
    def images(self) -> bool:
        return any(spaces.is_image(leaf) for leaf in self.observation.values())

    def to_json(self) -> str:
        parts = {
            name: {key: _leaf_to_json(leaf) for key, leaf in getattr(self, name).items()}
            for name in ("observation", "action")
        }
        return json.dumps({**parts, "hidden": list(self.hidden)}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ModelSpec:
        record = json.loads(text)
        observation, action = (
            {key: _leaf_from_json(leaf) for key, leaf in record[name].items()} for name in ("observation", "action")
        )
        return cls(observation, action, tuple(int(units) for units in record["hidden"]))


def _leaf_to_json(leaf: Leaf) -> dict[str, Any]:
    if isinstance(leaf, Discrete):
        return {"kind": "discrete", "n": leaf.n, "start": leaf.start}
    if isinstance(leaf, MultiDiscrete):
        return {"kind": "multi-discrete", "nvec": list(leaf.nvec), "start": list(leaf.start)}
    if isinstance(leaf, MultiBinary):
        return {"kind": "bits", "n": leaf.n}
    return {"kind": "box", "shape": list(leaf.shape), "dtype": spaces.stored_dtype(leaf).name}


def _leaf_from_json(record: dict[str, Any]) -> Leaf:
    if record["kind"] == "discrete":
        return Discrete(int(record["n"]), int(record["start"]))
    if record["kind"] == "multi-discrete":
        return MultiDiscrete(tuple(record["nvec"]), tuple(record["start"]))
    if record["kind"] == "bits":
        return MultiBinary(int(record["n"]))
    return unbounded(tuple(record["shape"]), np.dtype(record["dtype"]))


def unbounded(shape: tuple[int, ...], dtype: np.dtype) -> Box:
    """A Box of a stored type: what its recorded bounds were does not matter to a reward network."""
    if dtype.kind == "f":
        return spaces.box(-np.inf, np.inf, shape, np.float32)
    return spaces.box(0, np.iinfo(dtype).max, shape, dtype)


class Scales(NamedTuple):
    """Means and spreads over the training episodes: what a network sees and says has about the size of 1."""

    obs: dict[str, tuple[Any, Any]]
    """Of the keys that hold numbers; images and choices have none."""
    action: tuple[Any, Any]
    target: tuple[Any, Any]
    """Of return / length."""


class RewardState(NamedTuple):
    """Everything that a run carries from one iteration to the next."""

    params: Any
    adam: Any
    scales: Scales
    iteration: Any


class RewardModel:
    """The pure functions of one specification."""

    def __init__(self, spec: ModelSpec) -> None:
        for key, leaf in spec.observation.items():
            if spaces.is_image(leaf) and isinstance(leaf, Box) and min(sorted(leaf.shape)[-2:]) < SMALLEST_SIDE:
                raise UserError(
                    f"images of {key} have shape {leaf.shape}: a side needs {SMALLEST_SIDE} pixels to be convolved.",
                    ["--obs-keys without it"],
                )
        self.spec = spec
        action = DictSpace(tuple((key, _as_float(leaf)) for key, leaf in spec.action.items()))
        self._network = make_reward_network(DictSpace(tuple(spec.observation.items())), action, spec.hidden)
        self._adam = optax.scale_by_adam()
        self.update = jax.jit(self._update, static_argnames=("unbiased",), donate_argnums=(0,))
        self.predict = jax.jit(self._predict)

    def start(self, seed: int, scales: Scales) -> RewardState:
        """A fresh network."""
        params = jax.tree.map(jnp.asarray, self._network.init(jax.random.key(seed)))
        return RewardState(params, self._adam.init(params), jax.tree.map(jnp.asarray, scales), np.int64(0))

    def no_scales(self) -> Scales:
        """Means of 0 and spreads of 1 in the shapes of `measure`."""

        def plain(shape: tuple[int, ...]) -> tuple[Any, Any]:
            return np.zeros(shape, np.float32), np.ones(shape, np.float32)

        obs = {key: plain(spaces.leaf_shape(leaf)) for key, leaf in self.spec.observation.items() if _is_numbers(leaf)}
        width = sum(spaces.action_size(leaf) for leaf in self.spec.action.values())
        return Scales(obs, plain((width,)), plain(()))

    def measure(self, bank: Bank, among: np.ndarray) -> Scales:
        """The scales of numbered episodes."""
        numbers = [key for key, leaf in self.spec.observation.items() if _is_numbers(leaf)]
        obs = {key: _mean_and_spread(bank.numbers_of(key, among)) for key in numbers}
        mean, spread = _mean_and_spread(bank.numbers_of(None, among))
        boxes = np.concatenate([np.full(spaces.action_size(a), isinstance(a, Box)) for a in self.spec.action.values()])
        target = bank.return_E[among] / bank.length_E[among]
        varies = float(target.std()) > SMALLEST_SPREAD * max(1e-6, float(np.abs(target).max()))
        return Scales(
            obs,
            (np.where(boxes, mean, 0).astype(np.float32), np.where(boxes, spread, 1).astype(np.float32)),
            (np.float32(target.mean()), np.float32(target.std() if varies else 1.0)),
        )

    def _see(self, scales: Scales, obs: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return {
            key: (value.astype(jnp.float32) - scales.obs[key][0]) / scales.obs[key][1] if key in scales.obs else value
            for key, value in obs.items()
        }

    def _raw(self, params: Any, scales: Scales, obs: Any, action_BD: jax.Array, next_obs: Any) -> jax.Array:
        """[B] in units of the target's spread."""
        mean, spread = scales.action
        scaled_BD = (action_BD - mean) / spread
        return self._network.apply(params, self._see(scales, obs), scaled_BD, self._see(scales, next_obs))

    def _predict(self, params: Any, scales: Scales, obs: Any, action_BD: jax.Array, next_obs: Any) -> jax.Array:
        """[B] rewards on the scale of one step."""
        mean, spread = scales.target
        reward_B: jax.Array = mean + spread * self._raw(params, scales, obs, action_BD, next_obs)
        return reward_B

    def _update(
        self, state: RewardState, drawn: Drawn, rate: jax.Array, decay: jax.Array, *, unbiased: bool
    ) -> tuple[RewardState, dict[str, jax.Array]]:
        """All updates of an iteration, one after the other; what they said, averaged."""
        mean, spread = state.scales.target

        def loss_of(params: Any, part: Drawn) -> tuple[jax.Array, Any]:
            lead = part.steps.action.shape[:2]
            rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), part.steps)
            raw_SK = self._raw(params, state.scales, *rows).reshape(lead)
            length = part.episode_length.astype(jnp.float32)
            scaled = (part.episode_return / length - mean) / spread * length
            told = decomposition_loss(
                raw_SK, scaled, part.episode_length, unbiased=unbiased, timestep_mask_SK=part.mask
            )
            return told.loss, told

        def step(carry: tuple[Any, Any], part: Drawn) -> Any:
            params, adam = carry
            (_, told), gradient = jax.value_and_grad(loss_of, has_aux=True)(params, part)
            direction, adam = self._adam.update(gradient, adam)
            params = jax.tree.map(lambda p, d: p - rate * (d + decay * p), params, direction)
            return (params, adam), (told, _norm(gradient))

        (params, adam), (told, norm_U) = jax.lax.scan(step, (state.params, state.adam), drawn)
        metrics = {
            "loss": told.loss.mean(),
            "prediction_variance": told.variance.mean() * spread**2,
            "predicted_reward": mean + spread * told.predicted.mean(),
            "gradient_norm": norm_U.mean(),
        }
        return RewardState(params, adam, state.scales, state.iteration + 1), metrics

    def along(self, state: RewardState, bank: Bank, episode: int) -> np.ndarray:
        """[T] predicted rewards of one whole episode; rows are padded to one shape, so that nothing recompiles."""
        length = int(bank.length_E[episode])
        at_once = min(ROWS_AT_ONCE[self.spec.images], int(bank.length_E.max()))
        found = []
        for start in range(0, length, at_once):
            timestep = np.minimum(np.arange(start, start + at_once), length - 1)
            steps = bank.steps(np.full(at_once, episode), timestep)
            found.append(np.asarray(self.predict(state.params, state.scales, *steps)))
        return np.concatenate(found)[:length]


def _norm(tree: Any) -> jax.Array:
    """Root of the sum of squares of all its numbers."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)))


def _mean_and_spread(values: np.ndarray) -> tuple[Any, Any]:
    """Over the first axis as float32; numbers that do not vary keep a spread of 1."""
    mean, spread = np.mean(values, axis=0, dtype=np.float64), np.std(values, axis=0, dtype=np.float64)
    return np.float32(mean), np.float32(np.where(spread > SMALLEST_SPREAD, spread, 1.0))


def _is_numbers(leaf: Leaf) -> bool:
    return isinstance(leaf, Box) and not spaces.is_image(leaf)


def _as_float(leaf: Leaf) -> Leaf:
    """Boxes of whole numbers are numbers to a reward network."""
    return unbounded(leaf.shape, np.dtype(np.float32)) if isinstance(leaf, Box) else leaf
