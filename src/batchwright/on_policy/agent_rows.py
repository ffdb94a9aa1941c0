"""What several agents change in training: whose numbers are there, advantages and observations by group."""

# B any leading axes, V numbers of one observation, G groups.

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from batchwright.envs.agent_groups import GROUP
from batchwright.learn.returns import normalise_advantages
from batchwright.nets.entry_moments import EntryMoments, entry_moments
from batchwright.nets.grouped_policy import GroupedInputs, GroupedPolicy
from batchwright.nets.normalise import RunningMoments, batch_moments
from batchwright.nets.policy import Policy

GROUP_METRICS = (f"entropy/{GROUP}", f"kl/{GROUP}")
"""Of the head that says which group a row belongs to: it has nothing to decide."""


def present_numbers(policy: Policy, vector_BV: jax.Array, valid_B: jax.Array) -> jax.Array:
    """[B, V], or [B, 1]: numbers of agents that are there, of rows of several groups those of their own."""
    there = jnp.asarray(valid_B)[..., None]
    return there & policy.inputs.present(vector_BV) if isinstance(policy.inputs, GroupedInputs) else there


def empty_moments(policy: Policy) -> RunningMoments:
    """Moments of observations before the first one."""
    kind = EntryMoments if isinstance(policy, GroupedPolicy) else RunningMoments
    return kind.empty(policy.inputs.vector_size)


def observed_moments(
    policy: Policy, vector_BV: jax.Array, weight_B: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Moments of the observations of a rollout; of several groups, of each number over the rows that have it."""
    if not isinstance(policy.inputs, GroupedInputs):
        return batch_moments(vector_BV, weight_B)
    of_group = policy.inputs.present(vector_BV) & (policy.inputs.entry_group >= 0)
    return entry_moments(vector_BV, weight_B[:, None] * of_group)


def normalise_by_group(policy: Policy, advantage_B: jax.Array, weight_B: jax.Array, inputs: Any) -> jax.Array:
    """`normalise_advantages`, of every group by itself: rewards of groups may be of any scale, or opposite."""
    assert isinstance(policy.inputs, GroupedInputs)
    member_BG = policy.inputs.members(inputs)
    parts = [normalise_advantages(advantage_B, weight_B * member_BG[..., g]) for g in range(member_BG.shape[-1])]
    return jnp.stack(parts).sum(0)
