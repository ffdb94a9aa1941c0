"""What one collection brings: a rollout of T steps from N environments."""

# T steps, N environments, K reward components, D numbers in one flat action, M booleans of one action mask.

from __future__ import annotations

from typing import Any, NamedTuple


class Rollout(NamedTuple):
    """Rows as they were collected; `obs` has one more step than the rest, the one to bootstrap from.

    An engine in next-step form returns the true last observation when an episode ends, and spends the following row on
    the reset: that row is not a transition and has `valid` False. So `obs[t + 1]` is always the true successor of
    `obs[t]` on valid rows, and no final observation is stored twice.
    """

    obs: Any  # tree of [T + 1, N, ...]
    action: Any  # [T, N, D] float32: choices as whole numbers, boxes before clipping
    reward: Any  # [T, N, K] float32
    terminated: Any  # [T, N] bool
    truncated: Any  # [T, N] bool
    valid: Any  # [T, N] bool
    final_obs: Any = None
    """tree of [T, N, ...]; only for engines that reset within the step: the true successor where an episode ended."""
    mask: Any = None
    """[T, N, M] bool, what could be done in `obs[:T]`; None where the environment has no masks."""


class Episodes(NamedTuple):
    """What became of the episodes that ended in a rollout; entries count where `ended`.

    A rollout of whole episodes has one entry for each of them: [E] instead of [T, N].
    """

    ended: Any  # [T, N] bool
    returns: Any  # [T, N] float32, undiscounted sum of rewards since the reset
    lengths: Any  # [T, N] int32, transitions since the reset
    components: Any = None  # [T, N, K] float32, the return of each reward component; None where there is one
    success: Any = None  # [T, N] float32: 1 a success, 0 none, NaN not told; None where nothing is ever told


class CollectResult(NamedTuple):
    """All that one iteration collected."""

    position: Any
    """Where collection stands afterwards."""
    rollout: Rollout
    episodes: Episodes
    actions: Any  # [T, N, D]: all that the environments were given, in their order
    env_steps: int
    """Steps of the environments that belong to the rollout, resets included."""
    surplus_steps: int = 0
    """Steps played beyond the wanted episodes: in no loss and no statistic."""
