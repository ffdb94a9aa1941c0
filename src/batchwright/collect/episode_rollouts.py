"""Rollouts of whole episodes: each environment has its share in advance and plays it to the end (ADR 0013)."""

# T steps of all chunks, N environments, E episodes of the rollout, L steps that each of them has room for.

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from batchwright.collect.compiled_rollouts import CollectState
from batchwright.core.errors import UserError
from batchwright.data.rollout import CollectResult, Episodes, Rollout

LONGEST_EPISODE_STEPS = 100_000
"""An episode that has not ended by then is taken for one that never does."""
COMPILED_CHUNK_STEPS, HOST_CHUNK_STEPS = 32, 16
"""Steps between two checks of who has finished: a check costs a compiled engine a dispatch, a host engine little."""

Chunk = tuple[CollectState, Rollout, Episodes]


def shares(episodes: int, num_envs: int) -> np.ndarray:
    """Episodes of each environment [N], near-equal: given out in advance, or short episodes would be over-counted."""
    share_N = np.full(num_envs, episodes // num_envs)
    share_N[: episodes % num_envs] += 1
    return share_N


def play_shares(
    play: Callable[[CollectState, int], Chunk],
    state: CollectState,
    share_N: np.ndarray,
    room: Callable[[int], int],
    *,
    stands_still: bool = False,
) -> CollectResult:
    """Exactly the shares, one column for each episode; `play` gives chunk after chunk, `room` a length for L.

    Environments that have finished play on until the last one has, unless the engine `stands_still`: those steps are
    counted as surplus and are in no row.
    """
    chunks: list[tuple[Rollout, Episodes]] = []
    left_N = share_N.copy()
    while (left_N > 0).any():
        state, rollout, episodes = play(state, len(chunks))
        rollout, episodes = jax.tree.map(np.asarray, (rollout, episodes))
        if episodes.success is None:  # not known in this chunk; it may be in another
            episodes = episodes._replace(success=np.full(episodes.ended.shape, np.nan, np.float32))
        chunks.append((rollout, episodes))
        left_N -= episodes.ended.sum(0)
        longest = int(np.asarray(state.lengths)[left_N > 0].max(initial=0))
        if longest >= LONGEST_EPISODE_STEPS:
            raise UserError(
                f"an episode of more than {LONGEST_EPISODE_STEPS} steps: whole episodes need an end or a time limit.",
                ["--rollout-steps 256 (instead of --rollout-episodes)", "gymnasium.wrappers.TimeLimit"],
            )
    rollout, episodes = _joined(chunks)
    where = _wanted(episodes, share_N)
    asked = int((where.last_of_env + 1).sum())
    played = episodes.ended.size
    columns = _columns(rollout, where, room(int(where.length.max())))
    wanted = jax.tree.map(lambda x: x[where.last, where.env], episodes)
    return CollectResult(state, columns, wanted, rollout.action, asked, 0 if stands_still else played - asked)


class _Where(NamedTuple):
    """Where the wanted episodes lie in the steps that were played, in the order of environments."""

    env: np.ndarray  # [E]
    first: np.ndarray  # [E], step of the first transition
    last: np.ndarray  # [E], step of the last one
    last_of_env: np.ndarray  # [N], step of the last one of each environment's share

    @property
    def length(self) -> np.ndarray:
        """Transitions of each episode [E]."""
        return np.asarray(self.last - self.first + 1)


def _wanted(episodes: Episodes, share_N: np.ndarray) -> _Where:
    env_E, last_E = [], []
    for env, share in enumerate(share_N):
        ends = np.flatnonzero(episodes.ended[:, env])[:share]
        env_E += [env] * int(share)
        last_E += ends.tolist()
    envs, lasts = np.array(env_E), np.array(last_E)
    last_N = np.full(len(share_N), -1)
    np.maximum.at(last_N, envs, lasts)
    return _Where(envs, lasts - episodes.lengths[lasts, envs] + 1, lasts, last_N)


def _columns(rollout: Rollout, where: _Where, room_L: int) -> Rollout:
    """The rollout [L, E] with an episode in each column; rows after its end repeat the last and are not valid."""
    at_LE = np.arange(room_L + 1)[:, None]
    inside_LE = at_LE[:-1] < where.length
    step_LE = np.minimum(where.first + at_LE, where.last + 1)
    row_LE = np.minimum(step_LE[:-1], where.last)
    steps = rollout.reward.shape[0]

    def take(x: np.ndarray) -> np.ndarray:
        return np.asarray(x[step_LE if len(x) == steps + 1 else row_LE, where.env])

    def successor(obs: np.ndarray, final: np.ndarray) -> np.ndarray:
        """Where an engine resets within the step, the true last observation lies apart."""
        ended_LE = (at_LE >= where.length).reshape(*step_LE.shape, *[1] * (obs.ndim - 2))
        return np.where(ended_LE, final[where.last, where.env], obs)

    found = jax.tree.map(take, rollout)
    if rollout.final_obs is not None:
        found = found._replace(obs=jax.tree.map(successor, found.obs, rollout.final_obs), final_obs=None)
    result: Rollout = found._replace(
        reward=np.where(inside_LE[..., None], found.reward, np.float32(0)),
        terminated=found.terminated & inside_LE,
        truncated=found.truncated & inside_LE,
        valid=inside_LE,
    )
    return result


def _joined(chunks: list[tuple[Rollout, Episodes]]) -> tuple[Rollout, Episodes]:
    """Chunks of steps as one: the last observation of each is the first of the next."""
    if len(chunks) == 1:
        return chunks[0]
    steps = chunks[0][0].reward.shape[0]

    def join(*parts: np.ndarray) -> np.ndarray:
        if len(parts[0]) == steps:
            return np.concatenate(parts)
        return np.concatenate([*(part[:-1] for part in parts), parts[-1][-1:]])

    return jax.tree.map(join, *chunks)  # type: ignore[no-any-return]
