"""Arrays of on-policy learning: the state between two iterations, the inputs and the rows of an update."""

# T steps, N environments, B = T x N rows, K reward components, D numbers of one action, H heads, M mask entries.

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
import optax

from batchwright.data.arrays import BoolBM, FloatB, FloatBD, FloatBH, FloatBK, Tree
from batchwright.learn.weighting import InnerProducts, Weighting
from batchwright.nets.normalise import RunningMoments
from batchwright.runs.engine_learner import EngineState

Scalar: TypeAlias = Any
"""A number that a compiled program takes as an array: np.float32, or a jax.Array in a population."""


Metrics: TypeAlias = dict[str, jax.Array]


class ComponentScales(NamedTuple):
    """What one iteration does with each reward component; arrays [C]: K components, then a success signal if any."""

    shift: np.ndarray
    factor: np.ndarray
    """A value head learns from (reward - shift) x factor."""
    unit: np.ndarray
    """What its advantages are multiplied with before they are weighed: 1 / factor brings them back to the units of the
    environment's reward; 1 leaves them balanced."""
    spread: np.ndarray
    """Standard deviation of the running discounted return, in the units in which advantages are weighed."""
    varies: np.ndarray
    """1 where a component can teach something, else 0."""
    target: np.ndarray
    """The target's advantage as weights of the columns' ones; all 0 until something of it has been seen."""
    weight: np.ndarray
    """Stated weights [K]."""


class Hyper(NamedTuple):
    """Hyper-parameters that may change between iterations, or members of a population, without compiling again."""

    learning_rate: Scalar
    gamma: Scalar
    gae_lambda: Scalar
    clip_range: Scalar
    entropy_coef: Scalar
    value_weight: Scalar
    max_grad_norm: Scalar
    weight_decay: Scalar
    value_rate_factor: Scalar
    kl_stop: Scalar
    kl_target: Scalar
    value_clip: Scalar
    """On the scale that values are learned on."""
    reward_scale: Scalar
    """What raw rewards are divided by."""
    warmup_updates: Scalar
    value_mean: Scalar = 0.0
    value_std: Scalar = 1.0
    """The scale that values are learned on (PopArt); 0 and 1 otherwise."""
    entropy_weight_discrete: Scalar = 1.0
    entropy_weight_continuous: Scalar = 1.0
    entropy_floor_discrete: Scalar = -1e9
    entropy_floor_continuous: Scalar = -1e9
    """Nats per number of the action below which the entropy of a head is penalised."""
    entropy_floor_weight: Scalar = 0.0
    components: ComponentScales | None = None
    """Where the reward has components."""


class WeightingState(NamedTuple):
    """A learned weighting of reward components."""

    params: Weighting
    opt_state: optax.OptState
    products: InnerProducts
    """Of the gradients of components and target."""


class TrainState(NamedTuple):
    """What updates change."""

    params: jax.Array
    """The flat parameter vector of the policy and its values."""
    opt_state: optax.OptState
    updates: jax.Array
    """Optimiser steps made so far."""
    learning_rate_factor: jax.Array
    """Factor on the learning rate, moved by the KL-adaptive schedule and by rescues; 1 otherwise."""
    weighting: WeightingState | None = None
    """Where the weights of reward components are learned."""


class TransitionRows(NamedTuple):
    """A rollout as B rows, ready to be cut into minibatches."""

    inputs: Tree
    """The network's inputs [B, ...]."""
    action: FloatBD
    log_prob: FloatB
    """Of the policy that collected."""
    advantage: FloatB
    target: FloatBK
    """On the scale that values are learned on."""
    value: FloatBK
    """Likewise, of the policy that collected."""
    weight: FloatB
    """1 for transitions, 0 for resets."""
    mask: BoolBM | None = None
    """The allowed actions; None where the environment has no masks."""
    head_log_prob: FloatBH | None = None
    """Where there is more than one head."""
    count: Scalar = None
    """Transitions of a minibatch on all devices; None where one device has them all."""


class ComponentStats(NamedTuple):
    """Running statistics of reward components [C], in float64; a success signal follows the K components."""

    rewards: RunningMoments
    """Of the rewards of single steps."""
    returns: RunningMoments
    """Of the running discounted return of each."""
    outputs: RunningMoments
    """The same of what the first tier of normalisation gave."""
    low: np.ndarray
    high: np.ndarray
    terminates: np.bool_
    """Whether an episode has ever terminated."""
    carry: np.ndarray  # [N, C]: discounted sums of running episodes
    output_carry: np.ndarray  # [N, C]
    warned_nested: np.bool_
    warned_constant: np.ndarray  # [K]
    warned_sum: np.bool_
    stated_balance: np.ndarray  # [K]: weights of one unit each, as they were last reported; NaN before


class GoodState(NamedTuple):
    """What a rescue goes back to: parameters and the statistics that belong to them."""

    train: TrainState
    obs: RunningMoments
    rewards: RunningMoments
    targets: RunningMoments


class Remedies(NamedTuple):
    """What the doctor has changed so far; part of every checkpoint of a run with `--doctor act`."""

    good: GoodState
    rescues: np.int64
    rollout_steps: np.int64
    entropy_pace: np.float64
    """The anneal of the entropy coefficient goes at this share of its planned pace."""
    changed: np.int64
    """The iteration of the last change; -1 before the first."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class OnPolicyState(EngineState):
    """An on-policy run between two iterations: all that a checkpoint must hold."""

    train: TrainState
    rewards: RunningMoments
    """Of the running discounted return."""
    reward_carry: np.ndarray
    """[N] discounted sums of running episodes."""
    targets: RunningMoments
    """Of value targets."""
    components: ComponentStats | None = None
    """Where the reward has components."""
    remedies: Remedies | None = None
    """Where the doctor may act."""

    def without_running_episodes(self) -> OnPolicyState:
        """The state where all environments begin anew: no discounted sum of an episode goes on."""
        state = replace(self, reward_carry=np.zeros_like(self.reward_carry))
        if state.components is None:
            return state
        zeros = np.zeros_like(state.components.carry)
        return replace(state, components=state.components._replace(carry=zeros, output_carry=zeros))
