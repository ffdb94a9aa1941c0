"""The state of a reward model's run between two iterations."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
import optax

from batchwright.reward.reward_model import RewardModel, Scales
from batchwright.runs.learner import Counters


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RewardState:
    """Everything that a run carries from one iteration to the next; checkpoints hold all of it."""

    params: optax.Params
    opt_state: optax.OptState
    """Of Adam."""
    scales: Scales
    counters: Counters

    @property
    def updates(self) -> int:
        """Updates so far, without those that were undone."""
        return int(self.opt_state.count)

    @property
    def flat_params(self) -> np.ndarray:
        """All parameters as one vector."""
        return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(self.params)])


def start_state(model: RewardModel, seed: int, scales: Scales) -> RewardState:
    """The state before the first iteration: a fresh network."""
    params, opt_state = model.init(seed)
    return RewardState(params, opt_state, scales, Counters.zero())
