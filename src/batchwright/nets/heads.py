"""From a network's raw output to actions: one head per leaf of the action space, joined by summing log-probs.

Inside the learner an action is one flat float32 vector (choices as whole numbers, boxes in units of half their range,
before clipping); `to_env` turns it into the tree that engines take.
"""

# B any leading axes, P raw outputs, D numbers of one action, H heads.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Spec

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
SMALLEST_DRAW = np.float32(2**-25)
"""Half the step between float32 draws: stands for 0, whose logarithm would be an action that nobody would choose."""
LOG_STD_RANGE = (-5.0, 2.0)


@dataclass(frozen=True)
class Head:
    """One independent part of an action: where it reads the raw output and where it writes the action."""

    name: str
    kind: str
    """`choice`, `bits` or `box`."""
    raw: slice
    action: slice
    std: slice
    """Where a box keeps its log standard deviations among all of them; empty for the others."""


@dataclass(frozen=True, eq=False)
class Heads:
    """All heads of an action space."""

    spec: Spec
    heads: tuple[Head, ...]
    raw_size: int
    action_size: int
    std_size: int

    def init(self, log_std: float) -> dict[str, np.ndarray]:
        """Parameters of their own: one log standard deviation per box dimension, the same in every state."""
        return {"log_std": np.full(self.std_size, log_std, np.float32)}

    def noise(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """The randomness of `shape` actions, drawn at once: Gumbel for choices, logistic for bits, normal for boxes.

        Drawn on the host: quicker on a CPU than JAX's generator, and nothing to compile.
        """
        source = np.random.Generator(np.random.SFC64(stream))
        return tuple(_draw(source, head, (*shape, head.raw.stop - head.raw.start)) for head in self.heads)

    def no_noise(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Noise with which `sample` gives the most likely action: exploration off."""
        return tuple(np.zeros((*shape, head.raw.stop - head.raw.start), np.float32) for head in self.heads)

    def sample(self, params: Any, raw_BP: jax.Array, noise: tuple[jax.Array, ...]) -> jax.Array:
        """Actions [B, D] of the policy with the given noise."""
        parts = []
        for head, eps in zip(self.heads, noise, strict=True):
            out = raw_BP[..., head.raw]
            if head.kind == "choice":
                parts.append(jnp.argmax(out + eps, -1, keepdims=True).astype(jnp.float32))
            elif head.kind == "bits":
                parts.append((out + eps > 0).astype(jnp.float32))
            else:
                parts.append(out + jnp.exp(_log_std(params, head)) * eps)
        return _join(parts)

    def log_prob(self, params: Any, raw_BP: jax.Array, action_BD: jax.Array) -> jax.Array:
        """Log-probabilities per head [B, H]; the joint one is their sum."""
        return jnp.stack([_log_prob(head, params, raw_BP, action_BD) for head in self.heads], -1)

    def entropy(self, params: Any, raw_BP: jax.Array) -> jax.Array:
        """Entropies per head [B, H]."""
        return jnp.stack([_entropy(head, params, raw_BP) for head in self.heads], -1)

    def to_env(self, action_BD: jax.Array) -> Any:
        """The tree of canonical arrays that engines take; boxes are clipped and scaled to their bounds."""
        values = []
        at = 0
        for _, leaf in spaces.leaves(self.spec):
            size = math.prod(spaces.leaf_shape(leaf)) if spaces.leaf_shape(leaf) else 1
            part = action_BD[..., at : at + size]
            at += size
            values.append(_to_leaf(leaf, part))
        return spaces.unflatten(self.spec, values)


def _draw(source: np.random.Generator, head: Head, shape: tuple[int, ...]) -> np.ndarray:
    if head.kind == "box":
        return source.standard_normal(shape, np.float32)
    # 1 - u is in (0, 1]: its logarithm is finite.
    u = 1.0 - source.random(shape, np.float32)
    if head.kind == "choice":
        return np.asarray(-np.log(np.maximum(-np.log(u), SMALLEST_DRAW)))
    return np.asarray(np.log(u) - np.log(np.maximum(1.0 - u, SMALLEST_DRAW)))


def make_heads(spec: Spec) -> Heads:
    """Heads for every leaf: one per choice, one per group of bits, one per box."""
    heads: list[Head] = []
    raw = action = std = 0
    for path, leaf in spaces.leaves(spec):
        name = spaces.path_name(path) or "action"
        if isinstance(leaf, (Discrete, MultiDiscrete)):
            choices = (leaf.n,) if isinstance(leaf, Discrete) else leaf.nvec
            for k, n in enumerate(choices):
                label = name if isinstance(leaf, Discrete) else f"{name}[{k}]"
                heads.append(Head(label, "choice", slice(raw, raw + n), slice(action, action + 1), slice(std, std)))
                raw, action = raw + n, action + 1
            continue
        size = leaf.n if isinstance(leaf, MultiBinary) else math.prod(leaf.shape)
        kind = "bits" if isinstance(leaf, MultiBinary) else "box"
        width = size if kind == "box" else 0
        if isinstance(leaf, Box):
            _refuse_half_bounded(name, leaf)
        heads.append(Head(name, kind, slice(raw, raw + size), slice(action, action + size), slice(std, std + width)))
        raw, action, std = raw + size, action + size, std + width
    return Heads(spec, tuple(heads), raw, action, std)


def _refuse_half_bounded(name: str, leaf: Box) -> None:
    if leaf.dtype.kind != "f":
        raise UserError(
            f"the action {name} is a Box of {leaf.dtype}; a Box of floats is supported.",
            ["wrap the environment: Discrete or MultiDiscrete for whole numbers"],
        )
    finite = np.isfinite(leaf.low), np.isfinite(leaf.high)
    if not np.array_equal(*finite):
        raise UserError(
            f"the action {name} is bounded on one side only.",
            ["wrap the environment with bounds on both sides, or none"],
        )


def _log_std(params: Any, head: Head) -> jax.Array:
    return jnp.clip(params["log_std"][head.std], *LOG_STD_RANGE)


def _log_prob(head: Head, params: Any, raw: jax.Array, action: jax.Array) -> jax.Array:
    out, taken = raw[..., head.raw], action[..., head.action]
    if head.kind == "choice":
        index = taken.astype(jnp.int32)
        return jnp.take_along_axis(jax.nn.log_softmax(out), index, -1)[..., 0]
    if head.kind == "bits":
        return (taken * jax.nn.log_sigmoid(out) + (1 - taken) * jax.nn.log_sigmoid(-out)).sum(-1)
    log_std = _log_std(params, head)
    return (-0.5 * jnp.square((taken - out) * jnp.exp(-log_std)) - log_std - HALF_LOG_TWO_PI).sum(-1)


def _entropy(head: Head, params: Any, raw: jax.Array) -> jax.Array:
    out = raw[..., head.raw]
    if head.kind == "choice":
        log_p = jax.nn.log_softmax(out)
        return -(jnp.exp(log_p) * log_p).sum(-1)
    if head.kind == "bits":
        p = jax.nn.sigmoid(out)
        return -(p * jax.nn.log_sigmoid(out) + (1 - p) * jax.nn.log_sigmoid(-out)).sum(-1)
    per_state = (_log_std(params, head) + 0.5 + HALF_LOG_TWO_PI).sum()
    return jnp.broadcast_to(per_state, out.shape[:-1])


def _to_leaf(leaf: spaces.Leaf, part: jax.Array) -> jax.Array:
    if isinstance(leaf, Discrete):
        return part[..., 0].astype(jnp.int32)
    if isinstance(leaf, (MultiDiscrete, MultiBinary)):
        return part.astype(jnp.int32)
    value = part.reshape(*part.shape[:-1], *leaf.shape)
    bounded = np.isfinite(leaf.low)
    if not bounded.any():
        return value
    low = _inside(np.where(bounded, leaf.low, 0.0), np.inf)
    high = _inside(np.where(bounded, leaf.high, 0.0), -np.inf)
    scaled = (low + high) / 2 + (high - low) / 2 * jnp.clip(value, -1.0, 1.0)
    # Rounding must not step over the bound.
    return jnp.where(bounded, jnp.clip(scaled, low, high), value)


def _inside(bound: np.ndarray, inwards: float) -> np.ndarray:
    """A bound as float32; where rounding would step over a float64 one, the next number inside."""
    near = bound.astype(np.float32)
    over = near.astype(bound.dtype) < bound if inwards > 0 else near.astype(bound.dtype) > bound
    return np.where(over, np.nextafter(near, np.float32(inwards)), near)


def _join(parts: list[jax.Array]) -> jax.Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, -1)
