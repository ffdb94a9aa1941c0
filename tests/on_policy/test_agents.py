"""Training of several agents: what counts as a transition, advantages by agent, what is learned, exact resume."""

# T steps, R rows, E environments, A agents

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.data.rollout import Rollout
from batchwright.learn.returns import gae
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.runs.non_finite import locate_in_rollout
from small_runs import TerminatedAfter, record, start

ENVS = str(Path(__file__).parents[1] / "agent_envs.py")
SMALL = {"preset": "none", "hidden": "8,8", "eval_every": 0, "engine": "gymnasium-sync", "num_envs": 2}


def learner_of(env: str, **wishes: Any) -> OnPolicyLearner:
    return make_on_policy_learner(batchwright.plan(env, **SMALL | wishes), env)


@pytest.fixture
def leaving() -> tuple[OnPolicyLearner, Any, Any]:
    """A learner on `Leaving`, its state, and a rollout of 6 steps: an episode of 4, a reset, a first step."""
    learner = learner_of(f"{ENVS}:Leaving", num_envs=1, rollout_steps=6, epochs=1, minibatches=1)
    state = learner.start()
    return learner, state, learner.collect_rollout(state, state.obs_stats(False))


def test_only_agents_that_are_there_have_transitions(leaving: Any) -> None:
    _, _, collected = leaving
    valid_TA = [[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 0], [1, 1, 0]]
    assert np.asarray(collected.rollout.valid).astype(int).tolist() == valid_TA
    assert collected.env_steps == 6
    assert collected.episodes.ended.tolist() == [[False], [False], [False], [True], [False], [False]]


def test_a_run_counts_the_transitions_of_agents_and_the_steps_of_environments(tmp_path: Path) -> None:
    # 2 environments x 12 steps: two whole episodes of 4 steps with their resets, then 2 steps. Per environment
    # 2 x (2 + 4 + 3) + (2 + 2 + 1) = 23 transitions; returns a 2, b 40, c 300, their mean 114.
    wishes = {**SMALL, "env": f"{ENVS}:Leaving", "rollout_steps": 12, "total_steps": 24}
    run = start(tmp_path / "run", **wishes)
    (line,) = record(run.run_dir)
    assert (line["env_steps"], line["transitions"], line["episodes"]) == (24, 46, 4)
    assert [line[f"agent/{name}/return"] for name in "abc"] == [2, 40, 300]
    assert (line["episode_return"], line["episode_length"], line["success_rate"]) == (114, 4, 0)
    assert run.evaluation["mean"] == 114
    assert run.evaluation["agents"] == {"a": 2, "b": 40, "c": 300}


def test_advantages_are_those_of_each_agent(leaving: Any) -> None:
    _, _, collected = leaving
    rollout: Rollout = collected.rollout
    value = np.full((6, 3, 1), 2.0, np.float32)
    ended = rollout.terminated | rollout.truncated
    found = np.asarray(gae(rollout.reward, value, value, rollout.terminated, ended, 0.5, 0.5))[..., 0]
    # Values are 2, gamma and lambda 0.5: delta = r + 1 - 2, and r - 2 at a termination; A = delta + A' / 4.
    assert found[:2, 0].tolist() == [0 - 1 / 4, 1 - 2]
    b = [9.0]  # truncated: it bootstraps
    for _ in range(3):
        b.insert(0, 9 + b[0] / 4)
    assert found[:4, 1].tolist() == b
    assert found[1:4, 2].tolist() == [99 + 123.5 / 4, 99 + 98 / 4, 100 - 2]


def test_rows_of_agents_that_are_not_there_change_nothing(leaving: Any) -> None:
    learner, state, collected = leaving
    rollout = collected.rollout
    valid = np.asarray(rollout.valid)
    after_valid = np.concatenate([np.zeros((1, 3), bool), valid])  # the successor of a transition counts
    unseen = ~np.concatenate([valid, np.ones((1, 3), bool)]) & ~after_valid
    assert unseen.sum() > 3
    obs, action, reward = (np.array(x) for x in (rollout.obs, rollout.action, rollout.reward))
    obs[unseen], action[~valid], reward[~valid] = 1e3, 1 - action[~valid], 77.0
    other = rollout._replace(obs=obs, action=action, reward=reward)
    stats, order = state.obs_stats(False), learner.minibatch_order(0, rollout)
    results = [learner.update(state.train, data, stats, learner.hyper(state), order) for data in (rollout, other)]
    (one, one_metrics), (two, two_metrics) = results
    assert np.array_equal(one.params, two.params)
    assert one_metrics.to_floats() == two_metrics.to_floats()


def test_a_number_that_is_not_finite_is_named_by_agent() -> None:
    learner = learner_of(f"{ENVS}:NotFinite", rollout_steps=3)
    state = learner.start()
    rollout = learner.collect_rollout(state, state.obs_stats(False)).rollout
    assert locate_in_rollout(rollout, learner.column, learner.engine.agents).startswith(
        "reward[0] of b of environment 0 at step 1 of the rollout is inf"
    )


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
def test_agents_learn_a_cooperative_task(algo: str, tmp_path: Path) -> None:
    steps = {"ppo": 6_000, "a2c": 12_000, "reinforce": 16_000}[algo]
    sizes = {"ppo": 32, "a2c": 8, "reinforce": 16}
    wishes = {"algo": algo, "num_envs": 4, "rollout_steps": sizes[algo], "learning_rate": 0.01, "hidden": "16,16"}
    run = batchwright.train(
        f"{ENVS}:Echo", run_dir=tmp_path / "run", quiet=True, total_steps=steps, **{**SMALL, **wishes}
    )
    # By chance a third of the answers is right: 8/3 of 8.
    assert run.evaluation["mean"] > 7.5


CASES: dict[str, dict[str, Any]] = {
    "leaving": {"env": f"{ENVS}:Leaving", "engine": "gymnasium-sync", "rollout_steps": 14},
    "echo": {"env": f"{ENVS}:Echo?masked=obs", "engine": "gymnasium-sync", "normalize_obs": True},
    "memory": {
        "env": f"{ENVS}:Leaving",
        "engine": "gymnasium-sync",
        "memory": "gru",
        "memory_size": 8,
        "seq_length": 4,
    },
    "processes": {"env": f"{ENVS}:Echo", "engine": "gymnasium-async", "num_threads": 2},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("checkpoint_every", [100, 3])
def test_a_run_of_agents_resumes_to_the_bit(case: str, checkpoint_every: int, tmp_path: Path) -> None:
    wishes = {"preset": "none", "total_steps": 64 * 40, "checkpoint_every": checkpoint_every, **CASES[case]}
    whole = start(tmp_path / "whole", **wishes)
    with TerminatedAfter(tmp_path / "cut", 4):
        cut = start(tmp_path / "cut", **wishes)
    assert cut.interrupted, "the signal came too late"
    batchwright.resume(tmp_path / "cut", quiet=True)
    assert record(tmp_path / "cut") == record(whole.run_dir)


def test_memory_of_an_agent_ends_with_it() -> None:
    learner = learner_of(f"{ENVS}:Leaving", num_envs=1, rollout_steps=8, memory="gru", memory_size=4, seq_length=4)
    state = learner.start()
    assert np.asarray(state.collect_state.memory).shape == (3, 4)
    after = learner.collect_rollout(state, state.obs_stats(False)).collect_state
    # After 8 steps: an episode of 4, a reset, then 3 steps; `a` left before the last one.
    assert (np.abs(np.asarray(after.memory)).sum(1) > 0).tolist() == [False, True, True]


def test_a_loaded_policy_acts_for_one_agent_or_for_all(tmp_path: Path) -> None:
    run = start(tmp_path / "run", **{**CASES["echo"], "total_steps": 64})
    policy = batchwright.load(run.run_dir)
    seen = {"observation": np.eye(3, dtype=np.float32)[1], "action_mask": np.array([0, 0, 1], np.int8)}
    assert policy.agents == ("red", "green", "blue")
    assert policy(seen) == 2
    assert policy({"red": seen, "blue": seen}) == {"red": 2, "blue": 2}


def test_a_policy_with_memory_remembers_for_each_agent(tmp_path: Path) -> None:
    run = start(tmp_path / "run", **{**CASES["memory"], "total_steps": 64})
    policy, alone = batchwright.load(run.run_dir), batchwright.load(run.run_dir)
    loud = 3 * np.random.default_rng(0).standard_normal(policy.params.shape).astype(np.float32)
    policy.params = alone.params = jax.numpy.asarray(loud)
    rng = np.random.default_rng(1)
    for _ in range(5):
        obs = {name: rng.standard_normal(2).astype(np.float32) for name in ("a", "c")}
        policy(obs)
        alone({"c": obs["c"]})
    assert np.array_equal(policy._memories["c"], alone._memories["c"])
    assert not np.array_equal(policy._memories["a"], policy._memories["c"])
    with pytest.raises(UserError, match="a call must say which"):
        policy(np.zeros(2, np.float32))


def test_an_environment_and_its_factory_can_be_passed(tmp_path: Path) -> None:
    from agent_envs import Echo, make_echo

    for number, env in enumerate((Echo(length=4), make_echo, Echo)):
        run = start(tmp_path / str(number), **{**SMALL, "env": env, "engine": "gymnasium-sync", "total_steps": 64})
        assert set(run.evaluation["agents"]) == {"red", "green", "blue"}


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"num_agents": 2}, r"has 3 agents \(a, b, c\); --num-agents 2 contradicts it"),
        ({"algo": "dqn"}, "dqn learns from a replay buffer of environments with one"),
        ({"rollout_episodes": 4}, "whole episodes are rollouts of one agent"),
        ({"components": ["steps"]}, "reward components are those of environments with one"),
    ],
)
def test_what_does_not_combine_with_agents_is_refused(wishes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        batchwright.plan(f"{ENVS}:Leaving", **wishes)


@pytest.mark.parametrize(("env", "trainer"), [("Leaving", "sb3"), ("Unlike", "rl_games")])
def test_trainers_that_cannot_train_the_agents_get_no_plan_for_them(env: str, trainer: str) -> None:
    with pytest.raises(UserError, match=f"has 3 agents.*; {trainer} is not planned for them"):
        batchwright.plan(f"{ENVS}:{env}", trainer=trainer)
    assert batchwright.plan(f"{ENVS}:Leaving", trainer="rl_games")["num_agents"] == 3


def test_agents_of_an_environment_are_in_every_product_of_the_plan() -> None:
    plan = batchwright.plan(f"{ENVS}:Leaving", num_envs=4, rollout_steps=10, minibatches=3, total_steps=4000)
    found = plan.quantities["num_agents"]
    assert (found.value, found.source) == (3, "derived")
    assert plan["rollout_transitions"] == 4 * 10 * 3
    assert plan["minibatch_transitions"] == 40
    assert plan["iterations"] == 100  # steps are those of environments


def test_an_environment_of_one_agent_trains_no_others() -> None:
    with pytest.raises(UserError, match="CartPole-v1 has one agent; --num-agents 2 is planned for other trainers only"):
        batchwright.train("CartPole-v1", num_agents=2, total_steps=64, quiet=True)
