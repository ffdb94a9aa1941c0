"""Several policies in one: a network for each group of agents. Rows say which group they belong to (`agent_groups`)."""

# B rows, V numbers of one observation, G groups, P raw outputs, K values.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.agent_groups import AgentLayout
from batchwright.nets.head_layout import make_heads
from batchwright.nets.networks import Inputs, Network
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy, assemble_policy


class GroupedInputs(Inputs):
    """Inputs of rows of several groups: the group one-hot, then the numbers of each group, then their images."""

    def __init__(self, layout: AgentLayout) -> None:
        super().__init__(layout.observation)
        self.num_groups = len(layout.groups)
        parts = [Inputs(group.observation) for group in layout.groups]
        sizes = [part.vector_size for part in parts]
        self.entry_group = np.repeat(np.arange(-1, self.num_groups), [self.num_groups, *sizes])
        """[V] the group that a number belongs to; -1 for those that say which group it is."""
        numbers = self.num_groups + np.cumsum([0, *sizes])
        images = np.cumsum([0, *(len(part.images) for part in parts)])
        self._ranges = [
            (slice(numbers[g], numbers[g + 1]), slice(images[g], images[g + 1])) for g in range(self.num_groups)
        ]

    def members(self, inputs: Any) -> jax.Array:
        """[B, G] 1.0 for the group of each row."""
        vector = inputs["vector"] if self.images else inputs
        return jnp.asarray(vector[..., : self.num_groups])

    def of_group(self, inputs: Any, group: int) -> Any:
        """What the network of one group takes."""
        numbers, images = self._ranges[group]
        vector = inputs["vector"] if self.images else inputs
        if images.start == images.stop:
            return vector[..., numbers]
        part: dict[str, Any] = {"images": inputs["images"][images]}
        return part | ({"vector": vector[..., numbers]} if numbers.start < numbers.stop else {})

    def present(self, vector_BV: jax.Array) -> jax.Array:
        """[B, V] whether a number is one of the row's own group."""
        own = vector_BV[..., : self.num_groups] > 0
        return jnp.where(self.entry_group < 0, True, own[..., np.maximum(self.entry_group, 0)])


@dataclass(frozen=True, eq=False)
class GroupedPolicy(Policy):
    """One policy for each group, trained together."""

    groups: Mapping[str, Policy] = field(default_factory=dict)

    def params_of(self, flat: jax.Array, name: str) -> jax.Array:
        """The parameters of one group's policy, from those of all."""
        tree, first = self.unravel(flat), 0
        for other, policy in self.groups.items():
            log_std = tree["heads"]["log_std"][first : first + policy.heads.std_size]
            first += policy.heads.std_size
            if other == name:
                own = {"net": tree["net"][name], "heads": {"log_std": log_std}, "value": tree["value"]}
                return policy.ravel(own)
        raise KeyError(name)

    def stats_of(self, stats: ObsStats, name: str) -> ObsStats:
        """The observation statistics of one group, from those of all."""
        assert isinstance(self.inputs, GroupedInputs)
        own = self.inputs.entry_group == list(self.groups).index(name)
        return ObsStats(np.asarray(stats.mean)[own], np.asarray(stats.std)[own], stats.limit)


def make_grouped_policy(layout: AgentLayout, groups: Mapping[str, Policy]) -> GroupedPolicy:
    """The policy of all groups, from one policy for each, in the order of the layout."""
    inputs, heads = GroupedInputs(layout), make_heads(layout.action, layout.activity)
    first = next(iter(groups.values()))
    network = _network(inputs, {name: policy.network for name, policy in groups.items()})
    made = assemble_policy(inputs, network, heads, first.num_values, first.log_std_start, GroupedPolicy)
    return replace(made, groups=dict(groups))


def _network(inputs: GroupedInputs, networks: Mapping[str, Network]) -> Network:
    """All networks side by side; a row's value is that of its group, and its raw outputs for other groups count not."""

    def init(key: jax.Array) -> Any:
        keys = jax.random.split(key, len(networks))
        return {name: network.init(one) for (name, network), one in zip(networks.items(), keys, strict=True)}

    def apply(params: Any, rows: Any) -> tuple[jax.Array, jax.Array]:
        member = inputs.members(rows)
        parts = [
            network.apply(params[name], inputs.of_group(rows, group))
            for group, (name, network) in enumerate(networks.items())
        ]
        # A mask leaves one value of the first head, which says the group: its logits do not matter.
        raw = jnp.concatenate([jnp.zeros_like(member), *(raw for raw, _ in parts)], -1)
        value = sum((member[..., g : g + 1] * value for g, (_, value) in enumerate(parts)), jnp.zeros(()))
        return raw, jnp.asarray(value)

    return Network(init, apply)
