"""The update of a policy with memory: a rollout is cut into sequences, and a minibatch is made of whole ones."""

# T steps, N environments, L steps of one sequence, C = T / L, Q = C x N sequences, S numbers of one memory.

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.rollout import Rollout
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy
from batchwright.nets.recurrent_policy import RecurrentPolicy, SequenceInputs
from batchwright.on_policy.on_policy_settings import UpdateSettings
from batchwright.on_policy.on_policy_state import Hyper, TrainState
from batchwright.on_policy.on_policy_update import PackedMetrics, PreparedRollout, Update, make_update, weigh_rollout
from batchwright.on_policy.recurrent_metrics import begins_episode, cut_sequences, measure_memory, sequence_starts


def make_recurrent_update(
    policy: RecurrentPolicy, settings: UpdateSettings, sequences: int, seq_length: int, value_only: np.ndarray
) -> Update:
    """The update for rollouts of so many sequences; compile it. The order is that of whole sequences [E, Q]."""
    update = make_update(policy, settings, sequences, value_only, partial(prepare_sequences, seq_length))

    def measured_update(
        train: TrainState, rollout: Rollout, stats: ObsStats, hyper: Hyper, order: Any
    ) -> tuple[TrainState, PackedMetrics]:
        moved, packed = update(train, rollout, stats, hyper, order)
        found = measure_memory(policy, seq_length, (train.params, moved.params), rollout, stats, settings.shards)
        more = PackedMetrics.pack(found)
        return moved, PackedMetrics(jnp.concatenate([packed.values, more.values]), packed.names + more.names)

    return measured_update


def prepare_sequences(
    seq_length: int,
    policy: Policy,
    settings: UpdateSettings,
    train: TrainState,
    rollout: Rollout,
    stats: ObsStats,
    hyper: Hyper,
) -> PreparedRollout:
    """Rows [Q, L]: sequences with log-probs, advantages, and what was remembered before the first step of each.

    The memory is unrolled once over the whole rollout with the parameters that collected it, so sequences begin with
    the states that the policy acted with.
    """
    assert isinstance(policy, RecurrentPolicy)
    assert rollout.memory is not None
    steps, tree = rollout.reward.shape[0], policy.unravel(train.params)
    inputs, fresh_TN = policy.preprocess(rollout.obs, stats), begins_episode(rollout)
    memory_TNS = policy.unroll(tree, inputs, jnp.asarray(rollout.memory), fresh_TN)
    final = None
    if rollout.final_obs is not None:
        final = policy.final_values(tree, policy.preprocess(rollout.final_obs, stats), memory_TNS[:steps])
    acted = jax.tree.map(lambda x: x[:steps], inputs)
    prepared = weigh_rollout(policy, settings, train, rollout, hyper, acted, policy.read(tree, memory_TNS), final)
    rows = jax.tree.map(lambda x: cut_sequences(x, seq_length), prepared.rows)
    start_QS = sequence_starts(memory_TNS, rollout, fresh_TN, seq_length)
    sequences = SequenceInputs(rows.inputs, start_QS, cut_sequences(fresh_TN[:steps], seq_length))
    return prepared._replace(rows=rows._replace(inputs=sequences))
