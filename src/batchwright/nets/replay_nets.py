"""Networks and heads of replay learning: squashed actors, twin critics, reward networks; vectors and images."""

# B rows or any leading axes, D numbers of one action, V numbers of one observation.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.spaces import Box, Discrete, Spec
from batchwright.nets.convolutions import conv_layers, convolve
from batchwright.nets.head_layout import action_label, make_heads
from batchwright.nets.heads import HALF_LOG_TWO_PI, Heads
from batchwright.nets.initial_weights import Layer, host_rng, uniform, uniform_tower
from batchwright.nets.networks import ACTIVATIONS, Inputs, Network, channels_last, run_tower
from batchwright.nets.policy import Policy, assemble_policy, join_leaves, unraveller
from batchwright.planning.network_plan import CONV_FEATURES

LOG_STD_RANGE = (-20.0, 2.0)
"""Wider than that of unsquashed heads: SAC ends near-deterministic (the bounds of Haarnoja et al., 2018)."""


class Tower(NamedTuple):
    """A network from network inputs, and more numbers beside them, to `outputs` numbers."""

    init: Callable[[np.random.Generator], Any]
    apply: Callable[[Any, Any, jax.Array | None], jax.Array]


def make_tower(inputs: Inputs, more: int, hidden: Sequence[int], activation: str, outputs: int) -> Tower:
    """Vectors through dense layers; images through convolutions, with all numbers joined after them."""
    act = ACTIVATIONS[activation]

    def init(rng: np.random.Generator) -> Any:
        if not inputs.images:
            return {"tower": uniform_tower(rng, inputs.vector_size + more, hidden, outputs)}
        convs = [conv_layers(rng, shape) for shape in inputs.image_shapes]
        width = sum(size for _, size in convs) + inputs.vector_size + more
        top = [uniform(rng, width, CONV_FEATURES), uniform(rng, CONV_FEATURES, outputs)]
        return {"conv": [layers for layers, _ in convs], "tower": top}

    def apply(params: Any, net_inputs: Any, more_BD: jax.Array | None = None) -> jax.Array:
        extra = [] if more_BD is None else [more_BD]
        if not inputs.images:
            return run_tower(params["tower"], jnp.concatenate([net_inputs, *extra], -1) if extra else net_inputs, act)
        lead = net_inputs["images"][0].shape[:-3]
        parts = [
            convolve(layers, image.reshape(-1, *image.shape[-3:])).reshape(*lead, -1)
            for layers, image in zip(params["conv"], net_inputs["images"], strict=True)
        ]
        parts += [net_inputs["vector"]] if "vector" in net_inputs else []
        return run_tower(params["tower"], jnp.concatenate([*parts, *extra], -1), jax.nn.relu)

    return Tower(init, apply)


def make_actor(observation: Spec, action: Spec, hidden: Sequence[int], activation: str) -> Policy:
    """The squashed Gaussian policy of SAC."""
    inputs, heads = Inputs(observation), make_squashed_heads(action)
    return policy_of_tower(inputs, heads, make_tower(inputs, 0, hidden, activation, heads.raw_size))


def policy_of_tower(inputs: Inputs, heads: Heads, net: Tower) -> Policy:
    """A policy without values whose raw outputs are those of a network."""

    def apply(params: Any, net_inputs: Any) -> tuple[jax.Array, jax.Array]:
        raw = net.apply(params, net_inputs, None)
        return raw, raw[..., :0]  # critics, where there are any, are apart

    network = Network(lambda key: net.init(host_rng(key)), apply)
    return assemble_policy(inputs, network, heads)


class Joined(NamedTuple):
    """Two towers of vectors: both first layers as one, side by side, and what follows them."""

    first: Layer  # w [V + D, 2 H], b [2 H]
    rest: tuple[list[Layer], list[Layer]]


@dataclass(frozen=True, eq=False)
class TwinCritics:
    """Two critics of one shape over one flat vector.

    Within an iteration they are `Joined` where their inputs are vectors, else a pair of trees: a first layer is too
    small a product to be worth two, every other one is large enough for a thread of its own (docs/log.md has the
    figures).
    """

    net: Tower
    unravel_both: Callable[[jax.Array], Any]
    activation: Callable[[jax.Array], jax.Array]
    joins: bool

    def init(self, key: jax.Array) -> jax.Array:
        """A fresh parameter vector; the two start apart."""
        tree = _twins(self.net, host_rng(key))
        return jnp.asarray(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]))

    def unravel(self, flat: jax.Array) -> Any:
        """The parameter trees of the two."""
        both = self.unravel_both(flat)
        if self.joins:
            both = both["tower"]
        one, two = (jax.tree.map(lambda leaf, which=which: leaf[which], both) for which in range(2))
        if not self.joins:
            return one, two
        first = jax.tree.map(lambda *pair: jnp.concatenate(pair, -1), one[0], two[0])
        return Joined(first, (one[1:], two[1:]))

    def ravel(self, twins: Any) -> jax.Array:
        """The way back from `unravel`."""
        if isinstance(twins, Joined):
            first = (jax.tree.map(lambda leaf, at=at: jnp.split(leaf, 2, -1)[at], twins.first) for at in range(2))
            twins = tuple({"tower": [layer, *rest]} for layer, rest in zip(first, twins.rest, strict=True))
        return join_leaves(jax.tree.map(lambda *two: jnp.stack(two), *twins))

    def values(self, twins: Any, net_inputs: Any, action_BD: jax.Array) -> jax.Array:
        """Both values [2, B] of actions."""
        if not isinstance(twins, Joined):
            return jnp.stack([self.net.apply(tree, net_inputs, action_BD)[..., 0] for tree in twins])
        first = jnp.concatenate([net_inputs, action_BD], -1) @ twins.first["w"] + twins.first["b"]
        joined, width = self.activation(first), first.shape[-1] // 2
        halves = joined[..., :width], joined[..., width:]  # the gradient of jnp.split is a copy apart
        towers = zip(twins.rest, halves, strict=True)
        return jnp.stack([run_tower(rest, half, self.activation)[..., 0] for rest, half in towers])


def make_twin_critics(inputs: Inputs, action_size: int, hidden: Sequence[int], activation: str) -> TwinCritics:
    """Critics of observations and flat actions."""
    net = make_tower(inputs, action_size, hidden, activation, 1)
    unravel = unraveller(_twins(net, host_rng(jax.random.key(0))))
    return TwinCritics(net, unravel, ACTIVATIONS[activation], joins=not inputs.images and bool(hidden))


def _twins(net: Tower, rng: np.random.Generator) -> Any:
    return jax.tree.map(lambda *pair: np.stack(pair), net.init(rng), net.init(rng))


@dataclass(frozen=True, eq=False)
class SquashedHeads(Heads):
    """Boxes as tanh of a Gaussian whose mean and log std are the raw output [B, 2 D]; actions lie in (-1, 1).

    Noise is (normal, forced): where `forced` is a number, it is the action whatever the network gives.
    """

    def noise(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        rng = np.random.Generator(np.random.SFC64(stream))
        return rng.standard_normal((*shape, self.action_size), np.float32), self._unforced(shape)

    def no_noise(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        return np.zeros((*shape, self.action_size), np.float32), self._unforced(shape)

    def random(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        """Noise with which every action is uniform in the whole box: warm-up."""
        rng = np.random.Generator(np.random.SFC64(stream))
        forced = 2.0 * rng.random((*shape, self.action_size), np.float32) - 1.0
        return np.zeros_like(forced), forced

    def _unforced(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.full((*shape, self.action_size), np.nan, np.float32)

    def sample(
        self, params: Any, raw_BP: jax.Array, noise: tuple[jax.Array, ...], mask_BM: jax.Array | None = None
    ) -> jax.Array:
        mean, log_std = split(raw_BP)
        normal, forced = noise
        return jnp.where(jnp.isnan(forced), jnp.tanh(mean + jnp.exp(log_std) * normal), forced)


def split(raw_BP: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(mean, bounded log std) [B, D] of the Gaussian before it is squashed."""
    mean, log_std = jnp.split(raw_BP, 2, -1)
    return mean, jnp.clip(log_std, *LOG_STD_RANGE)


def sample_with_log_prob(raw_BP: jax.Array, normal_BD: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(action [B, D] in (-1, 1), its log-probability [B] on that scale).

    From u before the squash: log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), exact where tanh saturates.
    """
    mean, log_std = split(raw_BP)
    u = mean + jnp.exp(log_std) * normal_BD
    gaussian = -0.5 * jnp.square(normal_BD) - log_std - HALF_LOG_TWO_PI
    log_slope = 2.0 * (math.log(2.0) - u - jax.nn.softplus(-2.0 * u))
    return jnp.tanh(u), (gaussian - log_slope).sum(-1)


def make_squashed_heads(spec: Spec) -> SquashedHeads:
    """Heads for bounded boxes."""
    refuse_unbounded(spec, "sac")
    plain = make_heads(spec)
    return SquashedHeads(spec, plain.heads, 2 * plain.action_size, plain.action_size, 0)


def refuse_unbounded(spec: Spec, algo: str) -> None:
    """Refuses actions that are not bounded boxes, with the algorithm that fits them."""
    for path, leaf in spaces.leaves(spec):
        label = action_label(spaces.path_name(path))
        if not isinstance(leaf, Box):
            fits = ["--algo dqn"] if isinstance(spec, Discrete) else []
            raise UserError(f"{algo} is for continuous actions; {label} is a choice.", [*fits, "--algo ppo"])
        if not (np.isfinite(leaf.low).all() and np.isfinite(leaf.high).all()):
            raise UserError(
                f"{algo} squashes actions into their bounds; {label} has none.",
                ["--algo ppo", "wrap the environment with bounds (gymnasium.wrappers.RescaleAction)"],
            )


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

    def init(key: jax.Array) -> Any:
        rng = host_rng(key)
        if not inputs.images:
            return {"tower": uniform_tower(rng, width, hidden, 1)}
        convs = [conv_layers(rng, (h, w, 2 * c)) for h, w, c in inputs.image_shapes]
        joined = sum(size for _, size in convs) + width
        return {
            "conv": [layers for layers, _ in convs],
            "tower": [uniform(rng, joined, CONV_FEATURES), uniform(rng, CONV_FEATURES, 1)],
        }

    def apply(params: Any, obs: Any, action_BD: jax.Array, next_obs: Any) -> jax.Array:
        parts = [encode_action(heads, action_BD)]
        if inputs.vectors:
            now, after = inputs.vector(obs), inputs.vector(next_obs)
            parts = [now, *parts, now - after]
        for number, (read, _) in enumerate(inputs.images):
            now, after = (channels_last(read(tree)).astype(jnp.float32) / 255.0 for tree in (obs, next_obs))
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
