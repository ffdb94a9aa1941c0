"""The inputs of networks, and actor-critic networks as pairs of pure functions.

A network of your own is two functions in a `Network`: `init(key) -> params` (any tree of float32 arrays) and
`apply(params, inputs) -> (raw [B, P], values [B, K])`, where `inputs` is what `Inputs` makes of an observation.
Networks of images are in `convolutions`, those of replay learning in `replay_nets`, first weights in `initial_weights`.
"""

# B rows, V numbers of one observation, P raw outputs for the heads, K reward components.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs import spaces
from batchwright.envs.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Spec
from batchwright.nets.initial_weights import Layer, host_rng, orthogonal
from batchwright.planning.network_plan import has_channels_first, image_size

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu, "elu": jax.nn.elu}


class Network(NamedTuple):
    """An actor-critic: `apply` gives raw outputs for the heads and one value per reward component."""

    init: Callable[[jax.Array], Any]
    apply: Callable[[Any, Any], tuple[jax.Array, jax.Array]]


class Inputs:
    """The inputs a network gets from an observation: one vector of all its numbers, and its images."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        found = [(spaces.reader(path), leaf) for path, leaf in spaces.leaves(spec)]
        self.images = [(read, leaf) for read, leaf in found if spaces.is_image(leaf)]
        self.vectors = [(read, leaf) for read, leaf in found if not spaces.is_image(leaf)]
        self.vector_size = sum(_width(leaf) for _, leaf in self.vectors)
        self.image_shapes = [image_size(leaf.shape) for _, leaf in self.images]
        """(height, width, channels) of each image."""

    def vector(self, obs: Any) -> jax.Array:
        """All numbers of an observation as float32 [B, V]; choices one-hot."""
        parts = [_encode(leaf, read(obs)) for read, leaf in self.vectors]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts, -1)

    def __call__(self, obs: Any, normalise: Callable[[jax.Array], jax.Array]) -> Any:
        """[B, V] where there are only numbers; else {"vector", "images": [B, height, width, channels] each}."""
        return self.scaled(self.compact(obs, normalise))

    def compact(self, obs: Any, normalise: Callable[[jax.Array], jax.Array]) -> Any:
        """The same with images as bytes, a quarter of the memory: the form in which a rollout is kept."""
        if not self.images:
            return normalise(self.vector(obs))
        numbers = {"vector": normalise(self.vector(obs))} if self.vectors else {}
        return {"images": [channels_last(read(obs)) for read, _ in self.images], **numbers}

    def scaled(self, compact: Any) -> Any:
        """What networks take, from the result of `compact`: images as float32 from 0 to 1."""
        if not self.images:
            return compact
        return {**compact, "images": [image.astype(jnp.float32) / 255.0 for image in compact["images"]]}


def _width(leaf: spaces.Leaf) -> int:
    if isinstance(leaf, Discrete):
        return leaf.n
    if isinstance(leaf, MultiDiscrete):
        return sum(leaf.nvec)
    return leaf.n if isinstance(leaf, MultiBinary) else math.prod(leaf.shape)


def _encode(leaf: spaces.Leaf, value: jax.Array) -> jax.Array:
    if isinstance(leaf, Discrete):
        return jax.nn.one_hot(value, leaf.n, dtype=jnp.float32)
    if isinstance(leaf, MultiDiscrete):
        parts = [jax.nn.one_hot(value[..., k], n, dtype=jnp.float32) for k, n in enumerate(leaf.nvec)]
        return jnp.concatenate(parts, -1)
    rank = len(leaf.shape) if isinstance(leaf, Box) else 1
    flat = value.reshape(*value.shape[: value.ndim - rank], -1)
    return flat.astype(jnp.float32)


def channels_last(image: jax.Array) -> jax.Array:
    """An image with its channels last: EnvPool and frame stacks put them first."""
    return jnp.moveaxis(image, -3, -1) if has_channels_first(image.shape) else image


def run_tower(layers: Sequence[Layer], x: jax.Array, activation: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """The last layer's output, without an activation."""
    for layer in layers[:-1]:
        x = activation(x @ layer["w"] + layer["b"])
    out: jax.Array = x @ layers[-1]["w"] + layers[-1]["b"]
    return out


def mlp(
    inputs: int, raw_size: int, num_values: int, hidden: Sequence[int] = (64, 64), activation: str = "tanh"
) -> Network:
    """Actor and critic as separate towers of equal shape; their first layers are one matrix, which halves its cost."""
    act, sizes = ACTIVATIONS[activation], list(hidden)
    gain = math.sqrt(2)

    def init(key: jax.Array) -> Any:
        rng = host_rng(key)
        first = [orthogonal(rng, inputs, sizes[0], gain) for _ in range(2)]
        params: dict[str, Any] = {"first": {name: np.concatenate([f[name] for f in first], -1) for name in ("w", "b")}}
        for tower, out, out_gain in (("actor", raw_size, 0.01), ("critic", num_values, 1.0)):
            layers = [orthogonal(rng, a, b, gain) for a, b in pairwise(sizes)]
            params[tower] = [*layers, orthogonal(rng, sizes[-1], out, out_gain)]
        return params

    def apply(params: Any, x_BV: jax.Array) -> tuple[jax.Array, jax.Array]:
        both = act(x_BV @ params["first"]["w"] + params["first"]["b"])
        width = sizes[0]
        return run_tower(params["actor"], both[..., :width], act), run_tower(params["critic"], both[..., width:], act)

    return Network(init, apply)
