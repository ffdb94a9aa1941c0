"""What one collection brings: a rollout of T steps from N environments."""

# T steps, N environments, K reward components, D numbers in one flat action, M booleans of one action mask, A agents.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from batchwright.data.arrays import BoolTN, BoolTNM, FloatNS, FloatTN, FloatTNA, FloatTND, FloatTNK, IntTN, Tree


class Rollout(NamedTuple):
    """Rows as they were collected; `obs` has one more step than the rest, the one to bootstrap from.

    An engine in next-step form returns the true last observation when an episode ends, and spends the following row on
    the reset: that row is not a transition and has `valid` False. So `obs[t + 1]` is always the true successor of
    `obs[t]` on valid rows, and no final observation is stored twice.
    """

    obs: Tree  # of [T + 1, N, ...]
    action: FloatTND  # choices as whole numbers, boxes before clipping
    reward: FloatTNK
    terminated: BoolTN
    truncated: BoolTN
    valid: BoolTN
    final_obs: Tree = None
    """Of [T, N, ...]; only for engines that reset within the step: the true successor where an episode ended."""
    mask: BoolTNM | None = None
    """What could be done in `obs[:T]`; None where the environment has no masks."""
    success: FloatTN | None = None
    """1 where an episode ended in success, else 0; only where the weights of components are learned towards it."""
    memory: FloatNS | None = None
    """What the policy remembered before the first step; None where it has no memory."""

    @property
    def resets(self) -> Any:
        """[T, N] rows after which an episode begins: ends, or in next-step form the rows that are spent on resets."""
        return ~self.valid if self.final_obs is None else self.terminated | self.truncated


class Episodes(NamedTuple):
    """What became of the episodes that ended in a rollout; entries count where `ended`.

    A rollout of whole episodes has one entry for each of them: [E] instead of [T, N].
    """

    ended: BoolTN
    returns: FloatTN  # undiscounted sum of rewards since the reset
    lengths: IntTN  # transitions since the reset
    components: FloatTNK | None = None  # the return of each reward component; None where there is one
    success: FloatTN | None = None  # 1 a success, 0 none, NaN unknown; None where none is ever reported
    agents: FloatTNA | None = None
    """The return of each agent, NaN of those that had no part; None where environments have one. Then all entries are
    of environments, `returns` means over their agents."""


class CollectResult(NamedTuple):
    """All that one iteration collected."""

    collect_state: Any
    """`CollectState` after the last step."""
    rollout: Rollout
    episodes: Episodes
    actions: FloatTND  # all that the environments were given, in their order
    env_steps: int
    """Steps of the environments that belong to the rollout, resets included."""
    surplus_steps: int = 0
    """Steps played beyond the wanted episodes: in no loss and no statistic."""
    all_rewards: Rollout | None = None
    """Rewards and flags of the environments of all processes, with neither observations nor actions; None where this
    process has them all."""
    recent: Callable[[], Rollout | None] | None = None
    """Gives the rollout with what was collected before it, where it shows too little alone."""
