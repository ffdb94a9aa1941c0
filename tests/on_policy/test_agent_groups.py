"""Agents with different spaces: a policy for each group, trained together, each as if it were alone."""

# T steps, R rows

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.envs.engines import make_engine
from batchwright.nets.grouped_policy import GroupedPolicy
from batchwright.on_policy.agent_rows import normalise_by_group, observed_moments
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.policies import numpy_policy
from small_runs import TerminatedAfter, record, start

ENVS = str(Path(__file__).parents[1] / "agent_envs.py")
UNLIKE = {"env": f"{ENVS}:Unlike", "engine": "gymnasium-sync", "preset": "none", "hidden": "8,8", "eval_every": 0}
ROWS = {"sign": [0, 2, 3, 5], "level": [1, 4]}
"""Of two environments, by group."""


def learner_of(**wishes: Any) -> OnPolicyLearner:
    settings = UNLIKE | {"num_envs": 2, "rollout_steps": 8} | wishes
    env = settings.pop("env")
    return make_on_policy_learner(batchwright.plan(env, **settings), env)


@pytest.fixture
def collected() -> tuple[OnPolicyLearner, Any, Any]:
    learner = learner_of()
    state = learner.start()
    return learner, state, learner.collect_rollout(state, state.obs_stats(False)).rollout


def test_agents_with_equal_spaces_are_a_group_named_by_what_their_names_share() -> None:
    plan = batchwright.plan(f"{ENVS}:Unlike")
    found = plan.quantities["num_policies"]
    assert found.value == 2
    assert found.reason.endswith("equal spaces: sign (sign_0, sign_1), level (level_0)")
    assert plan["rollout_transitions"] == plan["num_envs"] * plan["rollout_steps"] * 3


def test_a_row_holds_its_own_group_and_nothing_of_others() -> None:
    engine = make_engine(f"{ENVS}:Unlike", 2, "gymnasium-sync")
    obs = engine.start(0)
    assert obs["agent_group"].tolist() == [0, 1, 0, 0, 1, 0]
    assert (obs["sign"][ROWS["sign"]].sum(-1) == 1).all() and not obs["sign"][ROWS["level"]].any()
    assert (obs["level"][ROWS["level"], 1] == 1).all() and not obs["level"][ROWS["sign"]].any()
    # The group is forced; a level's choice of a sign has one value left.
    assert engine.mask.astype(int).tolist() == [[1, 0, 1, 1, 1], [0, 1, 1, 0, 0], [1, 0, 1, 1, 1]] * 2
    engine.close()


def test_a_group_acts_and_values_as_its_policy_alone(collected: Any) -> None:
    learner, state, rollout = collected
    policy, flat = learner.policy, state.train.params + 0.1
    assert isinstance(policy, GroupedPolicy)
    inputs = policy.preprocess(jax.tree.map(lambda x: x[:-1], rollout.obs), state.obs_stats(False))
    out = policy.outputs(flat, inputs)
    together = policy.heads.log_prob(out.params, out.raw, rollout.action, rollout.mask).sum(-1)
    entropy = policy.heads.entropy(out.params, out.raw, rollout.action, rollout.mask).sum(-1)
    for name, place in (("sign", 1), ("level", 2)):  # of the flat action: group, sign, level
        own, rows = policy.groups[name], ROWS[name]
        alone = own.outputs(policy.params_of(flat, name), jnp.asarray(rollout.obs[name][:-1, rows], jnp.float32))
        action = rollout.action[:, rows, place : place + 1]
        np.testing.assert_allclose(out.value[:, rows], alone.value, rtol=1e-5)
        expected = own.heads.log_prob(alone.params, alone.raw, action)[..., 0]
        np.testing.assert_allclose(together[:, rows], expected, rtol=1e-5, atol=1e-6)
        expected = own.heads.entropy(alone.params, alone.raw, action)[..., 0]
        np.testing.assert_allclose(entropy[:, rows], expected, rtol=1e-5, atol=1e-6)


def test_rows_of_one_group_move_no_parameter_of_another(collected: Any) -> None:
    learner, state, rollout = collected
    valid = np.array(rollout.valid)
    valid[:, ROWS["sign"]] = False
    order = learner.minibatch_order(0, rollout)
    levels = rollout._replace(valid=valid)
    train, _ = learner.update(state.train, levels, state.obs_stats(False), learner.hyper(state), order)
    policy = learner.policy
    assert isinstance(policy, GroupedPolicy)
    before, after = (policy.unravel(params)["net"] for params in (state.train.params, train.params))
    same = {name: jax.tree.all(jax.tree.map(np.array_equal, before[name], after[name])) for name in before}
    assert same == {"sign": True, "level": False}


def test_advantages_are_normalised_by_group(collected: Any) -> None:
    learner, state, rollout = collected
    inputs = learner.policy.preprocess(jax.tree.map(lambda x: x[:1], rollout.obs), state.obs_stats(False))
    # Signs 0, 200, 0, 200: mean 100, spread 100. Levels -3, -1: mean -2, spread 1.
    advantage = jnp.array([[0.0, -3.0, 200.0, 0.0, -1.0, 200.0]])
    found = normalise_by_group(learner.policy, advantage, jnp.ones((1, 6)), inputs)
    np.testing.assert_allclose(found, [[-1, -1, 1, -1, 1, 1]], rtol=1e-5)


def test_numbers_are_normalised_over_the_rows_that_have_them(collected: Any) -> None:
    learner, state, rollout = collected
    vector = learner.policy.inputs.vector(jax.tree.map(lambda x: x[:-1], rollout.obs)).reshape(-1, 7)
    weight = jnp.asarray(rollout.valid).reshape(-1).astype(jnp.float32)
    moments = state.obs.merge(*observed_moments(learner.policy, vector, weight))
    levels = np.asarray(rollout.obs["level"])[:-1, ROWS["level"], 0][np.asarray(rollout.valid)[:, ROWS["level"]]]
    assert moments.count.tolist()[:2] == [0, 0] and moments.count[-1] == len(levels)
    stats = moments.obs_stats(True)
    assert (stats.mean[:2].tolist(), stats.std[:2].tolist()) == ([0, 0], [1, 1])
    np.testing.assert_allclose([stats.mean[5], stats.std[5]], [levels.mean(), levels.std()], rtol=1e-4)
    twice = moments.merge(*observed_moments(learner.policy, vector, weight))
    np.testing.assert_allclose(twice.std, moments.std, rtol=1e-5)


def test_every_group_learns(tmp_path: Path) -> None:
    wishes = {"num_envs": 4, "rollout_steps": 30, "learning_rate": 0.01, "total_steps": 12_000, "eval_episodes": 20}
    run = start(tmp_path / "run", **UNLIKE | wishes | {"epochs": 6})
    agents = run.evaluation["agents"]
    assert agents["sign_0"] > 480 and agents["sign_1"] > 280  # of 500 and 300; by chance a third
    assert agents["level_0"] > -0.8  # by chance about -2


@pytest.mark.parametrize("checkpoint_every", [100, 3])
def test_a_run_of_groups_resumes_to_the_bit(checkpoint_every: int, tmp_path: Path) -> None:
    wishes = UNLIKE | {"env": f"{ENVS}:Unlike?masked=true", "total_steps": 64 * 40}
    wishes["checkpoint_every"] = checkpoint_every
    whole = start(tmp_path / "whole", **wishes)
    with TerminatedAfter(tmp_path / "cut", 4):
        cut = start(tmp_path / "cut", **wishes)
    assert cut.interrupted, "the signal came too late"
    batchwright.resume(tmp_path / "cut", quiet=True)
    assert record(tmp_path / "cut") == record(whole.run_dir)


def test_a_loaded_run_has_a_policy_for_each_group(tmp_path: Path) -> None:
    run = start(tmp_path / "run", **UNLIKE | {"env": f"{ENVS}:Unlike?masked=true", "total_steps": 64})
    policy = batchwright.load(run.run_dir)
    sign, level = np.eye(3, dtype=np.float32)[0], np.array([0.3, 1.0], np.float32)
    found = policy({"sign_1": sign, "level_0": level}, mask={"sign_1": np.array([0, 1, 0], np.int8)})
    assert found["sign_1"] == 1
    np.testing.assert_array_equal(found["level_0"], policy.groups["level"](level))
    with pytest.raises(UserError, match="is several, by group of agents"):
        policy(sign)
    assert policy.evaluate(3)["agents"].keys() == {"sign_0", "sign_1", "level_0"}
    files = batchwright.export(run.run_dir, "numpy")
    assert sorted(file.name for file in files) == ["numpy_policy.py", "policy-level.npz", "policy-sign.npz"]
    exported = numpy_policy.Policy(run.run_dir / "policy-level.npz")
    np.testing.assert_allclose(exported(level), found["level_0"], rtol=1e-5)


def test_equal_agents_may_have_policies_of_their_own(tmp_path: Path) -> None:
    wishes = UNLIKE | {"env": f"{ENVS}:Echo", "agent_groups": ["red", "*e*n", "blue"], "total_steps": 64}
    plan = batchwright.plan(wishes["env"], agent_groups=wishes["agent_groups"])
    assert plan["num_policies"] == 3
    run = start(tmp_path / "run", **wishes)
    assert list(batchwright.load(run.run_dir).groups) == ["red", "en", "blue"]


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"agent_groups": ["sign_*"]}, "level_0 of .*Unlike is in no group; every agent is in one"),
        ({"agent_groups": ["sign_*", "*"]}, r"sign_0 of .* is in 2 groups \(sign_\*, \*\)"),
        ({"agent_groups": ["red", "*"]}, "--agent-groups red: no agent of .* has such a name; it has sign_0"),
        ({"memory": "gru"}, "--memory gru: agents have 2 policies; a memory is that of one network"),
    ],
)
def test_what_does_not_combine_with_groups_is_refused(wishes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        batchwright.plan(f"{ENVS}:Unlike", **wishes)


def test_a_group_of_agents_with_different_spaces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the group 'all' has agents with different spaces: sign_0 and level_0"):
        start(tmp_path / "run", **UNLIKE | {"agent_groups": ["*"]})
    assert not (tmp_path / "run").exists()


def test_groups_need_agents() -> None:
    with pytest.raises(UserError, match="groups agents, and CartPole-v1 names none"):
        batchwright.plan("CartPole-v1", agent_groups=["a"])
