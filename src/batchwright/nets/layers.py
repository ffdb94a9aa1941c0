"""Layers that networks are made of: dense towers, and convolutions as products of patches."""

# B rows, H W C height, width and channels of an image.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError

CONV_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Filters, side, stride: the network of Mnih et al., 2015."""
SMALLEST_SIDE = 36
"""Of an image that leaves something after these layers."""
CONV_FEATURES = 512

Layer = dict[str, Any]


def host_source(key: jax.Array) -> np.random.Generator:
    """A host generator that depends on the key alone; nothing to compile."""
    return np.random.Generator(np.random.PCG64(np.asarray(jax.random.key_data(key)).tolist()))


def dense(source: np.random.Generator, rows: int, columns: int) -> Layer:
    """Weights and bias, uniform within 1 / sqrt(rows): the start that published SAC and DQN figures go with."""
    bound = 1.0 / math.sqrt(max(rows, 1))
    return {
        "w": source.uniform(-bound, bound, (rows, columns)).astype(np.float32),
        "b": source.uniform(-bound, bound, columns).astype(np.float32),
    }


StartLayer = Callable[[np.random.Generator, int, int], Layer]
"""(source, rows, columns) -> a layer."""


def tower(source: np.random.Generator, inputs: int, hidden: Sequence[int], outputs: int) -> list[Layer]:
    """The layers of one network of vectors."""
    return [dense(source, a, b) for a, b in pairwise((inputs, *hidden, outputs))]


def run_tower(layers: Sequence[Layer], x: jax.Array, activation: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """The last layer's output, without an activation."""
    for layer in layers[:-1]:
        x = activation(x @ layer["w"] + layer["b"])
    out: jax.Array = x @ layers[-1]["w"] + layers[-1]["b"]
    return out


def conv_layers(
    source: np.random.Generator, image_HWC: tuple[int, ...], start: StartLayer = dense
) -> tuple[list[Layer], int]:
    """(layers, width of their flattened output) for images of one shape; too small ones are refused."""
    height, width, channels = image_HWC
    if min(height, width) < SMALLEST_SIDE:
        raise UserError(
            f"images of {height} x {width} are too small to convolve: a side needs {SMALLEST_SIDE}.",
            ["wrap the environment: resize, or flatten to numbers", "batchwright.train(..., network=your_own)"],
        )
    layers = []
    for filters, side, stride in CONV_LAYERS:
        layers.append(start(source, side * side * channels, filters))
        height, width, channels = (height - side) // stride + 1, (width - side) // stride + 1, filters
    return layers, height * width * channels


@jax.jit
def convolve(layers: Sequence[Layer], x_BHWC: jax.Array) -> jax.Array:
    """Flat features [B, F] of images.

    Each convolution is a product of patches and weights: XLA's own gradient of a convolution is slow on a CPU inside
    of a loop.
    """
    x = x_BHWC
    for layer, (_, side, stride) in zip(layers, CONV_LAYERS, strict=True):
        x = jax.nn.relu(patches(x, side, stride) @ layer["w"] + layer["b"])
    return x.reshape(x.shape[0], -1)


def patches(x_BHWC: jax.Array, side: int, stride: int) -> jax.Array:
    """All squares of an image as rows [B, H', W', side x side x C].

    The image is cut into blocks of one stride first (of one pixel where that does not divide the side): a square is
    then a few neighbouring blocks, and its gradient a few additions instead of one for every pixel.
    """
    images, height, width, channels = x_BHWC.shape
    rows, columns = (height - side) // stride + 1, (width - side) // stride + 1
    block = stride if side % stride == 0 else 1
    across, hop = side // block, stride // block
    down, right = (hop * (count - 1) + across for count in (rows, columns))
    blocks = x_BHWC[:, : down * block, : right * block].reshape(images, down, block, right, block, channels)
    cuts = [
        blocks[:, i : i + hop * (rows - 1) + 1 : hop, :, j : j + hop * (columns - 1) + 1 : hop]
        for i in range(across)
        for j in range(across)
    ]
    near = jnp.stack(cuts).reshape(across, across, images, rows, block, columns, block, channels)
    return near.transpose(2, 3, 5, 0, 4, 1, 6, 7).reshape(images, rows, columns, side * side * channels)
