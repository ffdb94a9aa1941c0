"""From a network's raw output to actions: one head per leaf of the action space, joined by summing log-probs.

Inside the learner an action is one flat float32 vector (choices as whole numbers, boxes in units of half their range,
before clipping); `Policy.to_env` turns it into the tree that engines take. `head_layout` makes the heads of a space;
what masks and unused boxes change is in `masked_actions`.
"""

# B any leading axes, P raw outputs, D numbers of one action, H heads, M booleans of one mask.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.spaces import Spec
from batchwright.nets import masked_actions
from batchwright.nets.masked_actions import Condition

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
    mask: slice
    """Where its booleans are in a mask (`envs.masks`); empty for a box."""
    condition: Condition | None = None
    """Of a box that is used only with some choices."""

    @property
    def continuous(self) -> bool:
        return self.kind == "box"

    @property
    def size(self) -> int:
        """Numbers of the action that this head writes."""
        return int(self.action.stop - self.action.start)


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
        rng = np.random.Generator(np.random.SFC64(stream))
        return tuple(_draw(rng, head, (*shape, head.raw.stop - head.raw.start)) for head in self.heads)

    def no_noise(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Noise with which `sample` gives the most likely action: exploration off."""
        return tuple(np.zeros((*shape, head.raw.stop - head.raw.start), np.float32) for head in self.heads)

    def sample(
        self, params: Any, raw_BP: jax.Array, noise: tuple[jax.Array, ...], mask_BM: jax.Array | None = None
    ) -> jax.Array:
        """Actions [B, D] of the policy with the given noise; none that the mask forbids."""
        parts = []
        for head, eps in zip(self.heads, noise, strict=True):
            out = raw_BP[..., head.raw]
            if head.kind == "choice":
                out = _logits(head, out, mask_BM)
                parts.append(jnp.argmax(out + eps, -1, keepdims=True).astype(jnp.float32))
            elif head.kind == "bits":
                bits = (out + eps > 0).astype(jnp.float32)
                if mask_BM is not None:
                    bits = masked_actions.allowed_bits(bits, mask_BM[..., head.mask])
                parts.append(bits)
            else:
                parts.append(out + jnp.exp(_log_std(params, head)) * eps)
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts, -1)

    def log_prob(
        self, params: Any, raw_BP: jax.Array, action_BD: jax.Array, mask_BM: jax.Array | None = None
    ) -> jax.Array:
        """Log-probabilities per head [B, H]; the joint one is their sum."""
        return jnp.stack([_log_prob(head, params, raw_BP, action_BD, mask_BM) for head in self.heads], -1)

    def entropy(
        self, params: Any, raw_BP: jax.Array, action_BD: jax.Array | None = None, mask_BM: jax.Array | None = None
    ) -> jax.Array:
        """Entropies per head [B, H]; boxes that are not always used count where the given actions use them."""
        return jnp.stack([_entropy(head, params, raw_BP, action_BD, mask_BM) for head in self.heads], -1)

    @property
    def mixed(self) -> bool:
        """Whether there are both choices and boxes."""
        return len({head.continuous for head in self.heads}) > 1


def _draw(rng: np.random.Generator, head: Head, shape: tuple[int, ...]) -> np.ndarray:
    if head.kind == "box":
        return rng.standard_normal(shape, np.float32)
    # 1 - u is in (0, 1]: its logarithm is finite.
    u = 1.0 - rng.random(shape, np.float32)
    if head.kind == "choice":
        return np.asarray(-np.log(np.maximum(-np.log(u), SMALLEST_DRAW)))
    return np.asarray(np.log(u) - np.log(np.maximum(1.0 - u, SMALLEST_DRAW)))


def _log_std(params: Any, head: Head) -> jax.Array:
    return jnp.clip(params["log_std"][head.std], *LOG_STD_RANGE)


def _logits(head: Head, out: jax.Array, mask: jax.Array | None) -> jax.Array:
    return out if mask is None else masked_actions.allowed_logits(out, mask[..., head.mask])


def _sum_bits(head: Head, each: jax.Array, mask: jax.Array | None) -> jax.Array:
    return each.sum(-1) if mask is None else masked_actions.sum_free_bits(each, mask[..., head.mask])


def _log_prob(head: Head, params: Any, raw: jax.Array, action: jax.Array, mask: jax.Array | None) -> jax.Array:
    out, taken = raw[..., head.raw], action[..., head.action]
    if head.kind == "choice":
        index = taken.astype(jnp.int32)
        return jnp.take_along_axis(jax.nn.log_softmax(_logits(head, out, mask)), index, -1)[..., 0]
    if head.kind == "bits":
        each = taken * jax.nn.log_sigmoid(out) + (1 - taken) * jax.nn.log_sigmoid(-out)
        return _sum_bits(head, each, mask)
    log_std = _log_std(params, head)
    each = -0.5 * jnp.square((taken - out) * jnp.exp(-log_std)) - log_std - HALF_LOG_TWO_PI
    return each.sum(-1) if head.condition is None else (each * head.condition.used(action)).sum(-1)


def _entropy(head: Head, params: Any, raw: jax.Array, action: jax.Array | None, mask: jax.Array | None) -> jax.Array:
    out = raw[..., head.raw]
    if head.kind == "choice":
        log_p = jax.nn.log_softmax(_logits(head, out, mask))
        return -(jnp.exp(log_p) * log_p).sum(-1)
    if head.kind == "bits":
        p = jax.nn.sigmoid(out)
        return -_sum_bits(head, p * jax.nn.log_sigmoid(out) + (1 - p) * jax.nn.log_sigmoid(-out), mask)
    each = _log_std(params, head) + 0.5 + HALF_LOG_TWO_PI
    if head.condition is not None and action is not None:
        return (each * head.condition.used(action)).sum(-1)
    return jnp.broadcast_to(each.sum(), out.shape[:-1])
