"""The on-policy algorithms. Each owns its targets and its loss; everything else of an update is the same for all."""

# T steps, N environments, K reward components; losses are per row, of any shape.

from __future__ import annotations

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp

from batchwright.core.errors import unknown
from batchwright.data.arrays import BoolTN, FloatTNK
from batchwright.learn.returns import gae
from batchwright.on_policy.on_policy_state import Hyper, Scalar


class RolloutValues(NamedTuple):
    """Rewards and values of a rollout, on the scale that the values predict."""

    reward: FloatTNK
    value: FloatTNK
    next_value: FloatTNK
    """Of the true successor, the last observation of an episode included."""
    terminated: BoolTN
    ended: BoolTN
    """Terminated or truncated."""


class Targets(NamedTuple):
    """What the policy and the values learn from."""

    advantage: FloatTNK
    value_target: FloatTNK


class OnPolicyAlgorithm(Protocol):
    """One on-policy algorithm."""

    def targets(self, rollout: RolloutValues, hyper: Hyper, baseline: bool) -> Targets:
        """Advantages and value targets of a whole rollout."""

    def policy_loss(
        self, log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, hyper: Hyper
    ) -> jax.Array:
        """The policy's loss per row."""


def gae_targets(rollout: RolloutValues, hyper: Hyper, baseline: bool) -> Targets:
    """Generalised advantage estimation; without a baseline the policy learns from the returns themselves."""
    advantage = gae(*rollout, hyper.gamma, hyper.gae_lambda)
    value_target = advantage + rollout.value
    return Targets(advantage if baseline else value_target, value_target)


class PPO:
    """Clipped surrogate objective (Schulman et al., 2017)."""

    targets = staticmethod(gae_targets)

    def policy_loss(
        self, log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, hyper: Hyper
    ) -> jax.Array:
        """-min(ratio x advantage, clipped ratio x advantage)."""
        ratio = jnp.exp(log_prob - old_log_prob)
        clipped = jnp.clip(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range)
        return -jnp.minimum(ratio * advantage, clipped * advantage)


class A2C:
    """Advantage actor-critic (Mnih et al., 2016)."""

    targets = staticmethod(gae_targets)

    def policy_loss(
        self, log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, hyper: Hyper
    ) -> jax.Array:
        """-log-prob x advantage."""
        return -log_prob * advantage


class Reinforce:
    """REINFORCE (Williams, 1992) with an importance ratio, so that a rollout can be used more than once."""

    targets = staticmethod(gae_targets)

    def policy_loss(
        self, log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, hyper: Hyper
    ) -> jax.Array:
        """-ratio x advantage: at ratio 1 its gradient is that of -log-prob x advantage."""
        return -jnp.exp(log_prob - old_log_prob) * advantage


ON_POLICY_ALGORITHMS: dict[str, OnPolicyAlgorithm] = {"ppo": PPO(), "a2c": A2C(), "reinforce": Reinforce()}


def find_algorithm(name: str) -> OnPolicyAlgorithm:
    """The algorithm of that name; an unknown one is refused."""
    if name not in ON_POLICY_ALGORITHMS:
        raise unknown("on-policy algorithm", name, tuple(ON_POLICY_ALGORITHMS), "--algo")
    return ON_POLICY_ALGORITHMS[name]


def value_loss(
    value: jax.Array, target: jax.Array, old_value: jax.Array | None = None, value_clip: Scalar = 0.0
) -> jax.Array:
    """Squared error per row; with `old_value`, the larger of it and that of the value clipped around the old one."""
    squared = jnp.square(value - target)
    if old_value is None:
        return squared
    near = old_value + jnp.clip(value - old_value, -value_clip, value_clip)
    return jnp.maximum(squared, jnp.square(near - target))


def kl_estimate(log_prob: jax.Array, old_log_prob: jax.Array) -> jax.Array:
    """(ratio - 1) - log ratio per row: unbiased and never negative (Schulman, 2020, "Approximating KL divergence")."""
    log_ratio = log_prob - old_log_prob
    return jnp.expm1(log_ratio) - log_ratio
