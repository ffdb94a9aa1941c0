"""Which parameters of a policy move the values alone, and the name of a single parameter."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets.networks import channels_last
from batchwright.nets.policy import Policy


def value_only_params(policy: Policy, key: jax.Array) -> np.ndarray:
    """True [parameters] where a parameter moves the values and not the actions, found by differentiating both."""
    flat = policy.init(key)
    width = policy.inputs.vector_size
    inputs: Any = jnp.abs(jax.random.normal(key, (64, width), jnp.float32))
    if policy.inputs.images:
        obs = [jax.random.uniform(key, (4, *leaf.shape)) * 255 for _, leaf in policy.inputs.images]
        inputs = {"images": [channels_last(o) for o in obs]} | ({"vector": inputs[:4]} if width else {})

    @jax.jit
    def moves(flat: jax.Array) -> tuple[jax.Array, ...]:
        def total(flat: jax.Array, which: int) -> jax.Array:
            return jnp.square(policy.outputs(flat, inputs)[which] + 1.0).sum()

        return tuple(jax.grad(total)(flat, which) != 0 for which in range(2))  # raw outputs, values

    # A ReLU may be dead in fresh parameters: small positive ones on positive inputs pass every unit.
    alive = jax.random.uniform(key, flat.shape, jnp.float32, 0.01, 0.02)
    raw, value = (np.asarray(one | other) for one, other in zip(moves(flat), moves(alive), strict=True))
    return np.asarray(value & ~raw)


def param_name(policy: Policy, params: np.ndarray, index: int) -> str:
    """The path of one entry of the flat vector in the parameter tree: for messages."""
    marked = np.zeros(params.shape, np.float32)
    marked[index] = 1.0
    for path, leaf in jax.tree_util.tree_leaves_with_path(policy.unravel(jnp.asarray(marked))):
        if np.asarray(leaf).any():
            return jax.tree_util.keystr(path)
    return f"parameter {index}"
