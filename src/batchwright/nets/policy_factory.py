"""Builds the policy for a pair of spaces: the network that fits the observations, the heads that fit the actions."""

from __future__ import annotations

from collections.abc import Mapping

from batchwright.envs.masks import Activity
from batchwright.envs.spaces import Spec
from batchwright.nets.convolutions import cnn
from batchwright.nets.head_layout import make_heads
from batchwright.nets.networks import Inputs, mlp
from batchwright.nets.policy import NetworkMaker, Policy, assemble_policy


def make_policy(
    observation: Spec,
    action: Spec,
    *,
    num_values: int = 1,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    log_std_start: float = 0.0,
    network: NetworkMaker | None = None,
    activity: Mapping[str, Activity] | None = None,
) -> Policy:
    """The policy for a pair of spaces; `network` replaces the built-in one, `activity` is what the engine declares."""
    inputs, heads = Inputs(observation), make_heads(action, activity)
    if network is not None:
        net = network(inputs, heads.raw_size, num_values)
    elif inputs.images:
        net = cnn(inputs, heads.raw_size, num_values)
    else:
        net = mlp(inputs.vector_size, heads.raw_size, num_values, hidden, activation)
    return assemble_policy(inputs, net, heads, num_values, log_std_start)
