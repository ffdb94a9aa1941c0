"""A reward network on recorded episodes: its scales, its updates in one compiled call, its predictions."""

# E episodes, U updates, S subsequences, K timesteps, B rows, D numbers of one action, T steps of one episode.

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.spaces import Box, DictSpace, Leaf
from batchwright.learn.return_decomposition import DecompositionLoss, decomposition_loss
from batchwright.nets.convolutions import conv_layers
from batchwright.nets.networks import Inputs
from batchwright.nets.replay_nets import make_reward_network
from batchwright.reward.reward_spec import ModelSpec, unbounded_box
from batchwright.store.recorded.bank import Bank, Steps, SubsequenceSample

SMALLEST_STD = 1e-6
"""Below it a number is constant in the recording; dividing by it would blow up noise."""
ROWS_AT_ONCE = {False: 4096, True: 128}
"""Rows of one call of `predict`, for vectors and for images."""


class Scale(NamedTuple):
    """Mean and standard deviation of a number over the training episodes."""

    mean: jax.Array
    std: jax.Array


class Scales(NamedTuple):
    """Scales that bring inputs and targets of the network to about mean 0 and standard deviation 1."""

    obs: dict[str, Scale]
    """By key, of observations that hold numbers; images and choices have none."""
    action: Scale
    target: Scale
    """Of return / length."""


class RewardModel:
    """The pure functions of one specification."""

    def __init__(self, spec: ModelSpec) -> None:
        _refuse_small_images(spec)
        self.spec = spec
        action = DictSpace(tuple((key, _as_float(leaf)) for key, leaf in spec.action.items()))
        self._network = make_reward_network(DictSpace(tuple(spec.observation.items())), action, spec.hidden)
        self._optimizer = optax.scale_by_adam()
        self.update = jax.jit(self._update, static_argnames=("unbiased",))
        self.predict = jax.jit(self._predict)

    def init(self, seed: int) -> tuple[optax.Params, optax.OptState]:
        """Parameters of a fresh network, and the state of its optimizer."""
        params = jax.tree.map(jnp.asarray, self._network.init(jax.random.key(seed)))
        return params, self._optimizer.init(params)

    def unit_scales(self) -> Scales:
        """Means of 0 and standard deviations of 1 in the shapes of `measure_scales`."""

        def unit(shape: tuple[int, ...]) -> Scale:
            return Scale(jnp.zeros(shape, jnp.float32), jnp.ones(shape, jnp.float32))

        obs = {key: unit(spaces.leaf_shape(leaf)) for key, leaf in self.spec.observation.items() if _is_numbers(leaf)}
        width = sum(spaces.action_size(leaf) for leaf in self.spec.action.values())
        return Scales(obs, unit((width,)), unit(()))

    def measure_scales(self, bank: Bank, episodes: np.ndarray) -> Scales:
        """The scales of numbered episodes; choices among the actions keep mean 0 and standard deviation 1."""
        numbers = [key for key, leaf in self.spec.observation.items() if _is_numbers(leaf)]
        obs = {key: _scale(*_mean_and_std(bank.numbers_of(key, episodes))) for key in numbers}
        mean, std = _mean_and_std(bank.numbers_of(None, episodes))
        boxes = np.concatenate([np.full(spaces.action_size(a), isinstance(a, Box)) for a in self.spec.action.values()])
        target = bank.return_E[episodes] / bank.length_E[episodes]
        varies = float(target.std()) > SMALLEST_STD * max(1e-6, float(np.abs(target).max()))
        return Scales(
            obs,
            _scale(np.where(boxes, mean, 0), np.where(boxes, std, 1)),
            _scale(target.mean(), target.std() if varies else 1.0),
        )

    def predict_episode(self, params: optax.Params, scales: Scales, bank: Bank, episode: int) -> np.ndarray:
        """[T] predicted rewards of one whole episode; rows are padded to one shape, so that nothing recompiles."""
        length = int(bank.length_E[episode])
        at_once = min(ROWS_AT_ONCE[self.spec.images], int(bank.length_E.max()))
        parts = []
        for start in range(0, length, at_once):
            timestep = np.minimum(np.arange(start, start + at_once), length - 1)
            steps = bank.steps(np.full(at_once, episode), timestep)
            parts.append(np.asarray(self.predict(params, scales, steps)))
        return np.concatenate(parts)[:length]

    def _predict(self, params: optax.Params, scales: Scales, steps: Steps) -> jax.Array:
        """[B] rewards on the scale of one step."""
        return scales.target.mean + scales.target.std * self._apply(params, scales, steps)

    def _apply(self, params: optax.Params, scales: Scales, steps: Steps) -> jax.Array:
        """[B] network outputs, in units of the target's standard deviation."""
        action_BD = (jnp.asarray(steps.action) - scales.action.mean) / scales.action.std
        return self._network.apply(params, _normalise(scales, steps.obs), action_BD, _normalise(scales, steps.next_obs))

    def _update(
        self,
        params: optax.Params,
        opt_state: optax.OptState,
        scales: Scales,
        sample: SubsequenceSample,
        learning_rate: jax.Array,
        weight_decay: jax.Array,
        *,
        unbiased: bool,
    ) -> tuple[optax.Params, optax.OptState, dict[str, jax.Array]]:
        """All updates of an iteration, one after the other; metrics are means over them."""
        target = scales.target

        def loss_fn(params: optax.Params, part: SubsequenceSample) -> tuple[jax.Array, DecompositionLoss]:
            lead = part.steps.action.shape[:2]
            rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), part.steps)
            predicted_SK = self._apply(params, scales, rows).reshape(lead)
            length = part.episode_length.astype(jnp.float32)
            scaled_return = (part.episode_return / length - target.mean) / target.std * length
            losses = decomposition_loss(
                predicted_SK, scaled_return, part.episode_length, unbiased=unbiased, timestep_mask_SK=part.mask
            )
            return losses.loss, losses

        def step(
            carry: tuple[optax.Params, optax.OptState], part: SubsequenceSample
        ) -> tuple[tuple[optax.Params, optax.OptState], tuple[DecompositionLoss, jax.Array]]:
            params, opt_state = carry
            (_, losses), gradient = jax.value_and_grad(loss_fn, has_aux=True)(params, part)
            direction, opt_state = self._optimizer.update(gradient, opt_state)
            params = jax.tree.map(lambda p, d: p - learning_rate * (d + weight_decay * p), params, direction)
            return (params, opt_state), (losses, _global_norm(gradient))

        (params, opt_state), (losses, norm_U) = jax.lax.scan(step, (params, opt_state), sample)
        metrics = {
            "loss": losses.loss.mean(),
            "prediction_variance": losses.variance.mean() * target.std**2,
            "predicted_reward": target.mean + target.std * losses.predicted.mean(),
            "gradient_norm": norm_U.mean(),
        }
        return params, opt_state, metrics


def _normalise(scales: Scales, obs: dict[str, np.ndarray]) -> dict[str, jax.Array]:
    return {
        key: (jnp.asarray(value, jnp.float32) - scales.obs[key].mean) / scales.obs[key].std
        if key in scales.obs
        else jnp.asarray(value)
        for key, value in obs.items()
    }


def _refuse_small_images(spec: ModelSpec) -> None:
    """Refuses what the convolutions cannot take, by the key of the recording."""
    for key, leaf in spec.observation.items():
        for shape in Inputs(leaf).image_shapes:
            try:
                conv_layers(np.random.default_rng(0), shape)
            except UserError as error:
                raise UserError(f"{key}: {error.message}", ["--obs-keys without it"]) from None


def _global_norm(tree: optax.Updates) -> jax.Array:
    """Root of the sum of squares of all numbers of a tree."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)))


def _mean_and_std(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the first axis; numbers that do not vary keep a standard deviation of 1."""
    mean, std = np.mean(values, axis=0, dtype=np.float64), np.std(values, axis=0, dtype=np.float64)
    return np.asarray(mean), np.where(std > SMALLEST_STD, std, 1.0)


def _scale(mean: ArrayLike, std: ArrayLike) -> Scale:
    return Scale(jnp.asarray(mean, jnp.float32), jnp.asarray(std, jnp.float32))


def _is_numbers(leaf: Leaf) -> bool:
    return isinstance(leaf, Box) and not spaces.is_image(leaf)


def _as_float(leaf: Leaf) -> Leaf:
    """Boxes of whole numbers are numbers to a reward network."""
    return unbounded_box(leaf.shape, np.dtype(np.float32)) if isinstance(leaf, Box) else leaf
