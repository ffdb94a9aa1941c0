"""What a policy with memory makes of the time before its sequences, and how stale the stored states become.

Evidence for the doctor, from a few environments of each rollout: it changes nothing in the update.
"""

# T steps, n of N environments, L steps of one sequence, Q sequences of those n, S numbers of one memory.

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.rollout import Rollout
from batchwright.nets.normalise import ObsStats
from batchwright.nets.recurrent_policy import RecurrentPolicy, forget
from batchwright.on_policy.on_policy_state import Metrics
from batchwright.on_policy.shards import Shards

SAMPLED_SHARE = 1 / 16
"""Of the environments, at least one: 0.1 ms of an iteration of 56 ms with 16 x 64 steps, and 2 s of compiling."""
END_SHARE = 1 / 4
"""Of a sequence. One step alone may be missed where episodes of one length keep step with sequences: the question of
`RecallCue-v0` never stands at the end of a sequence of 5."""


def begins_episode(rollout: Rollout) -> jax.Array:
    """[T + 1, N] steps before which all is forgotten; what the first step remembers is in the rollout."""
    resets_TN = jnp.asarray(rollout.resets)
    return jnp.concatenate([jnp.zeros_like(resets_TN[:1]), resets_TN])


def cut_sequences(x_TN: Any, seq_length: int) -> Any:
    """[T, N, ...] as [Q, L, ...], in the order of their first steps and then of environments."""
    steps, envs, *rest = x_TN.shape
    chunks = x_TN.reshape(steps // seq_length, seq_length, envs, *rest)
    return jnp.swapaxes(chunks, 1, 2).reshape(-1, seq_length, *rest)


def sequence_starts(memory_TNS: jax.Array, rollout: Rollout, fresh_TN: jax.Array, seq_length: int) -> jax.Array:
    """What was remembered before the first step of each sequence [Q, S]; `memory_TNS` is that after each step."""
    steps = rollout.reward.shape[0]
    before = jnp.concatenate([jnp.asarray(rollout.memory)[None], memory_TNS[seq_length - 1 : steps - 1 : seq_length]])
    start_CNS = jax.vmap(forget)(before, fresh_TN[:steps:seq_length])
    return start_CNS.reshape(-1, start_CNS.shape[-1])


def measure_memory(
    policy: RecurrentPolicy,
    seq_length: int,
    params: tuple[jax.Array, jax.Array],
    rollout: Rollout,
    stats: ObsStats,
    shards: Shards | None = None,
) -> Metrics:
    """Shares of decisions, from the parameters before and after an update.

    `memory_effect_start`, `memory_effect_end`: those that would change at the first step, and in the last quarter, of a
    sequence if what was remembered before the sequence were emptied. `memory_carried`: steps of last quarters before
    which no episode has begun in their sequence, the ones that are measured. `memory_stale`: decisions that change
    where the states stored at the starts of sequences, by the parameters before, are replaced by those of the
    parameters after. `memory_moved`: decisions that the update itself has changed.
    """
    old, new = (policy.unravel(flat) for flat in params)
    few = _sampled(rollout)
    steps = few.reward.shape[0]
    inputs_TN, fresh_TN = policy.preprocess(jax.tree.map(lambda x: x[:steps], few.obs), stats), begins_episode(few)
    fresh_TN = fresh_TN[:steps]
    by_sequence = [
        jax.tree.map(lambda x: cut_sequences(x, seq_length), tree)
        for tree in (inputs_TN, fresh_TN, few.action, few.mask, few.valid.astype(jnp.float32))
    ]
    inputs, fresh_QL, action, mask, weight_QL = by_sequence

    def log_prob(tree: Any, memory_QLS: jax.Array) -> jax.Array:
        out = policy.read(tree, memory_QLS)
        return policy.heads.log_prob(out.params, out.raw, action, mask).sum(-1)

    def unrolled(tree: Any, start_QS: jax.Array) -> jax.Array:
        in_turn = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), inputs)
        return log_prob(tree, jnp.moveaxis(policy.unroll(tree, in_turn, start_QS, fresh_QL.T), 0, 1))

    memory = [policy.unroll(tree, inputs_TN, jnp.asarray(few.memory), fresh_TN) for tree in (old, new)]
    acted, recomputed = (
        log_prob(tree, cut_sequences(memory_TNS, seq_length))
        for tree, memory_TNS in zip((old, new), memory, strict=True)
    )
    start_QS = sequence_starts(memory[0], few, fresh_TN, seq_length)
    emptied = changed_share(acted, unrolled(old, jnp.zeros_like(start_QS)))
    stale = changed_share(recomputed, unrolled(new, start_QS))
    known_QL = jnp.cumsum(fresh_QL, 1) == 0  # no episode has begun in this sequence yet
    end = slice(-math.ceil(seq_length * END_SHARE), None)

    def mean(value: jax.Array, weight: jax.Array) -> jax.Array:
        sums = jnp.stack([(value * weight).sum(), weight.sum()])
        sums = sums if shards is None else shards.total(sums)
        return sums[0] / jnp.maximum(sums[1], 1.0)

    return {
        "memory_effect_start": mean(emptied[:, 0], weight_QL[:, 0] * known_QL[:, 0]),
        "memory_effect_end": mean(emptied[:, end], weight_QL[:, end] * known_QL[:, end]),
        "memory_carried": mean(known_QL[:, end].astype(jnp.float32), weight_QL[:, end]),
        "memory_stale": mean(stale, weight_QL),
        "memory_moved": mean(changed_share(acted, recomputed), weight_QL),
    }


def changed_share(log_prob: jax.Array, other: jax.Array) -> jax.Array:
    """The total variation distance of two policies, estimated by actions of the first; at most 1 for every row."""
    return jnp.minimum(1.0, 0.5 * jnp.abs(jnp.expm1(other - log_prob)))


def _sampled(rollout: Rollout) -> Rollout:
    """The rollout of a few environments, spread evenly."""
    envs = rollout.reward.shape[1]
    count = max(1, int(envs * SAMPLED_SHARE))
    columns = np.linspace(0, envs, count, endpoint=False).astype(int)
    few: Rollout = jax.tree.map(lambda x: x[:, columns], rollout._replace(memory=None))
    assert rollout.memory is not None
    return few._replace(memory=jnp.asarray(rollout.memory)[columns])
