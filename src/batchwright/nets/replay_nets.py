"""Networks of replay learning: the actor of SAC, its twin critics, the Q-network of DQN; vectors and images."""

# B rows, D numbers of one action, V numbers of one observation.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.spaces import Box, Spec
from batchwright.nets.heads import Heads
from batchwright.nets.layers import CONV_FEATURES, Layer, conv_layers, convolve, dense, host_source, run_tower, tower
from batchwright.nets.networks import ACTIVATIONS, Inputs, Network
from batchwright.nets.policy import Policy, join_leaves, unraveller
from batchwright.nets.reward import image_shape
from batchwright.nets.squashed import make_greedy_heads, make_squashed_heads


class Tower(NamedTuple):
    """A network from what a policy sees, and more numbers beside it, to `outputs` numbers."""

    init: Callable[[np.random.Generator], Any]
    apply: Callable[[Any, Any, jax.Array | None], jax.Array]


def make_tower(inputs: Inputs, more: int, hidden: Sequence[int], activation: str, outputs: int) -> Tower:
    """Vectors through dense layers; images through convolutions, with all numbers joined after them."""
    act = ACTIVATIONS[activation]
    shapes = [image_shape(leaf.shape) for _, leaf in inputs.images if isinstance(leaf, Box)]

    def init(source: np.random.Generator) -> Any:
        if not shapes:
            return {"tower": tower(source, inputs.vector_size + more, hidden, outputs)}
        convs = [conv_layers(source, shape) for shape in shapes]
        width = sum(size for _, size in convs) + inputs.vector_size + more
        top = [dense(source, width, CONV_FEATURES), dense(source, CONV_FEATURES, outputs)]
        return {"conv": [layers for layers, _ in convs], "tower": top}

    def apply(params: Any, seen: Any, more_BD: jax.Array | None = None) -> jax.Array:
        extra = [] if more_BD is None else [more_BD]
        if not shapes:
            return run_tower(params["tower"], jnp.concatenate([seen, *extra], -1) if extra else seen, act)
        lead = seen["images"][0].shape[:-3]
        parts = [
            convolve(layers, image.reshape(-1, *image.shape[-3:])).reshape(*lead, -1)
            for layers, image in zip(params["conv"], seen["images"], strict=True)
        ]
        parts += [seen["vector"]] if "vector" in seen else []
        return run_tower(params["tower"], jnp.concatenate([*parts, *extra], -1), jax.nn.relu)

    return Tower(init, apply)


def make_actor(observation: Spec, action: Spec, hidden: Sequence[int], activation: str) -> Policy:
    """The squashed Gaussian policy of SAC."""
    inputs, heads = Inputs(observation), make_squashed_heads(action)
    return _as_policy(inputs, heads, make_tower(inputs, 0, hidden, activation, heads.raw_size))


def make_q_policy(
    observation: Spec, action: Spec, hidden: Sequence[int], activation: str, epsilon: float = 0.0
) -> Policy:
    """The greedy policy of DQN: raw outputs are the values of the choices."""
    inputs, heads = Inputs(observation), make_greedy_heads(action, epsilon)
    return _as_policy(inputs, heads, make_tower(inputs, 0, hidden, activation, heads.raw_size))


def _as_policy(inputs: Inputs, heads: Heads, net: Tower) -> Policy:
    def apply(params: Any, seen: Any) -> tuple[jax.Array, jax.Array]:
        raw = net.apply(params, seen, None)
        return raw, raw[..., :0]  # critics, where there are any, are apart

    network = Network(lambda key: net.init(host_source(key)), apply)
    policy = Policy(inputs, network, heads, 0, 0.0, lambda flat: flat)
    return replace(policy, unravel=unraveller(policy._init_tree(jax.random.key(0))))


class Joined(NamedTuple):
    """Two towers of vectors: both first layers as one, side by side, and what follows them."""

    first: Layer  # w [V + D, 2 H], b [2 H]
    rest: tuple[list[Layer], list[Layer]]


@dataclass(frozen=True, eq=False)
class TwinCritics:
    """Two critics of one shape over one flat vector.

    Within an iteration they are `Joined` where they see vectors, else a pair of trees: a first layer is too small a
    product to be worth two, every other one is large enough for a thread of its own (docs/log.md has the figures).
    """

    net: Tower
    unravel_both: Callable[[jax.Array], Any]
    activation: Callable[[jax.Array], jax.Array]
    joins: bool

    def init(self, key: jax.Array) -> jax.Array:
        """A fresh parameter vector; the two start apart."""
        tree = _twins(self.net, host_source(key))
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

    def values(self, twins: Any, seen: Any, action_BD: jax.Array) -> jax.Array:
        """Both values [2, B] of actions."""
        if not isinstance(twins, Joined):
            return jnp.stack([self.net.apply(tree, seen, action_BD)[..., 0] for tree in twins])
        first = jnp.concatenate([seen, action_BD], -1) @ twins.first["w"] + twins.first["b"]
        joined, width = self.activation(first), first.shape[-1] // 2
        halves = joined[..., :width], joined[..., width:]  # the gradient of jnp.split is a copy apart
        towers = zip(twins.rest, halves, strict=True)
        return jnp.stack([run_tower(rest, half, self.activation)[..., 0] for rest, half in towers])


def make_twin_critics(inputs: Inputs, action_size: int, hidden: Sequence[int], activation: str) -> TwinCritics:
    """Critics for the observations that `inputs` sees and flat actions."""
    net = make_tower(inputs, action_size, hidden, activation, 1)
    unravel = unraveller(_twins(net, host_source(jax.random.key(0))))
    return TwinCritics(net, unravel, ACTIVATIONS[activation], joins=not inputs.images and bool(hidden))


def _twins(net: Tower, source: np.random.Generator) -> Any:
    return jax.tree.map(lambda *pair: np.stack(pair), net.init(source), net.init(source))
