"""Replay runs from start to end: they learn, repeat, go on after every kind of stop, and hold their numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchwright
from batchwright.api import prepare
from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.replay import replay_update
from batchwright.replay.replay_learner import ReplayLearner, make_replay_learner
from batchwright.store.episode_table import EpisodeTable
from batchwright.watch.metric_log import read_events
from run_batchwright import plan, refusal
from small_runs import TerminatedAfter, record

SMALL = {
    "env": "Pendulum-v1",
    "engine": "jax",
    "algo": "sac",
    "preset": "none",
    "hidden": "8",
    "num_envs": 2,
    "rollout_steps": 10,
    "updates_per_iteration": 5,
    "transitions_per_update": 16,
    "replay_transitions": 150,
    "warmup_steps": 40,
    "total_steps": 20 * 16,
    "eval_every": 0,
    "eval_episodes": 2,
    "checkpoint_every": 100,
}
SHORT = {"env": "CartPole-v1", "episodic_reward": True, "subsequence_timesteps": 4, "rrd_timesteps_per_update": 12}


def start(folder: Path, **changes: Any) -> Path:
    return batchwright.train(run_dir=folder, quiet=True, **(SMALL | changes)).run_dir


@pytest.mark.parametrize(
    ("env", "algo", "solved"),
    [
        ("IdentityDiscrete-v0", "dqn", 15.0),
        ("IdentityContinuous-v0", "sac", -1.0),
        ("IdentityContinuous-v0", "td3", -1.0),
    ],
)
def test_identity_tasks_are_solved(env: str, algo: str, solved: float) -> None:
    """A policy that does not look gets 4 of 16, or about -16/3 with the best constant."""
    made = plan(
        env=env,
        algo=algo,
        engine="jax",
        hidden=(32,),
        num_envs=4,
        rollout_steps=16,
        updates_per_iteration=32,
        transitions_per_update=64,
        total_steps=3000,
        warmup_steps=200,
        learning_rate=3e-3,
        gamma=0.5,
        **({"updates_per_target": 50} if algo == "dqn" else {}),
    )
    learner = make_replay_learner(made, env)
    evaluate = learner.session.make_evaluator(16)
    for seed in range(1):
        learner.streams = Streams(seed)
        learner.buffer.table = EpisodeTable(learner.buffer.steps)
        state = learner.start()
        for _ in range(made["iterations"]):
            state, _ = learner.iterate(state)
        found = evaluate(state.train.params, state.obs_stats(False), seed)
        assert found.returns.mean() >= solved, f"seed {seed}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start(tmp_path_factory.mktemp("replay") / "run")


def test_the_record_counts_what_was_really_done(finished: Path) -> None:
    logged = record(finished)
    assert [line["env_steps"] for line in logged] == [20 * (i + 1) for i in range(16)]
    # 40 warm-up steps are 2 iterations; the other 14 make 5 updates each, 5 / 20 per step.
    assert [line["updates"] for line in logged] == [0, 0, *[5] * 14]
    assert {line["updates_per_step"] for line in logged[2:]} == {0.25}
    assert logged[-1]["updates_total"] == 70
    assert [line["replay_transitions"] for line in logged[:3]] == [20, 40, 60]
    assert logged[-1]["replay_transitions"] == 150
    metrics = {"critic_loss", "actor_loss", "temperature", "entropy", "q_mean", "q_target_mean", "gradient_norm"}
    assert metrics <= logged[-1].keys()


def test_a_run_repeats_to_the_bit(finished: Path, tmp_path: Path) -> None:
    assert record(start(tmp_path / "again")) == record(finished)


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "gymnasium-sync", "store_next_obs": True},
        SHORT | {"algo": "dqn", "redistribute": "rrd-unbiased"},
        {"algo": "td3"},
    ],
    ids=["gymnasium", "rrd", "td3"],
)
def test_terminated_and_resumed_is_the_same_as_never_stopped(changes: dict[str, Any], tmp_path: Path) -> None:
    """Stopped before and after a scheduled checkpoint, at which engines that cannot be saved start anew."""
    iterations = (SMALL | changes)["total_steps"] // 20
    wishes = changes | {"checkpoint_every": iterations // 2}
    whole = start(tmp_path / "whole", **wishes)
    run = prepare(run_dir=tmp_path / "stopped", quiet=True, **(SMALL | wishes))
    for after in (2, iterations // 2 + 1):
        with TerminatedAfter(run, after):
            batchwright.resume(run, quiet=True)
    batchwright.resume(run, quiet=True)
    assert record(run) == record(whole)
    assert (run / "episodes.jsonl").read_bytes() == (whole / "episodes.jsonl").read_bytes()
    assert "resume" in [event["kind"] for event in read_events(run / "events.jsonl")]


def test_the_loaded_policy_acts_inside_the_bounds(finished: Path) -> None:
    policy = batchwright.load(finished)
    actions = np.array([policy(np.zeros(3, np.float32), deterministic=False) for _ in range(20)])
    assert np.abs(actions).max() <= 2.0
    assert len(np.unique(actions)) > 10
    assert len(policy.evaluate(episodes=2)["returns"]) == 2


def test_a_damaged_part_of_the_buffer_is_found_and_the_checkpoint_passed_over(tmp_path: Path) -> None:
    run = start(tmp_path / "run", checkpoint_every=4)
    kept = sorted(path for path in (run / "checkpoints").iterdir() if path.name[0].isdigit())
    newest, before = (json.loads((path / "manifest.json").read_text())["shared"] for path in (kept[-1], kept[-2]))
    own = next(name for name in newest if name not in before)
    part = run / "checkpoints" / "shared" / own
    part.write_bytes(part.read_bytes()[:-9])
    whole = record(run)
    batchwright.resume(run, quiet=True)
    assert any("is damaged" in event["message"] for event in read_events(run / "events.jsonl"))
    assert record(run) == whole


def test_checkpoints_share_the_buffer_and_leave_nothing_behind(tmp_path: Path) -> None:
    run = start(tmp_path / "run", checkpoint_every=2)
    folder = run / "checkpoints"
    needed = set()
    for path in folder.glob("[0-9]*"):
        needed |= json.loads((path / "manifest.json").read_text())["shared"].keys()
    assert {path.name for path in (folder / "shared").iterdir()} == needed


def test_resuming_with_another_buffer_size_is_refused(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    record_path = run / "plan.json"
    made = json.loads(record_path.read_text())
    made["quantities"]["replay_transitions"]["value"] = 300
    made["quantities"]["iterations"]["value"] += 1  # or it is finished, and then nothing is left to refuse
    record_path.write_text(json.dumps(made))
    (run / "events.jsonl").unlink()
    with pytest.raises(UserError, match="keeps 75 steps of each environment, the plan's 150"):
        batchwright.resume(run, quiet=True)


@pytest.mark.parametrize(("env", "algo"), [("Pendulum-v1", "sac"), ("CartPole-v1", "dqn")])
@pytest.mark.parametrize("store_next_obs", [False, True])
def test_the_buffer_takes_the_bytes_of_the_plan(env: str, algo: str, store_next_obs: bool) -> None:
    made = plan(env=env, algo=algo, engine="jax", replay_transitions=20_000, store_next_obs=store_next_obs)
    learner = make_replay_learner(made, env)
    assert learner.buffer.nbytes == pytest.approx(made["buffer_bytes"], rel=0.02)


def test_numbers_that_are_not_finite_never_enter_the_buffer() -> None:
    learner = make_replay_learner(plan(**(SMALL | {"warmup_steps": 0})), "Pendulum-v1")
    state, _ = learner.iterate(learner.start())
    collect, before = learner.session.collect, state

    def broken(*words: Any) -> Any:
        collect_state, rollout, episodes = collect(*words)
        return collect_state, rollout._replace(obs=rollout.obs.at[3, 1].set(np.nan)), episodes

    learner.session.collect = broken
    state, result = learner.iterate(state)
    assert result.non_finite == "observation[0] of environment 1 at step 3 of the rollout is nan"
    assert state.counters.bad_iterations == 1
    assert learner.buffer.transitions == 20
    assert np.array_equal(state.train.params, before.train.params)
    learner.session.collect = collect
    for _ in range(3):
        state, result = learner.iterate(state)
        assert result.non_finite is None
    assert state.counters.bad_iterations == 0
    assert np.isfinite(np.asarray(learner.buffer.frames.obs)).all()
    assert learner.buffer.transitions == 80


@pytest.mark.parametrize("replay_on", ["device", "host"])
def test_parameters_that_are_not_finite_are_found_and_undone(replay_on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the updates of an iteration are made in several parts, here of one update each."""
    monkeypatch.setattr(replay_update, "HOST_BATCH_BYTES", 1)
    learner = make_replay_learner(plan(**(SMALL | {"warmup_steps": 0}), replay_on=replay_on), "Pendulum-v1")
    before, _ = learner.iterate(learner.start())
    poisoned = replace(before, train=before.train._replace(target=before.train.target * np.nan))
    state, result = learner.iterate(poisoned)
    assert "parameter ['net']" in str(result.non_finite)
    assert "became nan in the update" in str(result.non_finite)
    assert (result.metrics["updates"], result.metrics["updates_total"]) == (5, 5)
    assert np.array_equal(result.params_before, before.train.params)
    undone = learner.undo(state, before)
    assert np.array_equal(undone.train_arrays(), before.train_arrays())
    assert int(undone.counters.iteration) == 2


# Rewards made of returns


def learner_of(**changes: Any) -> ReplayLearner:
    wishes = SMALL | SHORT | {"algo": "dqn", "redistribute": "rrd", "warmup_steps": 0} | changes
    if wishes["redistribute"] not in ("rrd", "rrd-unbiased"):
        wishes |= {"subsequence_timesteps": None, "rrd_timesteps_per_update": None}
    return make_replay_learner(plan(**wishes), str(wishes["env"]))


def test_delayed_rewards_are_zero_until_the_end_and_then_the_sum() -> None:
    learner = learner_of(redistribute=None)
    state = learner.start()
    for _ in range(10):
        state, _ = learner.iterate(state)
    whole = learner.buffer.table.whole()
    found = learner.buffer.draw_whole(np.random.default_rng(0), 5, 200)
    reward = np.asarray(learner.buffer.frames.reward)[found.draw.row] * found.mask
    last = found.episode_length - 1
    # CartPole pays 1 per step: the sum is the length.
    assert reward[np.arange(5), last].tolist() == found.episode_length.tolist()
    assert (reward.sum(1) == reward[np.arange(5), last]).all()
    assert len(whole.first) >= 5


@pytest.mark.parametrize("redistribute", ["rrd", "rrd-unbiased", "full", "ircr"])
def test_what_is_learned_does_not_touch_the_stored_rewards(redistribute: str) -> None:
    learner = learner_of(redistribute=redistribute)
    state, buffer = learner.start(), learner.buffer
    for _ in range(6):
        state, result = learner.iterate(state)
    assert ("reward_model_loss" in result.metrics) == (redistribute != "ircr")
    assert ("reward_model_variance" in result.metrics) == (redistribute != "ircr")
    sample, hyper, stats = learner.sample(6), learner.hyper(0.0), state.obs_stats(False)
    buffer.frames = buffer.frames._replace(reward=buffer.frames.reward * 0 - 7)
    one = learner.update(state.train, state.reward_model, buffer, stats, hyper, sample)
    buffer.frames = buffer.frames._replace(reward=buffer.frames.reward * 0)
    other = learner.update(state.train, state.reward_model, buffer, stats, hyper, sample)
    assert np.array_equal(one.train.params, other.train.params)


def test_policy_targets_use_the_current_reward_network_and_send_no_gradient_into_it() -> None:
    learner = learner_of()
    state = learner.start()
    for _ in range(4):
        state, _ = learner.iterate(state)
    sample, stats = learner.sample(4), state.obs_stats(False)
    frozen = learner.hyper(0.0)._replace(reward_learning_rate=np.float32(0.0))
    one = learner.update(state.train, state.reward_model, learner.buffer, stats, frozen, sample)
    # With a reward learning rate of 0 nothing else may move the reward network.
    assert np.array_equal(one.reward_model.params, state.reward_model.params)
    raised = state.reward_model._replace(params=state.reward_model.params.at[0].add(3.0))
    other = learner.update(state.train, raised, learner.buffer, stats, frozen, sample)
    assert not np.array_equal(other.train.params, one.train.params)
    assert one.metrics["q_target_mean"] != other.metrics["q_target_mean"]


# Bad input


@pytest.mark.parametrize(
    ("line", "said", "fix"),
    [
        ("train CartPole-v1 --algo sac", "sac is for continuous", "--algo dqn"),
        ("train Pendulum-v1 --algo dqn", "dqn is for discrete", "--algo sac"),
        ("train Pendulum-v1 --algo sac --replay-transitions 100000000000", "does not fit", "--replay-transitions"),
        ("train Pendulum-v1 --algo sac --replay-transitions 5", "cannot take the", "--replay-transitions 32"),
        (
            "train Pendulum-v1 --algo sac --redistribute rrd --rrd-timesteps-per-update 8 --subsequence-timesteps 32",
            "8 timesteps per update cannot hold one subsequence of 32",
            "--subsequence-timesteps 8",
        ),
        (
            "train Pendulum-v1 --algo sac --redistribute rrd-unbiased --subsequence-timesteps 1",
            "one timestep has no variance",
            "--subsequence-timesteps 2",
        ),
        ("train Pendulum-v1 --algo sac --epsilon-end 0.1", "is a setting of dqn", "--algo dqn"),
        ("train CartPole-v1 --algo dqn --temperature-start 0.1", "is a setting of sac", "--algo sac"),
        ("train Pendulum-v1 --algo sac --learning-rate-schedule kl-adaptive", "follows the KL", "linear"),
        ("train Pendulum-v1 --algo sac --redistribute ircr --subsequence-timesteps 8", "ircr has none", "rrd"),
    ],
)
def test_bad_input_is_refused_before_a_run_directory_is_made(line: str, said: str, fix: str, tmp_path: Path) -> None:
    answer = refusal(f"{line} --preset none --engine jax --run-dir {tmp_path / 'run'}")
    assert said in answer.err
    assert fix in answer.err
    assert not (tmp_path / "run").exists()


def test_an_algorithm_that_is_not_in_the_table_is_refused() -> None:
    made = replace(plan(**SMALL), algo="sacc")
    with pytest.raises(UserError, match="unknown replay algorithm 'sacc'"):
        make_replay_learner(made, "Pendulum-v1")


def test_observation_statistics_are_those_of_all_valid_rows() -> None:
    learner = make_replay_learner(plan(**SMALL, normalize_obs=True), "Pendulum-v1")
    state, rows = learner.start(), []
    for _ in range(3):
        state, result = learner.iterate(state)
        rollout = result.collected.rollout
        rows.append(np.asarray(rollout.obs, np.float64)[:-1][np.asarray(rollout.valid)])
    seen = np.concatenate(rows)
    assert float(state.obs.count) == len(seen)
    assert state.obs.mean == pytest.approx(seen.mean(0), rel=1e-5, abs=1e-6)
    assert state.obs.std == pytest.approx(seen.std(0), rel=1e-5)


@pytest.mark.parametrize(("normalize_obs", "seen"), [(False, [25.0, -300.0, 0.5]), (True, [10.0, -10.0, 0.5])])
def test_only_normalised_observations_are_clipped(normalize_obs: bool, seen: list[float]) -> None:
    """Joint speeds of HalfCheetah pass 10: a network that does not normalise has to see them."""
    learner = make_replay_learner(plan(**SMALL, normalize_obs=normalize_obs), "Pendulum-v1")
    stats = learner.start().obs_stats(learner.normalize_obs)
    assert np.asarray(learner.policy.preprocess(np.float32([[25.0, -300.0, 0.5]]), stats)).tolist() == [seen]


def test_a_rollout_of_a_few_steps_shows_what_actions_do_together_with_those_before_it(tmp_path: Path) -> None:
    """32 steps of one environment are too few for a regression on the last four actions; 512 transitions do."""
    few = {"env": "CartPole-v1", "algo": "dqn", "engine": "jax", "preset": "none", "hidden": "8", "eval_episodes": 1}
    sizes = {"num_envs": 1, "rollout_steps": 32, "updates_per_iteration": 1, "warmup_steps": 1_000}
    run = batchwright.train(run_dir=tmp_path / "run", quiet=True, total_steps=1_024, **few, **sizes).run_dir
    records = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    looked_at = [one["iteration"] for one in records if "action_effect_0" in one]
    assert looked_at == [15, 16, 24]  # 16 rollouts of 32 make 512, and one in eight is looked at after those
    assert all(one["action_effect_0"] > 5 * one["action_effect_1"] for one in records if "action_effect_0" in one)
