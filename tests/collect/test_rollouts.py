"""Rollouts of every form of engine: what is a transition, whose successor is where, what became of the episodes."""

# T steps, N environments.

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

from batchwright.collect.compiled_rollouts import initial_collect_state, make_collect
from batchwright.collect.host_rollouts import host_collect_state, make_host_collect
from batchwright.data.rollout import Episodes, Rollout
from batchwright.envs.engines import CompiledEngine, Engine, HostEngine, make_engine
from batchwright.nets.policy import ObsStats
from batchwright.nets.policy_factory import make_policy

T, N = 40, 3
STATS = ObsStats(np.zeros(4, np.float32), np.ones(4, np.float32))


def same_step(num_envs: int, **kwargs: Any) -> Any:
    makers = [lambda: gymnasium.make("CartPole-v1")] * num_envs
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)


gymnasium.register(
    "SameStepCartPole-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", vector_entry_point=same_step
)
ENGINES = {
    "jax": ("CartPole-v1", "jax"),
    "envpool": ("CartPole-v1", "envpool"),
    "sync": ("CartPole-v1", "gymnasium-sync"),
    "vector": ("CartPole-v1", "gymnasium-vector"),
    "same-step": ("SameStepCartPole-v0", "gymnasium-vector"),
}


def collect_twice(engine: Engine) -> tuple[Rollout, Episodes]:
    """Two rollouts of T / 2 steps, one after the other, put together."""
    policy = make_policy(engine.observation, engine.action, hidden=(4,))
    flat = policy.init(jax.random.key(0))
    if isinstance(engine, HostEngine):
        state, collect = host_collect_state(engine.start(0), N), make_host_collect(engine, policy, T // 2)
    else:
        assert isinstance(engine, CompiledEngine)
        state, collect = initial_collect_state(*engine.start(0), N), jax.jit(make_collect(engine, policy))
    found = []
    for stream in (1, 2):
        state, rollout, episodes = collect(flat, STATS, state, policy.heads.noise(stream, (T // 2, N)))
        found.append(jax.tree.map(np.array, (rollout, episodes)))
    (one, first), (two, second) = found
    np.testing.assert_array_equal(one.obs[-1], two.obs[0])
    join = lambda a, b: np.concatenate([a, b])  # noqa: E731
    episodes = jax.tree.map(join, first, second)
    return jax.tree.map(join, one._replace(obs=one.obs[:-1]), two), episodes


@pytest.fixture(scope="module", params=ENGINES)
def collected(request: pytest.FixtureRequest) -> tuple[str, Rollout, Episodes]:
    engine = make_engine(*(ENGINES[request.param][0], N), ENGINES[request.param][1])
    rollout, episodes = collect_twice(engine)
    engine.close()
    return request.param, rollout, episodes


def test_the_row_after_an_end_is_a_reset_and_all_others_are_transitions(collected: Any) -> None:
    form, rollout, _ = collected
    ended = rollout.terminated | rollout.truncated
    assert ended.any()
    if form == "same-step":
        assert rollout.valid.all()
        return
    assert rollout.valid[0].all()
    np.testing.assert_array_equal(rollout.valid[1:], ~ended[:-1])
    assert not (ended & ~rollout.valid).any()
    assert (rollout.reward[~rollout.valid] == 0).all()


def test_returns_and_lengths_of_episodes_are_those_of_their_transitions(collected: Any) -> None:
    """CartPole pays 1 for every step: an episode's return is its length, counted here row by row."""
    _, rollout, episodes = collected
    np.testing.assert_array_equal(episodes.ended, rollout.terminated | rollout.truncated)
    for n in range(N):
        steps = 0
        for t in range(T):
            steps += int(rollout.valid[t, n])
            if episodes.ended[t, n]:
                assert (episodes.lengths[t, n], episodes.returns[t, n]) == (steps, steps)
                steps = 0


def test_the_successor_of_a_transition_follows_from_it(collected: Any) -> None:
    """CartPole's position moves by 0.02 s x velocity: so it must from obs[t] to the true successor, ends included."""
    form, rollout, _ = collected
    successor = rollout.obs[1:]
    ended = rollout.terminated | rollout.truncated
    if form == "same-step":
        successor = np.where(ended[..., None], rollout.final_obs, successor)
    rows = rollout.valid
    moved = rollout.obs[:-1][..., 0] + 0.02 * rollout.obs[:-1][..., 1]
    np.testing.assert_allclose(successor[..., 0][rows], moved[rows], atol=1e-5)
    # A failing pole has fallen past 12 degrees, and a fresh one stands within 0.05 rad.
    assert (np.abs(successor[rollout.terminated][:, 2]) > 12 * np.pi / 180).all()
    fresh = rollout.obs[1:][ended] if form == "same-step" else rollout.obs[1:][~rollout.valid]
    assert (np.abs(fresh) <= 0.05).all()


def test_two_rollouts_of_half_the_steps_are_one_of_all_of_them() -> None:
    """Actions are ours: the same noise in one piece gives the same rows."""
    engine = make_engine("CartPole-v1", N, "jax")
    assert isinstance(engine, CompiledEngine)
    policy = make_policy(engine.observation, engine.action, hidden=(4,))
    flat = policy.init(jax.random.key(0))
    halves = [policy.heads.noise(stream, (T // 2, N)) for stream in (1, 2)]
    whole = tuple(np.concatenate(parts) for parts in zip(*halves, strict=True))
    collect = jax.jit(make_collect(engine, policy))
    _, at_once, _ = collect(flat, STATS, initial_collect_state(*engine.start(0), N), whole)
    in_two, _ = collect_twice(engine)
    np.testing.assert_array_equal(at_once.obs, in_two.obs)
    np.testing.assert_array_equal(at_once.action, in_two.action)
