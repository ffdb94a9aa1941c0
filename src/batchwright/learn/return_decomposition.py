"""Return decomposition: rewards per step learned from episode returns alone (Ren et al., 2022).

A reward network is asked for K timesteps of an episode; the mean of its answers should be return / length. Over random
draws that loss is the one of all timesteps plus the variance of the mean: the unbiased form takes the variance off.
"""

# S subsequences (one episode each), K timesteps of one.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Predict = Callable[[Any, Any, jax.Array, Any], jax.Array]
"""(parameters, observations, actions, next observations) -> reward per row."""


class DecompositionLoss(NamedTuple):
    """The loss of a reward update, and two statistics of its predictions."""

    loss: jax.Array
    """What is minimised."""
    variance: jax.Array
    """The variance of predictions within an episode, mean over the subsequences."""
    predicted: jax.Array
    """Mean predicted reward of one step."""


def mean_and_variance(predicted_SK: jax.Array, mask_SK: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
    """(mean [S], variance [S] with K - 1 below the line; 0 where one timestep counts)."""
    mask_SK = jnp.ones_like(predicted_SK) if mask_SK is None else mask_SK.astype(predicted_SK.dtype)
    count_S = jnp.maximum(mask_SK.sum(-1), 1.0)
    mean_S = (predicted_SK * mask_SK).sum(-1) / count_S
    squares_S = (jnp.square(predicted_SK - mean_S[..., None]) * mask_SK).sum(-1)
    return mean_S, squares_S / jnp.maximum(count_S - 1.0, 1.0)


def variance_coefficient(timesteps: Any, length_S: jax.Array) -> jax.Array:
    """c [S] in Var(mean of K) = c s^2 / K: 1 - K/T drawn without replacement, 1 with (K > T), 0 for T = 1."""
    length_S = length_S.astype(jnp.float32)
    without = 1.0 - timesteps / jnp.maximum(length_S, 1.0)
    return jnp.where(length_S <= 1, 0.0, jnp.where(timesteps > length_S, 1.0, without))


def decomposition_loss(
    predicted_SK: jax.Array,
    episode_return_S: jax.Array,
    episode_length_S: jax.Array,
    *,
    unbiased: bool,
    timestep_mask_SK: jax.Array | None = None,
) -> DecompositionLoss:
    """The squared distance of mean prediction and return / length; `unbiased` subtracts the variance of the mean.

    With a mask the timesteps that count are all of the episode (the full decomposition): nothing is random there.
    """
    if unbiased and predicted_SK.shape[-1] < 2:
        raise ValueError("one timestep has no variance to subtract: the unbiased form needs K >= 2")
    mean_S, variance_S = mean_and_variance(predicted_SK, timestep_mask_SK)
    target_S = episode_return_S / jnp.maximum(episode_length_S.astype(jnp.float32), 1.0)
    loss_S = jnp.square(mean_S - target_S)
    if unbiased:
        timesteps = predicted_SK.shape[-1]
        loss_S = loss_S - variance_coefficient(timesteps, episode_length_S) * variance_S / timesteps
    return DecompositionLoss(loss_S.mean(), variance_S.mean(), mean_S.mean())


def rrd_loss(
    predict: Predict,
    params: Any,
    obs: Any,
    action: jax.Array,
    next_obs: Any,
    episode_return_S: jax.Array,
    episode_length_S: jax.Array,
    *,
    unbiased: bool = False,
    timestep_mask_SK: jax.Array | None = None,
) -> DecompositionLoss:
    """The loss of a reward network on subsequences: observations and actions have leading axes [S, K]."""
    lead = action.shape[:2]
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (obs, action, next_obs))
    predicted_SK = predict(params, *rows).reshape(lead)
    return decomposition_loss(
        predicted_SK, episode_return_S, episode_length_S, unbiased=unbiased, timestep_mask_SK=timestep_mask_SK
    )


def ircr_reward(episode_return: Any, lowest: Any, highest: Any) -> Any:
    """Guidance of Gangwani et al., 2020: the return of the row's episode on the scale 0..1 of those in the buffer."""
    spread = highest - lowest
    return (episode_return - lowest) / (spread if spread > 0 else 1.0)
