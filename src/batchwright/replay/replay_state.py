"""The state of a replay run, what its updates are given, and the steps that change parameters."""

# U updates of an iteration, B rows of one, S subsequences, K timesteps of one, D numbers of one action.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from batchwright.runs.engine_learner import EngineState
from batchwright.store.replay_buffer import Batch, Draw

Array: TypeAlias = jax.Array | np.ndarray
Params: TypeAlias = Any
"""One flat vector between iterations, a tree of arrays within one.

Slices of a vector would be copied for every product, and their gradients joined.
"""
Metrics: TypeAlias = dict[str, jax.Array]


class TrainState(Protocol):
    """The arrays that updates of an algorithm change: a NamedTuple with these and more."""

    @property
    def params(self) -> Params:
        """Of the policy that acts."""

    @property
    def opt_state(self) -> optax.ScaleByAdamState: ...

    @property
    def updates(self) -> jax.Array:
        """Updates made so far, int32."""

    @property
    def _replace(self) -> Callable[..., Self]: ...


class ParamsAndOpt(NamedTuple):
    """Parameters with their state of Adam."""

    params: Params
    opt_state: optax.ScaleByAdamState

    def converted(self, convert: Callable[[Params], Params]) -> ParamsAndOpt:
        """Parameters and both moments of Adam as vectors or as trees."""
        moments = self.opt_state._replace(mu=convert(self.opt_state.mu), nu=convert(self.opt_state.nu))
        return ParamsAndOpt(convert(self.params), moments)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ReplayState(EngineState):
    """One replay run between two iterations; the buffer is saved beside it."""

    train: TrainState
    reward_model: ParamsAndOpt | None
    """None where no rewards are learned."""

    def train_arrays(self) -> np.ndarray:
        """All arrays that updates change as one vector, for a digest."""
        trained = self.train._replace(updates=()), self.reward_model, self.train.updates
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(trained)])


class ReplayHyper(NamedTuple):
    """Numbers that may change between iterations without compiling again."""

    learning_rate: np.float32
    reward_learning_rate: np.float32
    gamma: np.float32
    polyak: np.float32
    updates_per_target: np.int32
    max_grad_norm: np.float32
    warmup_updates: np.float32
    own: dict[str, np.float32]
    """Numbers that only the algorithm of the run has."""


class StepSizes(NamedTuple):
    """How far one update goes; [U] for all of an iteration."""

    number: jax.Array  # of the update, from 1 on
    learning_rate: jax.Array
    reward_learning_rate: jax.Array
    polyak: jax.Array  # 0 where the target stays

    def moved_target(self, target: Params, online: Params) -> Params:
        """The target network after this update."""
        return jax.tree.map(lambda old, new: polyak(old, new, self.polyak), target, online)


class RewardSample(NamedTuple):
    """Timesteps of finished episodes that the reward network learns from."""

    timesteps: Draw | Batch  # [U, S, K, ...]
    episode_return: Array  # [U, S]
    episode_length: Array  # [U, S]
    mask: Array | None  # [U, S, K], where whole episodes are drawn


class ReplaySample(NamedTuple):
    """What U updates learn from: rows of the buffer, or their transitions where these were gathered on the host."""

    transitions: Draw | Batch | None  # [U, B, ...]; None where no policy is updated
    guidance: Array | None  # [U, B] rewards that replace the stored ones
    rewards: RewardSample | None
    noise: Array | None  # [U, ...] of the algorithm


def polyak(target: jax.Array, online: jax.Array, rate: ArrayLike) -> jax.Array:
    """The target moved towards the online parameters: 1 copies them."""
    moved: jax.Array = target + rate * (online - target)
    return moved


@dataclass(frozen=True)
class Adam:
    """Adam with optional clipping of the gradient's norm."""

    beta2: float
    eps: float
    clips: bool

    def init(self, params: jax.Array) -> ParamsAndOpt:
        return ParamsAndOpt(params, self._transform().init(params))

    def step(
        self, state: ParamsAndOpt, gradient: Params, learning_rate: jax.Array, hyper: ReplayHyper
    ) -> tuple[ParamsAndOpt, jax.Array]:
        """(state after one step, norm of the gradient before it is clipped)."""
        norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(gradient)))
        if self.clips:
            factor = jnp.minimum(1.0, hyper.max_grad_norm / (norm + 1e-6))
            gradient = jax.tree.map(lambda leaf: leaf * factor, gradient)
        direction, opt_state = self._transform().update(gradient, state.opt_state)
        params = jax.tree.map(lambda old, by: old - learning_rate * by, state.params, direction)
        return ParamsAndOpt(params, opt_state), norm

    def _transform(self) -> optax.GradientTransformation:
        return optax.scale_by_adam(0.9, self.beta2, self.eps)
