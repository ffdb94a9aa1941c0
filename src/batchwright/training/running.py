"""Running statistics of a run: what each rollout adds, and what the next update is given."""

# T steps, N environments, V numbers of one observation.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.rollout import Rollout
from batchwright.learn.returns import running_returns
from batchwright.nets.normalise import Running, batch_moments
from batchwright.nets.policy import Policy
from batchwright.planning.quantity import Plan
from batchwright.training.state import Moments, TrainState
from batchwright.training.update import Learner


class RolloutMoments(NamedTuple):
    """(count, mean, summed squared deviations) of one rollout, and the discounted sums to go on from."""

    obs: Any | None
    rewards: Any | None
    reward_carry: Any  # [N]


Measure = Callable[[Rollout, Any], RolloutMoments]


def make_measure(plan: Plan, policy: Policy) -> Measure:
    """A compiled function of (rollout, discounted sums so far [N]); what is not normalised is not computed."""
    with_obs = bool(plan["normalize_obs"]) and policy.inputs.vector_size > 0
    if not with_obs and not plan["normalize_rewards"]:
        return lambda rollout, carry_N: RolloutMoments(None, None, carry_N)
    gamma: Any = np.float32(plan["gamma"])

    def measure(rollout: Rollout, carry_N: jax.Array) -> RolloutMoments:
        weight = rollout.valid.reshape(-1).astype(jnp.float32)
        obs = rewards = None
        if with_obs:
            early = jax.tree.map(lambda x: x[:-1], rollout.obs)
            obs = batch_moments(policy.inputs.vector(early).reshape(-1, policy.inputs.vector_size), weight)
        if plan["normalize_rewards"]:
            ended = rollout.terminated | rollout.truncated
            totals, carry_N = running_returns(rollout.reward.sum(-1), ended, carry_N, gamma)
            rewards = batch_moments(totals.reshape(-1, 1), weight)
        return RolloutMoments(obs, rewards, carry_N)

    return jax.jit(measure)


def merge_rewards(state: TrainState, moments: RolloutMoments) -> TrainState:
    """Before the update: the policy does not see rewards, so their scale may know the rollout that it scales."""
    if moments.rewards is None or not np.isfinite(moments.rewards[2]).all():
        return state
    merged = state.rewards.running.merge(*moments.rewards)
    return state._replace(rewards=Moments.of(merged), reward_carry=np.asarray(moments.reward_carry))


def merge_obs(state: TrainState, moments: RolloutMoments) -> TrainState:
    """After the update: observations of one rollout are normalised alike from its first step to its last update."""
    if moments.obs is None or not np.isfinite(moments.obs[2]).all():
        return state
    return state._replace(obs=Moments.of(state.obs.running.merge(*moments.obs)))


def merge_targets(plan: Plan, policy: Policy, state: TrainState, told: dict[str, Any]) -> TrainState:
    """Value targets, for PopArt and for the units of value clipping."""
    if not (plan["popart"] or plan["value_clip"]) or not np.isfinite(told["target_squares"]):
        return state
    before = state.targets.running
    after = before.merge(told["transitions"], [told["target_mean"]], [told["target_squares"]])
    state = state._replace(targets=Moments.of(after))
    return state._replace(learner=keep_outputs(policy, state.learner, before, after)) if plan["popart"] else state


def keep_outputs(policy: Policy, learner: Learner, before: Running, after: Running) -> Learner:
    """Values on the new scale with unchanged outputs (van Hasselt et al., 2016)."""
    (mean, std), (new_mean, new_std) = ((float(s.mean[0]), float(s.std[0])) for s in (before, after))
    tree = policy.unravel(learner.flat)
    affine = tree["value"]
    tree["value"] = {
        "scale": affine["scale"] * (std / new_std),
        "shift": (affine["shift"] * std + (mean - new_mean)) / new_std,
    }
    return learner._replace(flat=policy.ravel(tree))
