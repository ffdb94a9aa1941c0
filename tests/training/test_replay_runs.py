"""Replay runs from start to end: they learn, repeat, go on after every kind of stop, and hold their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import TerminatedAfter, record

import batchwright
from batchwright.api import prepare
from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.store.episode_table import EpisodeTable
from batchwright.training.replay import find_bad_numbers, iterate
from batchwright.training.replay_build import build_replay_session
from batchwright.watch.metric_log import read_events
from run_batchwright import plan, refusal

SMALL = {
    "env": "Pendulum-v1",
    "engine": "jax",
    "algo": "sac",
    "preset": "none",
    "hidden": "8,8",
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
    ("env", "algo", "solved"), [("IdentityDiscrete-v0", "dqn", 15.0), ("IdentityContinuous-v0", "sac", -1.0)]
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
    session = build_replay_session(made, env)
    evaluate = session.evaluator(16)
    for seed in range(1):
        session.streams = Streams(seed)
        session.buffer.table = EpisodeTable(session.buffer.steps)
        state = session.fresh_state()
        for _ in range(made["iterations"]):
            state, _ = iterate(session, state)
        found = evaluate(state.learner.flat, state.obs_stats(False), seed)
        assert found["returns"].mean() >= solved, f"seed {seed}"


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
    told = {"critic_loss", "actor_loss", "temperature", "entropy", "q_mean", "q_target_mean", "gradient_norm"}
    assert told <= logged[-1].keys()


def test_a_run_repeats_to_the_bit_wherever_its_buffer_lies(finished: Path, tmp_path: Path) -> None:
    assert record(start(tmp_path / "again")) == record(finished)
    host = record(start(tmp_path / "host", replay_on="host", store_next_obs=True))
    assert [line["parameters_digest"] for line in host] == [line["parameters_digest"] for line in record(finished)]


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "gymnasium-sync", "store_next_obs": True},
        SHORT | {"algo": "dqn", "redistribute": "rrd-unbiased"},
    ],
    ids=["gymnasium", "rrd"],
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
    record_path.write_text(json.dumps(made))
    (run / "events.jsonl").unlink()  # it says that the run is finished, and then nothing is left to refuse
    with pytest.raises(UserError, match="keeps 75 steps of each environment, the plan's 150"):
        batchwright.resume(run, quiet=True)


@pytest.mark.parametrize(("env", "algo"), [("Pendulum-v1", "sac"), ("CartPole-v1", "dqn")])
@pytest.mark.parametrize("store_next_obs", [False, True])
def test_the_buffer_takes_the_bytes_of_the_plan(env: str, algo: str, store_next_obs: bool) -> None:
    made = plan(env=env, algo=algo, engine="jax", replay_transitions=20_000, store_next_obs=store_next_obs)
    session = build_replay_session(made, env)
    assert session.buffer.nbytes == pytest.approx(made["buffer_bytes"], rel=0.02)


def test_numbers_that_are_not_finite_never_enter_the_buffer() -> None:
    session = build_replay_session(plan(**(SMALL | {"warmup_steps": 0})), "Pendulum-v1")
    state = session.fresh_state()
    state, _ = iterate(session, state)
    collect, before = session.collect, state

    def broken(*words: Any) -> Any:
        position, rollout, episodes = collect(*words)
        return position, rollout._replace(obs=rollout.obs.at[3, 1].set(np.nan)), episodes

    session.collect = broken
    state, told = iterate(session, state)
    assert find_bad_numbers(session, state, told) == "observation[0] of environment 1 at step 3 of the rollout is nan"
    assert session.buffer.transitions == 20
    assert np.array_equal(state.learner.flat, before.learner.flat)
    session.collect = collect
    for _ in range(3):
        state, told = iterate(session, state)
        assert find_bad_numbers(session, state, told) is None
    assert np.isfinite(np.asarray(session.buffer.frames.obs)).all()
    assert session.buffer.transitions == 80


# Rewards made of returns


def session_of(**changes: Any) -> Any:
    wishes = SMALL | SHORT | {"algo": "dqn", "redistribute": "rrd", "warmup_steps": 0} | changes
    if wishes["redistribute"] not in ("rrd", "rrd-unbiased"):
        wishes |= {"subsequence_timesteps": None, "rrd_timesteps_per_update": None}
    return build_replay_session(plan(**wishes), str(wishes["env"]))


def test_delayed_rewards_are_zero_until_the_end_and_then_the_sum() -> None:
    session = session_of(redistribute=None)
    state = session.fresh_state()
    for _ in range(10):
        state, _ = iterate(session, state)
    whole = session.buffer.table.whole()
    found = session.buffer.draw_whole(np.random.default_rng(0), 5, 200)
    reward = np.asarray(session.buffer.frames.reward)[found.draw.row] * found.mask
    last = found.episode_length - 1
    # CartPole pays 1 per step: the sum is the length.
    assert reward[np.arange(5), last].tolist() == found.episode_length.tolist()
    assert (reward.sum(1) == reward[np.arange(5), last]).all()
    assert len(whole.first) >= 5


@pytest.mark.parametrize("redistribute", ["rrd", "rrd-unbiased", "full", "ircr"])
def test_what_is_learned_does_not_touch_the_stored_rewards(redistribute: str) -> None:
    session = session_of(redistribute=redistribute)
    state = session.fresh_state()
    for _ in range(6):
        state, told = iterate(session, state)
    assert ("reward_model_loss" in told.metrics) == (redistribute != "ircr")
    assert ("reward_model_variance" in told.metrics) == (redistribute != "ircr")
    with_stored = state.learner
    session.buffer.frames = session.buffer.frames._replace(reward=session.buffer.frames.reward * 0 - 7)
    drawn, hyper = session.draw(6), session.hyper(0.0)
    one, _ = session.learn(with_stored, state.obs_stats(False), hyper, drawn)
    session.buffer.frames = session.buffer.frames._replace(reward=session.buffer.frames.reward * 0)
    other, _ = session.learn(with_stored, state.obs_stats(False), hyper, drawn)
    assert np.array_equal(one.flat, other.flat)


def test_policy_targets_use_the_current_reward_network_and_send_no_gradient_into_it() -> None:
    session = session_of()
    state = session.fresh_state()
    for _ in range(4):
        state, _ = iterate(session, state)
    drawn, stats = session.draw(4), state.obs_stats(False)
    frozen = session.hyper(0.0)._replace(reward_learning_rate=np.float32(0.0))
    after, told = session.learn(state.learner, stats, frozen, drawn)
    # With a reward learning rate of 0 nothing else may move the reward network.
    assert np.array_equal(after.reward.flat, state.learner.reward.flat)
    raised = state.learner._replace(reward=state.learner.reward._replace(flat=state.learner.reward.flat.at[0].add(3.0)))
    other, also = session.learn(raised, stats, frozen, drawn)
    assert not np.array_equal(other.flat, after.flat)
    assert told["q_target_mean"] != also["q_target_mean"]


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
            "one timestep has none",
            "--subsequence-timesteps 2",
        ),
        ("train Pendulum-v1 --algo sac --epsilon-end 0.1", "is a number of dqn", "--algo dqn"),
        ("train CartPole-v1 --algo dqn --temperature-start 0.1", "is a number of sac", "--algo sac"),
        ("train Pendulum-v1 --algo sac --learning-rate-schedule kl-adaptive", "follows the KL", "linear"),
        ("train Pendulum-v1 --algo sac --redistribute ircr --subsequence-timesteps 8", "ircr has none", "rrd"),
    ],
)
def test_bad_input_is_refused_before_a_run_directory_is_made(line: str, said: str, fix: str, tmp_path: Path) -> None:
    answer = refusal(f"{line} --preset none --engine jax --run-dir {tmp_path / 'run'}")
    assert said in answer.err
    assert fix in answer.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("normalize_obs", "seen"), [(False, [25.0, -300.0, 0.5]), (True, [10.0, -10.0, 0.5])])
def test_only_normalised_observations_are_clipped(normalize_obs: bool, seen: list[float]) -> None:
    """Joint speeds of HalfCheetah pass 10: a network that does not normalise has to see them."""
    session = build_replay_session(plan(**SMALL, normalize_obs=normalize_obs), "Pendulum-v1")
    stats = session.fresh_state().obs_stats(session.plan["normalize_obs"])
    assert np.asarray(session.policy.see(np.float32([[25.0, -300.0, 0.5]]), stats)).tolist() == [seen]
