"""Training with memory: what sequences hold, that nothing leaks over an end, any shapes, and a task that needs it."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.data.rollout import Rollout
from batchwright.nets.normalise import ObsStats
from batchwright.nets.recurrent_policy import RecurrentPolicy
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.on_policy.recurrent_update import begins_episode, cut_sequences, prepare_sequences

SMALL = {"preset": "none", "memory": "gru", "memory_size": 8, "hidden": "8,8", "eval_every": 0}


def learner_of(env: str, engine: str, **wishes: Any) -> OnPolicyLearner:
    return make_on_policy_learner(batchwright.plan(env, engine=engine, **SMALL | wishes), env)


def episodes_of(rollout: Rollout, column: int) -> list[list[int]]:
    """The steps of each episode of one environment, and of the rows that were spent on resets."""
    found: list[list[int]] = [[]]
    for t, resets in enumerate(np.asarray(rollout.resets)[:, column]):
        found[-1].append(t)
        if resets:
            found.append([])
    return found


def test_sequences_follow_each_other_in_time_and_environments_lie_side_by_side() -> None:
    step_TN = jnp.arange(6)[:, None] * 10 + jnp.arange(2)[None, :]
    assert cut_sequences(step_TN, 3).tolist() == [[0, 10, 20], [1, 11, 21], [30, 40, 50], [31, 41, 51]]


def same_step(num_envs: int = 1, **kwargs: Any) -> gymnasium.vector.VectorEnv:
    makers = [lambda: gymnasium.make("CartPole-v1", **kwargs)] * num_envs
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)


SAME_STEP = "RememberedSameStep-v0"
gymnasium.register(SAME_STEP, entry_point="gymnasium.envs.classic_control:CartPoleEnv", vector_entry_point=same_step)


# Most engines spend a row on a reset; those that reset within the step keep the last observation apart.
@pytest.mark.parametrize(
    ("env", "engine"),
    [("CartPole-v1", "jax"), ("CartPole-v1", "gymnasium-sync"), (SAME_STEP, "gymnasium-vector")],
)
def test_a_policy_acts_with_the_memory_of_its_episode_alone(env: str, engine: str) -> None:
    # The pole falls after 20 to 40 steps: several ends in a rollout. The rollout before leaves a memory behind.
    learner = learner_of(env, engine, num_envs=2, rollout_steps=96, seq_length=8, epochs=1)
    policy, state = learner.policy, learner.start()
    assert isinstance(policy, RecurrentPolicy)
    stats = state.obs_stats(False)
    loud = state.train.params + 0.5 * np.random.default_rng(0).standard_normal(policy.num_params).astype(np.float32)
    before, _, _ = learner.session.collect(loud, stats, state.collect_state, learner.noise(0))
    _, rollout, _ = learner.session.collect(loud, stats, before, learner.noise(1))
    assert (rollout.final_obs is not None) == (env == SAME_STEP)
    step = jax.jit(lambda obs, memory: policy.step(loud, policy.preprocess(obs, stats), memory))
    ends = 0
    for column in range(2):
        memory = np.asarray(before.memory)[column][None]
        for steps in episodes_of(rollout, column):
            for t in steps:
                out, memory = step(np.asarray(rollout.obs)[t, column][None], memory)
                noise = tuple(eps[t, column][None] for eps in learner.noise(1))
                wanted = policy.heads.sample(out.params, out.raw, noise)
                assert float(wanted[0, 0]) == float(np.asarray(rollout.action)[t, column, 0]), (column, t)
            memory, ends = np.zeros_like(memory), ends + 1
    assert ends > 3, "no episode ended: nothing is tested"
    check_starts(learner, policy, loud, rollout, stats)
    learner.close()


def check_starts(learner: Any, policy: RecurrentPolicy, loud: Any, rollout: Rollout, stats: ObsStats) -> None:
    """The memory before each sequence is the one of the step before it, and nothing where an episode begins."""
    train = learner.start().train._replace(params=loud)
    settings, hyper = learner.on_policy_settings, learner.hyper(learner.start())
    rows = jax.jit(lambda rollout: prepare_sequences(8, policy, settings.update, train, rollout, stats, hyper).rows)
    found = rows(rollout).inputs
    fresh = np.asarray(begins_episode(rollout))
    memory = policy.unroll(policy.unravel(loud), policy.preprocess(rollout.obs, stats), rollout.memory, fresh)
    for number, start in enumerate(range(0, 48, 8)):
        before = np.asarray(rollout.memory) if start == 0 else np.asarray(memory[start - 1])
        wanted = np.where(fresh[start][:, None], 0.0, before)
        np.testing.assert_allclose(found.memory[2 * number : 2 * number + 2], wanted, atol=1e-6)


@pytest.mark.parametrize(
    "wishes",
    [
        {"num_envs": 3, "rollout_steps": 10, "seq_length": 5, "minibatches": 2, "env": "IdentityHybrid-v0"},
        {"num_envs": 1, "rollout_steps": 7, "seq_length": 1, "minibatches": 3, "memory": "lstm", "popart": True},
        {"num_envs": 5, "rollout_steps": 6, "algo": "a2c", "env": "TwoObjectives-v0"},
        {
            "num_envs": 2,
            "rollout_steps": 4,
            "seq_length": 2,
            "algo": "reinforce",
            "env": "RecallImage-v0",
            "hidden": None,
        },
    ],
    ids=["uneven, hybrid and masked", "single steps", "components", "images"],
)
def test_any_shapes_of_the_plan_train_on_every_sequence_once(wishes: dict[str, Any]) -> None:
    env = wishes.pop("env", "CartPole-v1")
    learner = learner_of(env, "jax", **wishes)
    state = learner.start()
    after, result = learner.iterate(state)
    assert result.non_finite is None
    assert result.metrics["first_ratio_error"] < 1e-4  # the sequences begin with the memory that acted
    assert result.metrics["updates"] == learner.plan["updates_per_iteration"]
    assert (np.asarray(after.train.params) != np.asarray(state.train.params)).mean() > 0.1
    order = learner.minibatch_order(0, result.collected.rollout)  # type: ignore[union-attr]
    sequences = wishes["num_envs"] * wishes["rollout_steps"] // learner.plan["seq_length"]
    assert (np.sort(order, -1) == np.arange(sequences)).all()


def test_a_cue_of_eight_steps_ago_is_recalled() -> None:
    wishes = {"num_envs": 32, "rollout_steps": 30, "seq_length": 10, "learning_rate": 3e-3, "total_steps": 60_000}
    wishes |= {"memory_size": 16, "entropy_start": 0.0, "epochs": 4, "minibatches": 4, "seed": 0}
    learner = learner_of("RecallCue-v0", "jax", **wishes)
    state = learner.start()
    for _ in range(60):
        state, _ = learner.iterate(state)
    # Without memory the question always looks the same: 0.25 at best (benchmarks/memory.py).
    assert float(np.mean(state.recent_returns)) > 0.5


def test_what_does_not_combine_is_refused_with_the_fix() -> None:
    def refused(**wishes: Any) -> str:
        with pytest.raises(UserError) as found:
            make_on_policy_learner(
                batchwright.plan("CartPole-v1", engine="jax", preset="none", **wishes), "CartPole-v1"
            )
        return f"{found.value}"

    assert "--memory gru" in refused(seq_length=8)
    assert "whole episodes" in refused(memory="gru", rollout_episodes=4)
    assert "--doctor say" in refused(memory="gru", doctor="act")
    assert "--memory gru --memory-size 8" in refused(memory_size=8)
    assert "belongs to on-policy training" in refused(memory="gru", algo="dqn")
    with pytest.raises(UserError, match="fixed"):
        batchwright.plan("TwoObjectives-v0", memory="gru", component_weighting="learned")
    with pytest.raises(UserError, match="states the memory of its own"):
        batchwright.plan("CartPole-v1", memory="gru", trainer="rl_games")
    with pytest.raises(UserError, match="a network that you bring"):
        batchwright.train("CartPole-v1", memory="gru", network=lambda *given: None, quiet=True)


def test_sequences_of_sixteen_or_fewer_where_they_must_divide_the_rollout() -> None:
    assert batchwright.plan("CartPole-v1", memory="gru", preset="none")["seq_length"] == 16
    assert batchwright.plan("CartPole-v1", memory="gru", preset="none", rollout_steps=50)["seq_length"] == 10
    assert "memory" not in batchwright.plan("CartPole-v1").quantities
