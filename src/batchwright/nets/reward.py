"""The reward network of return decomposition: a number for every step, from [s, a, s - s']."""

# B rows, D numbers of one action, V numbers of one observation.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batchwright.envs import spaces
from batchwright.envs.spaces import Box, Spec
from batchwright.nets.heads import Heads, make_heads
from batchwright.nets.layers import CONV_FEATURES, conv_layers, convolve, dense, host_source, run_tower, tower
from batchwright.nets.networks import Inputs, channels_last


class RewardNetwork(NamedTuple):
    """A pair of pure functions."""

    init: Callable[[jax.Array], Any]
    """key -> parameters."""
    apply: Callable[[Any, Any, jax.Array, Any], jax.Array]
    """(parameters, observations [B, ...], actions [B, D], next observations) -> rewards [B]."""


def make_reward_network(observation: Spec, action: Spec, hidden: Sequence[int] = (256, 256)) -> RewardNetwork:
    """The reward network for a pair of spaces; actions are flat as heads give them, boxes in units of half their range.

    Images: both [s, s - s'] stacked as channels through convolutions; actions and numbers join after them.
    """
    inputs, heads = Inputs(observation), make_heads(action)
    width = 2 * inputs.vector_size + encoded_action_size(heads)
    shapes = [image_shape(leaf.shape) for _, leaf in inputs.images if isinstance(leaf, Box)]

    def init(key: jax.Array) -> Any:
        source = host_source(key)
        if not shapes:
            return {"tower": tower(source, width, hidden, 1)}
        convs = [conv_layers(source, (h, w, 2 * c)) for h, w, c in shapes]
        joined = sum(size for _, size in convs) + width
        return {
            "conv": [layers for layers, _ in convs],
            "tower": [dense(source, joined, CONV_FEATURES), dense(source, CONV_FEATURES, 1)],
        }

    def apply(params: Any, obs: Any, action_BD: jax.Array, next_obs: Any) -> jax.Array:
        parts = [encode_action(heads, action_BD)]
        if inputs.vectors:
            now, after = inputs.vector(obs), inputs.vector(next_obs)
            parts = [now, *parts, now - after]
        for number, (path, _) in enumerate(inputs.images):
            now, after = (channels_last(spaces.value_at(tree, path)) / 255.0 for tree in (obs, next_obs))
            parts.append(convolve(params["conv"][number], jnp.concatenate([now, now - after], -1)))
        return run_tower(params["tower"], jnp.concatenate(parts, -1), jax.nn.relu)[..., 0]

    return RewardNetwork(init, apply)


def encode_action(heads: Heads, action_BD: jax.Array) -> jax.Array:
    """Actions as networks take them: choices one-hot, the rest as it is."""
    parts = []
    for head in heads.heads:
        part = action_BD[..., head.action]
        if head.kind == "choice":
            part = jax.nn.one_hot(part[..., 0].astype(jnp.int32), head.raw.stop - head.raw.start, dtype=jnp.float32)
        parts.append(part)
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, -1)


def encoded_action_size(heads: Heads) -> int:
    """Numbers of one encoded action."""
    return sum(head.raw.stop - head.raw.start for head in heads.heads)


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(height, width, channels) of an image's shape, wherever its channels are."""
    moved = jax.eval_shape(channels_last, jax.ShapeDtypeStruct((1, *shape), jnp.uint8)).shape  # type: ignore[no-untyped-call]
    return moved[1], moved[2], moved[3]
