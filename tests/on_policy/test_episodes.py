"""Training by whole episodes: exact counts, one program, the same gradient, exact resume, every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import batchwright
from batchwright.api import prepare
from batchwright.data.rollout import Rollout
from batchwright.envs.spaces import Box, Discrete
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy_factory import make_policy
from batchwright.on_policy.episode_learner import room
from batchwright.on_policy.episode_update import episode_orders, make_episode_update
from batchwright.on_policy.initial_train_state import start_train_state
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_learner import scheduled_hyper
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.on_policy.on_policy_update import make_update
from batchwright.planning.episode_plan import EpisodeCut
from batchwright.runs.non_finite import locate_in_rollout
from batchwright.store.minibatches import layout, shuffled_orders
from run_batchwright import plan
from small_runs import TerminatedAfter, episodes, record, start

EPISODES = {
    "env": "CartPole-v1",
    "engine": "jax",
    "num_envs": 2,
    "rollout_steps": None,
    "minibatches": None,
    "total_steps": None,
    "rollout_episodes": 3,
    "total_episodes": 18,
    "minibatch_transitions": 32,
    "epochs": 2,
    "hidden": "8",
    "eval_every": 0,
    "eval_episodes": 2,
    "checkpoint_every": 100,
}


def made(**changes: Any) -> Any:
    return plan(**{name: value for name, value in (EPISODES | changes).items() if value is not None})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("runs") / "episodes", **EPISODES).run_dir


def test_every_iteration_has_exactly_its_episodes_and_all_their_transitions(run: Path) -> None:
    logged = record(run)
    assert [line["episodes"] for line in logged] == [3] * 6
    assert logged[-1]["episodes_total"] == 18
    transitions = np.diff([0, *(line["transitions"] for line in logged)])
    # CartPole pays 1 for every step.
    assert transitions.tolist() == [round(3 * line["episode_return"]) for line in logged]
    # Two environments, three episodes: one reset between two of them.
    assert np.diff([0, *(line["env_steps"] for line in logged)]).tolist() == (transitions + 1).tolist()
    assert all(line["surplus_steps"] > 0 for line in logged)
    assert all(line["first_ratio_error"] < 1e-6 for line in logged)


def test_minibatches_are_as_near_to_the_size_aimed_at_as_the_episodes_allow(run: Path) -> None:
    logged = record(run)
    rows = np.diff([0, *(line["transitions"] for line in logged)])
    assert [line["updates"] for line in logged] == [
        2 * EpisodeCut(minibatch_transitions=32).parts(int(n)) for n in rows
    ]
    assert len(set(rows.tolist())) > 1


def test_rollouts_of_any_length_share_one_program() -> None:
    learner = make_on_policy_learner(made(), "CartPole-v1")
    state = learner.start()
    lengths = set()
    for _ in range(4):
        state, result = learner.iterate(state)
        assert result.collected is not None
        lengths.add(int(result.collected.episodes.lengths.max()))
    assert len(lengths) > 1
    assert learner.update._cache_size() == 1  # type: ignore[attr-defined]
    assert learner.session.collect._cache_size() == 1  # type: ignore[attr-defined]


def test_room_is_the_time_limit_where_that_is_small_and_grows_in_steps_elsewhere() -> None:
    assert {room(longest, 10, 500) for longest in (1, 77, 500)} == {500}
    # 20 x 1000 rows are more than fit at once: 250 steps, or all 1000.
    assert [room(longest, 20, 1000) for longest in (1, 250, 251, 1000)] == [250, 250, 1000, 1000]
    assert [room(longest, 16, None) for longest in (1, 1024, 1025, 5000)] == [1024, 1024, 4096, 16384]


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_episodes_that_fill_their_columns_give_the_update_of_steps(algo: str) -> None:
    """8 steps x 3 episodes with nothing left empty, in 4 minibatches of 6: both programs make the same updates."""
    steps, episodes, parts = 8, 3, 4
    found = plan(algo=algo, num_envs=3, rollout_steps=8, minibatches=4, epochs=2, hidden=(8,), gamma=0.9)
    policy = make_policy(Box((2,), np.dtype("f4"), np.full(2, -1.0), np.full(2, 1.0)), Discrete(3), hidden=(8,))
    rng = np.random.default_rng(0)
    ended = np.zeros((steps, episodes), bool)
    ended[-1] = True
    rollout = Rollout(
        rng.normal(size=(steps + 1, episodes, 2)).astype(np.float32),
        rng.integers(0, 3, (steps, episodes, 1)).astype(np.float32),
        rng.normal(size=(steps, episodes, 1)).astype(np.float32),
        ended & np.array([True, False, False]),
        ended & np.array([False, True, True]),
        np.ones((steps, episodes), bool),
    )
    settings = OnPolicySettings.from_plan(found)
    update, hyper = settings.update, scheduled_hyper(settings, 0.0)
    train = start_train_state(policy.init(jax.random.key(0)), update)
    stats, none = ObsStats(np.zeros(2, np.float32), np.ones(2, np.float32)), np.zeros(1, bool)
    by_steps = make_update(policy, update, steps * episodes, none)
    by_episodes = make_episode_update(policy, update, EpisodeCut(minibatches=parts), none)
    orders = shuffled_orders(7, steps * episodes, 2)
    one, metrics = jax.jit(by_steps)(train, rollout, stats, hyper, orders)
    cut = episode_orders(7, rollout.valid, 2, EpisodeCut(minibatches=parts))
    other, also = jax.jit(by_episodes)(train, rollout, stats, hyper, cut)
    assert layout(steps * episodes, parts)[0].shape == (4, 6)
    np.testing.assert_allclose(one.params, other.params, atol=1e-6)
    for name in ("updates", "loss", "policy_gradient_noise", "value_gradient_signal", "kl"):
        np.testing.assert_allclose(metrics.to_floats()[name], also.to_floats()[name], rtol=2e-3, atol=1e-6)


def test_what_follows_an_end_is_in_no_gradient() -> None:
    """Rows after the end of an episode hold copies; other numbers there change nothing."""
    learner = make_on_policy_learner(made(num_envs=1, rollout_episodes=1, minibatch_transitions=999_999), "CartPole-v1")
    state = learner.start()
    stats = state.obs_stats(False)
    rollout = learner.collect_rollout(state, stats).rollout
    length = int(rollout.valid.sum())
    other = rollout._replace(
        obs=np.concatenate([rollout.obs[: length + 1], rollout.obs[length + 1 :] + 3.0]),
        action=np.where(rollout.valid[..., None], rollout.action, 1 - rollout.action),
    )
    hyper = learner.hyper(state)
    one, _ = learner.update(state.train, rollout, stats, hyper, learner.minibatch_order(0, rollout))
    two, _ = learner.update(state.train, other, stats, hyper, learner.minibatch_order(0, other))
    np.testing.assert_array_equal(one.params, two.params)


def test_a_time_limit_bootstraps_from_the_true_last_observation() -> None:
    """Pendulum never terminates: each column ends as truncated, on the observation that its last action led to."""
    learner = make_on_policy_learner(made(env="Pendulum-v1", num_envs=2), "Pendulum-v1")
    state = learner.start()
    rollout = learner.collect_rollout(state, state.obs_stats(False)).rollout
    assert rollout.valid.all()
    assert rollout.truncated[-1].all()
    assert not rollout.terminated.any()
    # theta' = theta + 0.05 theta_dot', in every row and also from the last to the one behind it.
    angle = np.arctan2(rollout.obs[..., 1], rollout.obs[..., 0])
    turned = np.mod(angle[1:] - angle[:-1] + np.pi, 2 * np.pi) - np.pi
    np.testing.assert_allclose(turned, 0.05 * rollout.obs[1:][..., 2], atol=1e-4)


@pytest.mark.parametrize(("preset", "updates"), [("debugging", 1), ("debug", None), ("converting", None)], ids=str)
def test_presets_of_episodes_train(preset: str, updates: int | None, tmp_path: Path) -> None:
    stated = ("env", "engine", "hidden", "eval_every", "eval_episodes")
    wishes = {name: EPISODES[name] for name in stated}
    result = batchwright.train(run_dir=tmp_path / "run", quiet=True, preset=preset, total_episodes=5, **wishes)
    logged = record(result.run_dir)
    assert logged[-1]["episodes_total"] >= 5
    if updates is not None:
        assert {line["updates"] for line in logged} == {updates}


def test_more_environments_than_episodes_leave_the_rest_out(tmp_path: Path) -> None:
    few, many = (start(tmp_path / str(n), **(EPISODES | {"num_envs": n})).run_dir for n in (3, 64))
    assert record(few) == record(many)


def test_a_budget_of_steps_ends_with_the_rollout_that_spends_it(tmp_path: Path) -> None:
    run = start(tmp_path / "run", **(EPISODES | {"total_episodes": None, "total_steps": 250})).run_dir
    steps = [line["env_steps"] for line in record(run)]
    assert steps[-1] >= 250 > steps[-2]
    assert all(line["episodes"] == 3 for line in record(run))


@pytest.mark.parametrize("engine", ["jax", "envpool", "gymnasium-sync"])
def test_stopped_and_resumed_by_episodes_is_the_same_as_never_stopped(engine: str, tmp_path: Path) -> None:
    iterations = 8 if engine == "envpool" else 40
    wishes = EPISODES | {"engine": engine, "total_episodes": 3 * iterations, "checkpoint_every": iterations // 2 + 1}
    whole = start(tmp_path / "whole", **wishes).run_dir
    run = prepare(run_dir=tmp_path / "stopped", quiet=True, **wishes)
    for after in (2, iterations // 2 + 2):
        with TerminatedAfter(run, after):
            assert batchwright.resume(run, quiet=True).interrupted
    assert batchwright.resume(run, quiet=True).iterations == iterations
    assert record(run) == record(whole)
    assert episodes(run) == episodes(whole)
    assert all(line["episodes"] == 3 for line in record(whole))


def test_a_number_that_is_not_finite_is_named_by_its_episode() -> None:
    learner = make_on_policy_learner(made(), "CartPole-v1")
    state = learner.start()
    rollout = learner.collect_rollout(state, state.obs_stats(False)).rollout
    rollout.obs[3, 2, 1] = np.nan
    assert locate_in_rollout(rollout, learner.column) == "observation[1] of episode 2 at step 3 of the rollout is nan"
