"""A policy: inputs, network and heads joined over one flat parameter vector.

The vector is what optimisers, checkpoints and digests see: one array instead of a tree, so that clipping, Adam and
the guard against non-finite numbers are each one operation.
"""

# B rows, K reward components, D numbers of one action, H heads.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.masks import Activity
from batchwright.envs.spaces import Spec
from batchwright.nets.heads import Heads, make_heads
from batchwright.nets.networks import Inputs, Network, channels_last, cnn, mlp
from batchwright.nets.normalise import OBS_CLIP, normalise_obs

NetworkMaker = Callable[[Inputs, int, int], Network]
"""(inputs, raw outputs needed, values needed) -> Network: what a user's own network is given as."""


class ObsStats(NamedTuple):
    """Frozen observation statistics [V] of one iteration; mean 0, std 1 and no limit where nothing is normalised."""

    mean: Any
    std: Any
    limit: Any = np.float32(OBS_CLIP)


class Outputs(NamedTuple):
    """What the network says of B observations."""

    raw: jax.Array  # [B, P]
    value: jax.Array  # [B, K]
    params: Any  # the heads' own parameters


@dataclass(frozen=True, eq=False)
class Policy:
    """Pure functions of a flat parameter vector."""

    inputs: Inputs
    network: Network
    heads: Heads
    num_values: int
    log_std_start: float
    unravel: Callable[[jax.Array], Any]

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

    def see(self, obs: Any, stats: ObsStats) -> Any:
        """What a rollout keeps of observations and `outputs` takes."""
        return self.inputs.kept(obs, lambda rows: normalise_obs(rows, *stats))

    def outputs(self, flat: jax.Array, seen: Any) -> Outputs:
        """Raw outputs and values for inputs made by `see`."""
        return self.outputs_of(self.unravel(flat), seen)

    def outputs_of(self, tree: Any, seen: Any) -> Outputs:
        """The same for parameters as a tree: differentiating by it is cheaper than by slices of a vector."""
        raw, value = self.network.apply(tree["net"], self.inputs.scaled(seen))
        return Outputs(raw, value * tree["value"]["scale"] + tree["value"]["shift"], tree["heads"])

    def outputs_in_turn(self, flat: jax.Array, seen_T: Any) -> Outputs:
        """The same for a whole rollout; images step by step, as the patches of all of them would not fit."""
        if not self.inputs.images:
            return self.outputs(flat, seen_T)
        raw, value = jax.lax.map(lambda seen: self.outputs(flat, seen)[:2], seen_T)
        return Outputs(raw, value, self.unravel(flat)["heads"])

    def value_only(self, key: jax.Array) -> np.ndarray:
        """True [parameters] where a parameter moves the values and not the actions, found by differentiating both."""
        flat = self.init(key)
        width = self.inputs.vector_size
        seen: Any = jnp.abs(jax.random.normal(key, (64, width), jnp.float32))
        if self.inputs.images:
            obs = [jax.random.uniform(key, (4, *leaf.shape)) * 255 for _, leaf in self.inputs.images]  # type: ignore[union-attr]
            seen = {"images": [channels_last(o) for o in obs]} | ({"vector": seen[:4]} if width else {})

        @jax.jit
        def moves(flat: jax.Array) -> tuple[jax.Array, ...]:
            def total(flat: jax.Array, which: str) -> jax.Array:
                return jnp.square(getattr(self.outputs(flat, seen), which) + 1.0).sum()

            return tuple(jax.grad(total)(flat, which) != 0 for which in ("raw", "value"))

        # A ReLU may be dead in fresh parameters: small positive ones on positive inputs pass every unit.
        alive = jax.random.uniform(key, flat.shape, jnp.float32, 0.01, 0.02)
        raw, value = (np.asarray(one | other) for one, other in zip(moves(flat), moves(alive), strict=True))
        return np.asarray(value & ~raw)

    def name_of(self, flat: np.ndarray, index: int) -> str:
        """The path of one entry of the flat vector in the parameter tree: for messages."""
        marked = np.zeros(flat.shape, np.float32)
        marked[index] = 1.0
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.unravel(jnp.asarray(marked))):
            if np.asarray(leaf).any():
                return jax.tree_util.keystr(path)
        return f"parameter {index}"


def make_policy(
    observation: Spec,
    action: Spec,
    *,
    num_values: int = 1,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    log_std_start: float = 0.0,
    network: NetworkMaker | None = None,
    activity: Mapping[str, Activity] | None = None,
) -> Policy:
    """The policy for a pair of spaces; `network` replaces the built-in one, `activity` is what the engine declares."""
    inputs, heads = Inputs(observation), make_heads(action, activity)
    if network is not None:
        net = network(inputs, heads.raw_size, num_values)
    elif inputs.images:
        net = cnn(inputs, heads.raw_size, num_values)
    else:
        net = mlp(inputs.vector_size, heads.raw_size, num_values, hidden, activation)
    policy = Policy(inputs, net, heads, num_values, log_std_start, lambda flat: flat)
    return replace(policy, unravel=unraveller(policy._init_tree(jax.random.key(0))))


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
