"""Which parameters of a policy move the actions alone, or the values alone, and the name of a single parameter."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets.networks import channels_last
from batchwright.nets.policy import Policy

Ranges = tuple[tuple[int, int], ...]
"""[begin, end) of parts of the flat parameter vector."""


class ParamRoles(NamedTuple):
    """Arrays of parameters that only the actions depend on, and that only the values depend on."""

    policy: Ranges
    value: Ranges


def param_roles(policy: Policy) -> ParamRoles:
    """The roles by which outputs an array of parameters reaches in the traced program; nothing is compiled.

    A layer that actor and critic share has no role, nor has one that holds both side by side in one array.
    """
    flat = jax.ShapeDtypeStruct((policy.num_params,), jnp.float32)  # type: ignore[no-untyped-call]
    tree = jax.eval_shape(policy.unravel, flat)
    reached = [_reached_leaves(policy, tree, which) for which in (("raw", "params"), ("value",))]
    ranges: list[list[tuple[int, int]]] = [[], []]
    at = 0
    for number, leaf in enumerate(jax.tree.leaves(tree)):
        roles = [role for role in (0, 1) if number in reached[role]]
        if len(roles) == 1:
            ranges[roles[0]].append((at, at + leaf.size))
        at += leaf.size
    return ParamRoles(*(tuple(part) for part in ranges))


def _reached_leaves(policy: Policy, tree: Any, outputs: tuple[str, ...]) -> set[int]:
    """Numbers of the leaves that these outputs depend on: backwards through the program, line by line."""
    width, leaves = policy.inputs.vector_size, jax.tree.leaves(tree)
    images = [channels_last(jnp.zeros((1, *leaf.shape))) for _, leaf in policy.inputs.images]
    vector = jnp.zeros((1, width))
    inputs: Any = {"images": images} | ({"vector": vector} if width else {}) if images else vector
    rows = policy.first_steps(inputs)
    program = jax.make_jaxpr(lambda tree: [getattr(policy.outputs_of(tree, rows), name) for name in outputs])(tree)
    needed = {id(variable) for variable in program.jaxpr.outvars}
    for line in reversed(program.jaxpr.eqns):
        if any(id(variable) in needed for variable in line.outvars):
            needed |= {id(variable) for variable in line.invars}
    return {number for number in range(len(leaves)) if id(program.jaxpr.invars[number]) in needed}


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
            return jnp.square(policy.outputs(flat, policy.first_steps(inputs))[which] + 1.0).sum()

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
