"""Rollouts of whole episodes: each environment's share and nothing else, one episode to a column."""

# T steps, N environments, E episodes, L steps of room.

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from test_rollouts import ENGINES, STATS

from batchwright.collect.compiled_rollouts import CollectState, initial_collect_state, make_collect
from batchwright.collect.episode_rollouts import play_shares, shares
from batchwright.collect.host_rollouts import host_collect_state, make_host_collect
from batchwright.core.errors import UserError
from batchwright.data.rollout import CollectResult, Episodes, Rollout
from batchwright.envs.engines import CompiledEngine, HostEngine, make_engine
from batchwright.nets.policy_factory import make_policy

CHUNK, ROOM = 16, 500


def play(form: str, episodes: int, num_envs: int) -> CollectResult:
    """A random policy's episodes of CartPole."""
    engine = make_engine(ENGINES[form][0], num_envs, ENGINES[form][1])
    policy = make_policy(engine.observation, engine.action, hidden=(4,))
    flat, share_N = policy.init(jax.random.key(0)), shares(episodes, num_envs)
    stands_still = False
    if isinstance(engine, HostEngine):
        obs, stands_still = engine.start_share(0, share_N.tolist())
        state, collect = host_collect_state(obs, num_envs), make_host_collect(engine, policy, CHUNK)
    else:
        assert isinstance(engine, CompiledEngine)
        state, collect = initial_collect_state(*engine.start(0), num_envs), jax.jit(make_collect(engine, policy))

    def chunk(state: CollectState, number: int) -> Any:
        return collect(flat, STATS, state, policy.heads.noise(number, (CHUNK, num_envs)))

    found = play_shares(chunk, state, share_N, lambda longest: ROOM, stands_still=stands_still)
    engine.close()
    return found


@pytest.fixture(scope="module", params=ENGINES)
def played(request: pytest.FixtureRequest) -> tuple[str, CollectResult]:
    return request.param, play(request.param, episodes=7, num_envs=3)


def test_there_are_exactly_the_wanted_episodes_and_all_of_each(played: Any) -> None:
    """CartPole pays 1 for every step: length, return and rows of a column are one number."""
    _, (_, rollout, episodes, *_) = played
    assert rollout.valid.shape == (ROOM, 7)
    assert episodes.ended.all()
    np.testing.assert_array_equal(rollout.valid.sum(0), episodes.lengths)
    np.testing.assert_array_equal(rollout.reward.sum((0, 2)), episodes.returns)
    ended = rollout.terminated | rollout.truncated
    assert (ended.sum(0) == 1).all()
    assert (ended.argmax(0) == episodes.lengths - 1).all()


def test_every_column_begins_upright_follows_from_itself_and_ends_fallen(played: Any) -> None:
    _, (_, rollout, episodes, *_) = played
    assert (np.abs(rollout.obs[0]) <= 0.05).all()
    moved = rollout.obs[:-1][..., 0] + 0.02 * rollout.obs[:-1][..., 1]
    np.testing.assert_allclose(rollout.obs[1:][..., 0][rollout.valid], moved[rollout.valid], atol=1e-5)
    last = rollout.obs[episodes.lengths, np.arange(7)]
    assert (np.abs(last[:, 2]) > 12 * np.pi / 180).all()
    assert rollout.final_obs is None


def test_steps_beyond_the_shares_are_counted_or_not_taken(played: Any) -> None:
    """7 episodes of 3 environments have 4 resets between them, which next-step engines spend a step on."""
    form, found = played
    env_steps, surplus = found.env_steps, found.surplus_steps
    resets = 0 if form == "same-step" else 4
    assert env_steps == found.rollout.valid.sum() + resets
    if form == "sync":
        assert surplus == 0
    else:
        assert env_steps + surplus == found.actions.shape[0] * 3
        assert surplus > 0


def test_short_episodes_are_not_over_counted() -> None:
    """One environment's episodes have 1 step, the other's 9: three of each are wanted, and three of each come."""
    length = np.array([1, 9])
    found = play_shares(lambda at, chunk: _steady(at, length), _start(), np.array([3, 3]), lambda longest: longest)
    assert found.episodes.lengths.tolist() == [1, 1, 1, 9, 9, 9]
    assert found.rollout.valid.sum(0).tolist() == [1, 1, 1, 9, 9, 9]
    # Steps with their resets: 3 + 2, and 27 + 2; four chunks of 8 were played, 64 steps in all.
    assert (found.env_steps, found.surplus_steps) == (34, 30)


def test_an_episode_that_never_ends_is_refused_with_a_way_out() -> None:
    with pytest.raises(UserError, match="need an end or a time limit"):
        play_shares(
            lambda at, chunk: _steady(at, np.array([10**9, 10**9])), _start(), np.array([1, 1]), lambda longest: longest
        )


def test_an_episode_keeps_the_success_that_only_some_chunks_tell() -> None:
    """Chunks of 8 steps: the second and third episodes end in the third and fourth chunk, where success is reported."""

    def chunk(at: CollectState, number: int) -> Any:
        state, rollout, episodes = _steady(at, np.array([9, 9]))
        success = np.where(episodes.ended, np.float32(number % 2), np.nan)
        return state, rollout, episodes._replace(success=success if number >= 2 else None)

    found = play_shares(chunk, _start(), np.array([3, 3]), lambda longest: longest)
    # Nine steps and a reset each: ends at steps 8, 18 and 28.
    np.testing.assert_array_equal(found.episodes.success, [np.nan, 0, 1, np.nan, 0, 1])


def test_shares_are_near_equal_and_whole() -> None:
    assert shares(10, 4).tolist() == [3, 3, 2, 2]
    assert shares(1, 1).tolist() == [1]


def _start() -> CollectState:
    return CollectState(None, np.zeros((2, 1)), np.zeros(2, bool), np.zeros(2), np.zeros(2, np.int32))


def _steady(at: CollectState, length_N: np.ndarray, steps: int = 8) -> tuple[CollectState, Rollout, Episodes]:
    """Environments whose episodes all have the same length, in next-step form."""
    if length_N[0] > 10**6:
        steps = 50_000
    rows = []
    ended, lengths = at.ended, at.lengths
    for _ in range(steps):
        valid = ~ended
        lengths = np.where(valid, lengths + 1, 0)
        ended = lengths == length_N
        rows.append((ended, lengths, valid))
    ends, counts, valids = (np.stack(column) for column in zip(*rows, strict=True))
    none = np.zeros_like(ends)
    ones = valids[..., None].astype(np.float32)
    rollout = Rollout(np.zeros((steps + 1, 2, 1)), ones, ones, ends, none, valids)
    return CollectState(None, at.obs, ended, lengths, lengths), rollout, Episodes(ends, counts, counts)
