"""Running statistics of an on-policy run: measured on each rollout, merged on the host."""

# T steps, N environments.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.arrays import HostOrDevice
from batchwright.data.rollout import Rollout
from batchwright.learn.returns import running_returns
from batchwright.nets.normalise import RunningMoments, batch_moments
from batchwright.nets.policy import Policy
from batchwright.on_policy.agent_rows import observed_moments
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.on_policy.on_policy_state import OnPolicyState, TrainState

BatchMoments = tuple[jax.Array, jax.Array, jax.Array]
"""(count, mean, summed squared deviations) of one rollout."""


class RolloutMoments(NamedTuple):
    """Moments of one rollout, and the discounted sums of running episodes after it."""

    obs: BatchMoments | None
    rewards: BatchMoments | None
    reward_carry: HostOrDevice  # [N]


Measure = Callable[[Rollout, HostOrDevice, np.float32], RolloutMoments]


def make_measure(settings: OnPolicySettings, policy: Policy) -> Measure | None:
    """A compiled function of (rollout, discounted sums so far [N], gamma); None where nothing is normalised."""
    with_obs = settings.normalize_obs and policy.inputs.vector_size > 0
    if not with_obs and not settings.normalize_rewards:
        return None
    weights = None if settings.components is None else np.array(settings.components.weights, np.float32)

    def measure(rollout: Rollout, carry_N: HostOrDevice, gamma: jax.Array) -> RolloutMoments:
        weight = rollout.valid.reshape(-1).astype(jnp.float32)
        obs = rewards = None
        if with_obs:
            acted = jax.tree.map(lambda x: x[:-1], rollout.obs)
            obs = observed_moments(policy, policy.inputs.vector(acted).reshape(-1, policy.inputs.vector_size), weight)
        if settings.normalize_rewards:
            ended = rollout.terminated | rollout.truncated
            paid = rollout.reward.sum(-1) if weights is None else (rollout.reward * weights).sum(-1)
            totals, carry_N = running_returns(paid, ended, jnp.asarray(carry_N), gamma)
            rewards = batch_moments(totals.reshape(-1, 1), weight)
        return RolloutMoments(obs, rewards, carry_N)

    return jax.jit(measure)


def merge_rewards(state: OnPolicyState, moments: RolloutMoments) -> OnPolicyState:
    """Before the update: the policy does not see rewards, so their scale may include the rollout that it scales."""
    if moments.rewards is None or not np.isfinite(moments.rewards[2]).all():
        return state
    merged = state.rewards.merge(*moments.rewards)
    return replace(state, rewards=merged, reward_carry=np.asarray(moments.reward_carry))


def merge_obs(state: OnPolicyState, moments: RolloutMoments) -> OnPolicyState:
    """After the update: one rollout is normalised alike from its first step to its last update."""
    if moments.obs is None or not np.isfinite(moments.obs[2]).all():
        return state
    return replace(state, obs=state.obs.merge(*moments.obs))


def merge_targets(state: OnPolicyState, metrics: dict[str, float], popart: bool, policy: Policy) -> OnPolicyState:
    """Merges the value targets of an update, for PopArt and for the units of value clipping."""
    if not np.isfinite(metrics["target_squares"]):
        return state
    before = state.targets
    after = before.merge(metrics["transitions"], [metrics["target_mean"]], [metrics["target_squares"]])
    train = keep_outputs(policy, state.train, before, after) if popart else state.train
    return replace(state, targets=after, train=train)


def keep_outputs(policy: Policy, train: TrainState, before: RunningMoments, after: RunningMoments) -> TrainState:
    """Values on the new scale with unchanged outputs (van Hasselt et al., 2016)."""
    (mean, std), (new_mean, new_std) = ((float(s.mean[0]), float(s.std[0])) for s in (before, after))
    tree = policy.unravel(train.params)
    affine = tree["value"]
    tree["value"] = {
        "scale": affine["scale"] * (std / new_std),
        "shift": (affine["shift"] * std + (mean - new_mean)) / new_std,
    }
    return train._replace(params=policy.ravel(tree))
