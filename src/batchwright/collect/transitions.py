"""From a rollout to what a replay buffer stores of it."""

# T steps, N environments.

from __future__ import annotations

from typing import Any

import numpy as np

from batchwright.data.rollout import Episodes, Rollout


def stored_rewards(rollout: Rollout, episodes: Episodes, episodic: bool) -> Any:
    """Rewards [T, N]; with `episodic`, 0 until an episode ends and then the sum of all its rewards."""
    if not episodic:
        return rollout.reward.sum(-1)
    return np.where(np.asarray(episodes.ended), np.asarray(episodes.returns), np.float32(0))
