"""What the scales of a rollout tell: of observations and rewards as the environment gives them, of boxed actions."""

# T steps, N environments, V numbers of one observation.

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.rollout import Rollout
from batchwright.nets.policy import Policy


def told_by_scales(policy: Policy, rollout: Rollout) -> dict[str, jax.Array]:
    """Metrics of one rollout; one pass over arrays that the update reads anyway."""
    weight_TN = rollout.valid.astype(jnp.float32)
    count = jnp.maximum(weight_TN.sum(), 1.0)
    reward_TN = rollout.reward.sum(-1)
    mean = (reward_TN * weight_TN).sum() / count
    told = {
        "reward_abs_mean": (jnp.abs(reward_TN) * weight_TN).sum() / count,
        "reward_std": jnp.sqrt((jnp.square(reward_TN - mean) * weight_TN).sum() / count),
    }
    if policy.inputs.vector_size:
        told |= _observations(policy.inputs.vector(jax.tree.map(lambda x: x[:-1], rollout.obs)))
    boxes = [head.action for head in policy.heads.heads if head.kind == "box"]
    if boxes:
        outside = jnp.concatenate([jnp.abs(rollout.action[..., part]) > 1.0 for part in boxes], -1).mean(-1)
        told["action_clip_fraction"] = (outside * weight_TN).sum() / count
    return told


def _observations(vector_TNV: jax.Array) -> dict[str, jax.Array]:
    """Before normalisation; resets are counted too: their observations are as real as the others'."""
    rows = vector_TNV.reshape(-1, vector_TNV.shape[-1])
    std_V = rows.std(0)
    varies_V = std_V > np.float32(1e-8)
    return {
        "obs_abs_max": jnp.abs(rows).max(),
        "obs_std_min": jnp.where(varies_V.any(), jnp.where(varies_V, std_V, jnp.inf).min(), 0.0),
        "obs_std_max": std_V.max(),
    }
