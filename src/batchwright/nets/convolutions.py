"""Networks of images: convolutions as products of patches, and the actor-critic made of them."""

# B rows, H W C height, width and channels of an image.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets.initial_weights import Layer, host_rng, orthogonal, uniform
from batchwright.nets.networks import Inputs, Network
from batchwright.planning.network_plan import CONV_FEATURES, conv_layers_for, too_small

StartLayer = Callable[[np.random.Generator, int, int], Layer]
"""(generator, rows, columns) -> a layer."""


def conv_layers(
    rng: np.random.Generator, image_HWC: tuple[int, ...], start: StartLayer = uniform
) -> tuple[list[Layer], int]:
    """(layers, width of their flattened output) for images of one shape; too small ones are refused."""
    height, width, channels = image_HWC
    planned = conv_layers_for(height, width)
    if planned is None:
        raise too_small(height, width)
    layers = []
    for filters, side, stride in planned:
        layers.append(start(rng, side * side * channels, filters))
        height, width, channels = (height - side) // stride + 1, (width - side) // stride + 1, filters
    return layers, height * width * channels


@jax.jit
def convolve(layers: Sequence[Layer], x_BHWC: jax.Array) -> jax.Array:
    """Flat features [B, F] of images.

    Each convolution is a product of patches and weights: XLA's own gradient of a convolution is slow on a CPU inside
    of a loop.
    """
    x = x_BHWC
    for layer, (_, side, stride) in zip(layers, conv_layers_for(*x.shape[1:3]) or (), strict=True):
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


def cnn(inputs: Inputs, raw_size: int, num_values: int, features: int = CONV_FEATURES) -> Network:
    """One convolutional trunk for actor and critic; numbers beside the images join after the convolutions."""
    gain = math.sqrt(2)

    def init(key: jax.Array) -> Any:
        rng = host_rng(key)
        convs = [
            conv_layers(rng, shape, lambda rng, rows, columns: orthogonal(rng, rows, columns, gain))
            for shape in inputs.image_shapes
        ]
        width = sum(size for _, size in convs) + inputs.vector_size
        return {
            "conv": [layers for layers, _ in convs],
            "trunk": orthogonal(rng, width, features, gain),
            "actor": orthogonal(rng, features, raw_size, 0.01),
            "critic": orthogonal(rng, features, num_values, 1.0),
        }

    def apply(params: Any, net_inputs: Any) -> tuple[jax.Array, jax.Array]:
        lead = net_inputs["images"][0].shape[:-3]
        parts = [
            convolve(layers, image.reshape(-1, *image.shape[-3:]))
            for layers, image in zip(params["conv"], net_inputs["images"], strict=True)
        ]
        if "vector" in net_inputs:
            parts.append(net_inputs["vector"].reshape(-1, inputs.vector_size))
        x = jax.nn.relu(jnp.concatenate(parts, -1) @ params["trunk"]["w"] + params["trunk"]["b"])
        raw, values = (x @ params[name]["w"] + params[name]["b"] for name in ("actor", "critic"))
        return raw.reshape(*lead, -1), values.reshape(*lead, -1)

    return Network(init, apply)
