"""A policy: inputs, network, heads and the environment's form of actions, joined over one flat parameter vector.

The vector is what optimisers, checkpoints and digests see: one array instead of a tree, so that clipping, Adam and
the guard against non-finite numbers are each one operation.
"""

# B rows, K reward components, D numbers of one action, H heads.

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs import spaces
from batchwright.envs.spaces import Box, Discrete, Spec
from batchwright.nets.heads import Heads
from batchwright.nets.networks import Inputs, Network
from batchwright.nets.normalise import ObsStats, normalise_obs

NetworkMaker = Callable[[Inputs, int, int], Network]
"""(inputs, raw outputs needed, values needed) -> Network: what a user's own network is given as."""


class Outputs(NamedTuple):
    """What the network gives for B observations."""

    raw: jax.Array  # [B, P]
    value: jax.Array  # [B, K]
    params: Any  # the heads' own parameters


@dataclass(frozen=True, eq=False)
class Policy:
    """Pure functions of a flat parameter vector."""

    inputs: Inputs
    network: Network
    heads: Heads
    to_env: Callable[[jax.Array], Any]
    """Flat actions [B, D] -> the canonical tree that engines take; boxes are clipped and scaled to their bounds."""
    num_values: int
    log_std_start: float
    unravel: Callable[[jax.Array], Any]
    num_params: int = 0

    def init(self, key: jax.Array) -> jax.Array:
        """A fresh parameter vector."""
        return self.ravel(self._init_tree(key))

    def ravel(self, tree: Any) -> jax.Array:
        """A parameter tree as one vector; `unravel` is the way back."""
        return jnp.asarray(np.concatenate([np.asarray(leaf, np.float32).ravel() for leaf in jax.tree.leaves(tree)]))

    def _init_tree(self, key: jax.Array) -> Any:
        # The last affine map on the values is ours, so that PopArt can keep outputs whatever the network is.
        affine = {"scale": np.ones(self.num_values, np.float32), "shift": np.zeros(self.num_values, np.float32)}
        return {"net": self.network.init(key), "heads": self.heads.init(self.log_std_start), "value": affine}

    def preprocess(self, obs: Any, stats: ObsStats) -> Any:
        """What a rollout keeps of observations and `outputs` takes."""
        return self.inputs.compact(obs, lambda rows: normalise_obs(rows, *stats))

    def initial_memory(self, num_envs: int) -> Any:
        """What is remembered when episodes begin; None, here and below, for a policy without memory."""

    def first_steps(self, inputs: Any) -> Any:
        """Rows that `outputs_of` takes, from the inputs of observations that each begin an episode."""
        return inputs

    def step(self, flat: jax.Array, inputs: Any, memory: Any) -> tuple[Outputs, Any]:
        """Outputs for one step of all environments, and what is remembered after it."""
        return self.outputs(flat, inputs), memory

    def outputs(self, flat: jax.Array, inputs: Any) -> Outputs:
        """Raw outputs and values for inputs made by `preprocess`."""
        return self.outputs_of(self.unravel(flat), inputs)

    def outputs_of(self, tree: Any, inputs: Any) -> Outputs:
        """The same for parameters as a tree: differentiating by it is cheaper than by slices of a vector."""
        raw, value = self.network.apply(tree["net"], self.inputs.scaled(inputs))
        return Outputs(raw, value * tree["value"]["scale"] + tree["value"]["shift"], tree["heads"])

    def outputs_in_turn(self, flat: jax.Array, inputs_T: Any) -> Outputs:
        """The same for a whole rollout; images step by step, as the patches of all of them would not fit."""
        if not self.inputs.images:
            return self.outputs(flat, inputs_T)
        raw, value = jax.lax.map(lambda inputs: self.outputs(flat, inputs)[:2], inputs_T)
        return Outputs(raw, value, self.unravel(flat)["heads"])


PolicyT = TypeVar("PolicyT", bound=Policy)


def assemble_policy(
    inputs: Inputs,
    network: Any,
    heads: Heads,
    num_values: int = 0,
    log_std_start: float = 0.0,
    kind: type[PolicyT] = Policy,  # type: ignore[assignment]
) -> PolicyT:
    """The policy of these parts; without values where critics, if there are any, are apart."""
    policy = kind(inputs, network, heads, make_to_env(heads.spec), num_values, log_std_start, lambda flat: flat)
    tree = policy._init_tree(jax.random.key(0))
    return replace(policy, unravel=unraveller(tree), num_params=sum(np.size(leaf) for leaf in jax.tree.leaves(tree)))


def make_to_env(spec: Spec) -> Callable[[jax.Array], Any]:
    """The function from flat actions to those of the environment (`Policy.to_env`)."""
    parts, at = [], 0
    for _, leaf in spaces.leaves(spec):
        size = math.prod(spaces.leaf_shape(leaf))
        parts.append(_ActionLeaf(slice(at, at + size), leaf))
        at += size
    tree = spaces.unflatten(spec, parts)
    return lambda action_BD: jax.tree.map(lambda part: part.to_env(action_BD), tree)


@dataclass(frozen=True, eq=False)
class _ActionLeaf:
    """Where one leaf of the action space lies in a flat action."""

    where: slice
    leaf: spaces.Leaf

    def to_env(self, action_BD: jax.Array) -> jax.Array:
        part = action_BD[..., self.where]
        if isinstance(self.leaf, Discrete):
            return part[..., 0].astype(jnp.int32)
        if not isinstance(self.leaf, Box):
            return part.astype(jnp.int32)
        value = part.reshape(*part.shape[:-1], *self.leaf.shape)
        middle, half, low, high, bounded = action_bounds(self.leaf)
        if not bounded.any():
            return value
        scaled = middle + half * jnp.clip(value, -1.0, 1.0)
        # Rounding must not step over the bound.
        return jnp.where(bounded, jnp.clip(scaled, low, high), value)


def action_bounds(leaf: Box) -> tuple[np.ndarray, ...]:
    """(middle, half range, low, high, whether bounded) of a box of actions, float32; low and high 0 where unbounded."""
    bounded = np.isfinite(leaf.low)
    low = _inside(np.where(bounded, leaf.low, 0.0), np.inf)
    high = _inside(np.where(bounded, leaf.high, 0.0), -np.inf)
    return (low + high) / 2, (high - low) / 2, low, high, bounded


def _inside(bound: np.ndarray, inwards: float) -> np.ndarray:
    """A bound as float32; where rounding would step over a float64 one, the next number inside."""
    near = bound.astype(np.float32)
    over = near.astype(bound.dtype) < bound if inwards > 0 else near.astype(bound.dtype) > bound
    return np.where(over, np.nextafter(near, np.float32(inwards)), near)


def join_leaves(tree: Any) -> jax.Array:
    """All leaves of a tree as one vector: the way back from what `unraveller` gives, traceable."""
    return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(tree)])


def unraveller(tree: Any) -> Callable[[jax.Array], Any]:
    """The way back from `Policy.ravel`, traceable."""
    leaves, structure = jax.tree.flatten(tree)
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()

    @jax.custom_vjp
    def unravel(flat: jax.Array) -> Any:
        starts = [0, *ends[:-1]]
        parts = [flat[a:b].reshape(shape) for a, b, shape in zip(starts, ends, shapes, strict=True)]
        return jax.tree.unflatten(structure, parts)

    def join(_: None, gradient: Any) -> tuple[jax.Array]:
        return (join_leaves(gradient),)

    # Its own gradient would add up one padded vector per leaf.
    unravel.defvjp(lambda flat: (unravel(flat), None), join)
    return unravel
