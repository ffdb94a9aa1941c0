"""Actor-critic networks as pairs of pure functions.

A network of your own is two functions in a `Network`: `init(key) -> params` (any tree of float32 arrays) and
`apply(params, inputs) -> (raw [B, P], values [B, K])`, where `inputs` is what `Inputs` makes of an observation.
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
from batchwright.nets.layers import conv_layers, convolve

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu, "elu": jax.nn.elu}


class Network(NamedTuple):
    """An actor-critic: `apply` gives raw outputs for the heads and one value per reward component."""

    init: Callable[[jax.Array], Any]
    apply: Callable[[Any, Any], tuple[jax.Array, jax.Array]]


class Inputs:
    """What a network sees of an observation: one vector of all its numbers, and its images."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        found = spaces.leaves(spec)
        self.images = [(path, leaf) for path, leaf in found if spaces.is_image(leaf)]
        self.vectors = [(path, leaf) for path, leaf in found if not spaces.is_image(leaf)]
        self.vector_size = sum(_width(leaf) for _, leaf in self.vectors)

    def vector(self, obs: Any) -> jax.Array:
        """All numbers of an observation as float32 [B, V]; choices one-hot."""
        parts = [_encode(leaf, spaces.value_at(obs, path)) for path, leaf in self.vectors]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts, -1)

    def __call__(self, obs: Any, normalise: Callable[[jax.Array], jax.Array]) -> Any:
        """[B, V] where there are only numbers; else {"vector", "images": [B, height, width, channels] each}."""
        return self.scaled(self.kept(obs, normalise))

    def kept(self, obs: Any, normalise: Callable[[jax.Array], jax.Array]) -> Any:
        """The same with images as bytes, a quarter of the memory: what a rollout is kept as."""
        if not self.images:
            return normalise(self.vector(obs))
        images = [_channels_moved(spaces.value_at(obs, path)) for path, _ in self.images]
        numbers = {"vector": normalise(self.vector(obs))} if self.vectors else {}
        return {"images": images, **numbers}

    def scaled(self, kept: Any) -> Any:
        """What networks take, from what `kept` made: images as float32 from 0 to 1."""
        if not self.images:
            return kept
        return {**kept, "images": [image.astype(jnp.float32) / 255.0 for image in kept["images"]]}


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
    """An image as float32 with its channels last."""
    return _channels_moved(image).astype(jnp.float32)


def _channels_moved(image: jax.Array) -> jax.Array:
    """EnvPool and frame stacks put channels first; a side of at most 16 in front of two larger ones is channels."""
    first, last = image.shape[-3], image.shape[-1]
    return jnp.moveaxis(image, -3, -1) if first <= 16 < last else image


def _struct(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _source(key: jax.Array) -> np.random.Generator:
    """A host generator that depends on the key alone: JAX would compile a QR decomposition for every shape."""
    return np.random.Generator(np.random.PCG64(np.asarray(jax.random.key_data(key)).tolist()))


def _layer(source: np.random.Generator, rows: int, columns: int, gain: float) -> dict[str, np.ndarray]:
    """Weights with orthonormal rows or columns times `gain`, and no bias."""
    q, r = np.linalg.qr(source.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    weights = gain * (q if rows >= columns else q.T)
    return {"w": weights.astype(np.float32), "b": np.zeros(columns, np.float32)}


def mlp(
    inputs: int, raw_size: int, num_values: int, hidden: Sequence[int] = (64, 64), activation: str = "tanh"
) -> Network:
    """Actor and critic as separate towers of equal shape; their first layers are one matrix, which halves its cost."""
    act, sizes = ACTIVATIONS[activation], list(hidden)
    gain = math.sqrt(2)

    def init(key: jax.Array) -> Any:
        source = _source(key)
        first = [_layer(source, inputs, sizes[0], gain) for _ in range(2)]
        params: dict[str, Any] = {"first": {name: np.concatenate([f[name] for f in first], -1) for name in ("w", "b")}}
        for tower, out, out_gain in (("actor", raw_size, 0.01), ("critic", num_values, 1.0)):
            layers = [_layer(source, a, b, gain) for a, b in pairwise(sizes)]
            params[tower] = [*layers, _layer(source, sizes[-1], out, out_gain)]
        return params

    def tower(layers: Any, x: jax.Array) -> jax.Array:
        for layer in layers[:-1]:
            x = act(x @ layer["w"] + layer["b"])
        out: jax.Array = x @ layers[-1]["w"] + layers[-1]["b"]
        return out

    def apply(params: Any, x_BV: jax.Array) -> tuple[jax.Array, jax.Array]:
        both = act(x_BV @ params["first"]["w"] + params["first"]["b"])
        width = sizes[0]
        return tower(params["actor"], both[..., :width]), tower(params["critic"], both[..., width:])

    return Network(init, apply)


def cnn(spec: Inputs, raw_size: int, num_values: int, features: int = 512) -> Network:
    """One convolutional trunk for actor and critic; numbers beside the images join after the convolutions."""
    shapes = [leaf.shape for _, leaf in spec.images if isinstance(leaf, Box)]

    def init_conv(source: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, int]:
        image = jax.eval_shape(channels_last, _struct((1, *shape), jnp.uint8)).shape[1:]
        return conv_layers(source, image, lambda source, rows, columns: _layer(source, rows, columns, math.sqrt(2)))

    def init(key: jax.Array) -> Any:
        source = _source(key)
        convs = [init_conv(source, shape) for shape in shapes]
        width = sum(size for _, size in convs) + spec.vector_size
        return {
            "conv": [layers for layers, _ in convs],
            "trunk": _layer(source, width, features, math.sqrt(2)),
            "actor": _layer(source, features, raw_size, 0.01),
            "critic": _layer(source, features, num_values, 1.0),
        }

    def apply(params: Any, inputs: Any) -> tuple[jax.Array, jax.Array]:
        lead = inputs["images"][0].shape[:-3]
        seen = [
            convolve(p, x.reshape(-1, *x.shape[-3:])) for p, x in zip(params["conv"], inputs["images"], strict=True)
        ]
        if "vector" in inputs:
            seen.append(inputs["vector"].reshape(-1, spec.vector_size))
        x = jax.nn.relu(jnp.concatenate(seen, -1) @ params["trunk"]["w"] + params["trunk"]["b"])
        raw, values = (x @ params[name]["w"] + params[name]["b"] for name in ("actor", "critic"))
        return raw.reshape(*lead, -1), values.reshape(*lead, -1)

    return Network(init, apply)
