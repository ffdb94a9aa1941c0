"""On-policy learning with memory: as without, except that minibatches are made of whole sequences."""

from __future__ import annotations

from typing import Any

from batchwright.data.rollout import Rollout
from batchwright.nets.recurrent_policy import RecurrentPolicy
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.on_policy.on_policy_update import Update
from batchwright.on_policy.recurrent_update import make_recurrent_update
from batchwright.store.minibatches import shuffled_orders


class RecurrentLearner(OnPolicyLearner):
    """PPO, A2C and REINFORCE for policies with memory; what is remembered is part of the collect state."""

    @property
    def sequences(self) -> int:
        """Of one rollout."""
        settings = self.on_policy_settings
        assert settings.network.memory is not None
        return settings.columns * settings.rollout_steps // settings.network.memory.seq_length

    def minibatch_order(self, iteration: int, rollout: Rollout) -> Any:
        """The order of sequences in every epoch of an iteration [E, Q]."""
        epochs = self.on_policy_settings.update.epochs
        return shuffled_orders(self.streams.number("minibatch-order", iteration), self.sequences, epochs)

    def _make_update(self) -> Update:
        settings, policy = self.on_policy_settings, self.policy
        assert settings.network.memory is not None
        assert isinstance(policy, RecurrentPolicy)
        seq_length = settings.network.memory.seq_length
        return make_recurrent_update(policy, settings.update, self.sequences, seq_length, self._value_only)
