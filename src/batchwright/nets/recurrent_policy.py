"""A policy that remembers: the state of its memory goes from step to step and begins anew with every episode."""

# T steps, N environments, Q sequences of L steps, S numbers of one state.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.nets.heads import Heads
from batchwright.nets.networks import Inputs
from batchwright.nets.policy import Outputs, Policy, assemble_policy
from batchwright.nets.recurrent_networks import RecurrentNetwork, recurrent_network


class SequenceInputs(NamedTuple):
    """What a policy with memory takes of sequences, as rows of a minibatch."""

    inputs: Any  # of [Q, L, ...], made by `preprocess`
    memory: jax.Array  # [Q, S] before the first step
    fresh: jax.Array  # [Q, L] bool: an episode begins here, so nothing is remembered


@dataclass(frozen=True, eq=False)
class RecurrentPolicy(Policy):
    """Pure functions of a flat parameter vector and of what is remembered."""

    network: RecurrentNetwork  # type: ignore[assignment]

    def initial_memory(self, num_envs: int) -> jax.Array:
        """Nothing remembered, on the device as the memory after a rollout is."""
        memory: jax.Array = jax.device_put(np.zeros((num_envs, self.network.state_size), np.float32))
        return memory

    def first_steps(self, inputs: Any) -> SequenceInputs:
        rows = jax.tree.leaves(inputs)[0].shape[0]
        each = jax.tree.map(lambda x: x[:, None], inputs)
        return SequenceInputs(each, jnp.zeros((rows, self.network.state_size)), jnp.zeros((rows, 1), bool))

    def step(self, flat: jax.Array, inputs: Any, memory: jax.Array) -> tuple[Outputs, jax.Array]:
        tree = self.unravel(flat)
        memory = self.network.advance(tree["net"], memory, self._encode(tree, inputs))
        return self.read(tree, memory), memory

    def outputs_of(self, tree: Any, inputs: SequenceInputs) -> Outputs:
        """Outputs [Q, L] of sequences, unrolled from the memory before each."""
        in_turn = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), inputs.inputs)
        memory_LQS = self.unroll(tree, in_turn, inputs.memory, inputs.fresh.T)
        return self.read(tree, jnp.moveaxis(memory_LQS, 0, 1))

    def unroll(self, tree: Any, inputs_T: Any, memory_NS: jax.Array, fresh_TN: jax.Array) -> jax.Array:
        """What is remembered after each step [T, N, S]; `fresh` marks the steps before which all is forgotten."""
        if self.inputs.images:
            # Step by step, and again for the gradient: the patches of all images would not fit.
            encoded = jax.lax.map(jax.checkpoint(lambda inputs: self._encode(tree, inputs)), inputs_T)
        else:
            encoded = self._encode(tree, inputs_T)

        def advance(memory: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            encoded, fresh = step
            memory = self.network.advance(tree["net"], forget(memory, fresh), encoded)
            return memory, memory

        return jax.lax.scan(advance, memory_NS, (encoded, fresh_TN))[1]

    def final_values(self, tree: Any, inputs_T: Any, memory_TNS: jax.Array) -> jax.Array:
        """Values [T, N, K] of last observations, each with what was remembered after the step before it."""

        def value(step: tuple[Any, jax.Array]) -> jax.Array:
            inputs, memory = step
            return self.read(tree, self.network.advance(tree["net"], memory, self._encode(tree, inputs))).value

        value_TNK: jax.Array = jax.lax.map(value, (inputs_T, memory_TNS))
        return value_TNK

    def read(self, tree: Any, memory: jax.Array) -> Outputs:
        """The outputs that go with what is remembered, the observation of the step included."""
        raw, value = self.network.read(tree["net"], memory)
        return Outputs(raw, value * tree["value"]["scale"] + tree["value"]["shift"], tree["heads"])

    def _encode(self, tree: Any, inputs: Any) -> jax.Array:
        return self.network.encode(tree["net"], self.inputs.scaled(inputs))


def forget(memory_NS: jax.Array, begins_N: jax.Array) -> jax.Array:
    """The memory without that of environments whose episode begins."""
    return jnp.where(begins_N[:, None], 0.0, memory_NS)


def make_recurrent_policy(
    inputs: Inputs,
    heads: Heads,
    num_values: int,
    memory: str,
    memory_size: int,
    *,
    hidden: Sequence[int] = (64, 64),
    activation: str = "tanh",
    log_std_start: float = 0.0,
) -> RecurrentPolicy:
    """The policy of a pair of spaces with a GRU or an LSTM of so many units."""
    network = recurrent_network(inputs, heads.raw_size, num_values, memory, memory_size, hidden, activation)
    return assemble_policy(inputs, network, heads, num_values, log_std_start, RecurrentPolicy)
