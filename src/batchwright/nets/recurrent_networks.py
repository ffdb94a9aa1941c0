"""Actor-critic networks with memory: an encoder, a GRU or LSTM, and towers that read what is remembered.

Actor and critic share the memory. Encoder and towers work on any leading axes, so that over a sequence only the step of
the cell is taken in turn.
"""

# B rows of any leading axes, F features of one observation, U units of the memory, S numbers of one state (U or 2 U).

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets.convolutions import conv_layers, convolve
from batchwright.nets.initial_weights import Layer, host_rng, orthogonal
from batchwright.nets.networks import ACTIVATIONS, Inputs, run_tower
from batchwright.planning.network_plan import CONV_FEATURES

HIDDEN_GAIN, ACTION_GAIN = math.sqrt(2), 0.01


class RecurrentNetwork(NamedTuple):
    """An actor-critic that remembers: one vector per environment, 0 at the start of an episode."""

    init: Callable[[jax.Array], Any]
    state_size: int
    """Numbers that are remembered."""
    encode: Callable[[Any, Any], jax.Array]
    """(parameters, inputs) -> what the cell takes of each observation [B, G]."""
    advance: Callable[[Any, jax.Array, jax.Array], jax.Array]
    """(parameters, state [B, S], encoded [B, G]) -> the state after this observation."""
    read: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]
    """(parameters, state [B, S]) -> (raw outputs [B, P], values [B, K])."""


class Cell(NamedTuple):
    """A recurrent cell of U units."""

    gates: int
    """Products of U numbers each that one step needs."""
    states: int
    """Vectors of U numbers that are remembered; the first of them is read."""
    init: Callable[[np.random.Generator, int, int], Layer]
    advance: Callable[[Layer, jax.Array, jax.Array], jax.Array]


def gru_step(cell: Layer, state_BU: jax.Array, encoded_BG: jax.Array) -> jax.Array:
    """One step of a gated recurrent unit (Cho et al., 2014), in the form of cuDNN and PyTorch."""
    units = state_BU.shape[-1]
    inner = state_BU @ cell["u"] + cell["c"]
    reset, keep = jnp.split(jax.nn.sigmoid(encoded_BG[..., : 2 * units] + inner[..., : 2 * units]), 2, -1)
    candidate = jnp.tanh(encoded_BG[..., 2 * units :] + reset * inner[..., 2 * units :])
    return candidate + keep * (state_BU - candidate)


def lstm_step(cell: Layer, state_BS: jax.Array, encoded_BG: jax.Array) -> jax.Array:
    """One step of a long short-term memory (Hochreiter and Schmidhuber, 1997; Gers et al., 2000)."""
    output, inside = jnp.split(state_BS, 2, -1)
    enter, forget, show, candidate = jnp.split(encoded_BG + output @ cell["u"] + cell["c"], 4, -1)
    inside = jax.nn.sigmoid(forget) * inside + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
    return jnp.concatenate([jax.nn.sigmoid(show) * jnp.tanh(inside), inside], -1)


def _start_cell(gates: int, rng: np.random.Generator, features: int, units: int) -> Layer:
    """`w`, `b` of the observation, `u`, `c` of the state: uniform within 1 / sqrt(units), as PyTorch starts cells.

    Orthonormal gates that begin by remembering learned CartPole without velocities half as fast (docs/log.md).
    """
    bound = 1.0 / math.sqrt(units)
    shapes: dict[str, tuple[int, ...]] = {"w": (features, gates * units), "b": (gates * units,)}
    shapes |= {"u": (units, gates * units), "c": (gates * units,)}
    return {name: rng.uniform(-bound, bound, shape).astype(np.float32) for name, shape in shapes.items()}


CELLS = {"gru": Cell(3, 1, partial(_start_cell, 3), gru_step), "lstm": Cell(4, 2, partial(_start_cell, 4), lstm_step)}


def recurrent_network(
    inputs: Inputs,
    raw_size: int,
    num_values: int,
    memory: str,
    memory_size: int,
    hidden: Sequence[int] = (64, 64),
    activation: str = "tanh",
) -> RecurrentNetwork:
    """The first hidden layer encodes the observation, the others follow the memory, for actor and critic apart.

    Images are encoded by convolutions, and actor and critic are one layer each.
    """
    cell, after = CELLS[memory], [] if inputs.images else list(hidden[1:])
    act = ACTIVATIONS["relu" if inputs.images else activation]

    def init(key: jax.Array) -> Any:
        rng = host_rng(key)
        params, features = _start_encoder(rng, inputs, CONV_FEATURES if inputs.images else hidden[0])
        params["cell"] = cell.init(rng, features, memory_size)
        for tower, out, gain in (("actor", raw_size, ACTION_GAIN), ("critic", num_values, 1.0)):
            layers = [orthogonal(rng, a, b, HIDDEN_GAIN) for a, b in pairwise((memory_size, *after))]
            params[tower] = [*layers, orthogonal(rng, (memory_size, *after)[-1], out, gain)]
        return params

    def encode(params: Any, net_inputs: Any) -> jax.Array:
        x = _joined(params, inputs, net_inputs)
        x = act(x @ params["encoder"]["w"] + params["encoder"]["b"])
        encoded: jax.Array = x @ params["cell"]["w"] + params["cell"]["b"]
        return encoded

    def advance(params: Any, state_BS: jax.Array, encoded_BG: jax.Array) -> jax.Array:
        return cell.advance(params["cell"], state_BS, encoded_BG)

    def read(params: Any, state_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = state_BS[..., :memory_size]
        return run_tower(params["actor"], x, act), run_tower(params["critic"], x, act)

    return RecurrentNetwork(init, cell.states * memory_size, encode, advance, read)


def _start_encoder(rng: np.random.Generator, inputs: Inputs, features: int) -> tuple[dict[str, Any], int]:
    """(parameters of the encoder, the features that it gives)."""
    convs = [
        conv_layers(rng, shape, lambda rng, rows, columns: orthogonal(rng, rows, columns, HIDDEN_GAIN))
        for shape in inputs.image_shapes
    ]
    width = sum(size for _, size in convs) + inputs.vector_size
    params: dict[str, Any] = {"conv": [layers for layers, _ in convs]} if convs else {}
    return params | {"encoder": orthogonal(rng, width, features, HIDDEN_GAIN)}, features


def _joined(params: Any, inputs: Inputs, net_inputs: Any) -> jax.Array:
    """All numbers of an observation and the features of its images, side by side [B, ...]."""
    if not inputs.images:
        vector: jax.Array = net_inputs
        return vector
    lead = net_inputs["images"][0].shape[:-3]
    parts = [
        convolve(layers, image.reshape(-1, *image.shape[-3:])).reshape(*lead, -1)
        for layers, image in zip(params["conv"], net_inputs["images"], strict=True)
    ]
    return jnp.concatenate([*parts, net_inputs["vector"]] if "vector" in net_inputs else parts, -1)
