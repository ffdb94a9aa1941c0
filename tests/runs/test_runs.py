"""Runs from start to end: they learn, repeat, go on after every kind of stop; evaluation leaves no trace."""

from __future__ import annotations

import json
import resource
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchwright
from batchwright.api import diagnose, prepare
from batchwright.core.errors import UserError
from batchwright.core.files import DiskFull
from batchwright.core.streams import Streams
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.watch.metric_log import read_events
from run_batchwright import plan
from small_runs import FAULTY, SMALL, TerminatedAfter, episodes, lines, record, start

ENGINES = ("jax", "envpool-host", "gymnasium-sync", "gymnasium-split")
"""Runs of the others are killed and resumed in test_kills.py."""


@pytest.mark.parametrize("algo", ["ppo", "a2c", "reinforce"])
@pytest.mark.parametrize(("env", "solved"), [("IdentityDiscrete-v0", 15.0), ("IdentityContinuous-v0", -1.0)])
def test_identity_tasks_are_solved(env: str, solved: float, algo: str) -> None:
    """A policy that does not look gets 4 of 16, or about -16/3 with the best constant."""
    ppo = algo == "ppo"
    made = plan(
        env=env,
        algo=algo,
        engine="jax",
        num_envs=16,
        hidden=(16,),
        rollout_steps=32 if ppo else 8,
        minibatches=4 if ppo else 1,
        epochs=4 if ppo else 1,
        total_steps=16_384,
        learning_rate=0.01,
        gamma=0.5,
    )
    learner = make_on_policy_learner(made, env)
    evaluate = learner.session.make_evaluator(16)
    for seed in range(3):
        learner.streams = Streams(seed)
        state = learner.start()
        for _ in range(made["iterations"]):
            state, _ = learner.iterate(state)
        found = evaluate(state.train.params, state.obs_stats(made["normalize_obs"]), seed)
        assert found.returns.mean() >= solved, f"seed {seed}"


def test_images_are_learned_from() -> None:
    """A policy that does not look chooses the bright quarter in 4 of 16 steps."""
    env = "IdentityImage-v0"
    wishes = {"num_envs": 16, "rollout_steps": 16, "minibatches": 4, "epochs": 4, "total_steps": 16 * 256}
    made = plan(env=env, engine="jax", learning_rate=1e-3, gamma=0.5, **wishes)
    learner = make_on_policy_learner(made, env)
    state = learner.start()
    for _ in range(made["iterations"]):
        state, result = learner.iterate(state)
    assert result.metrics["first_ratio_error"] < 1e-5
    found = learner.session.make_evaluator(16)(state.train.params, state.obs_stats(made["normalize_obs"]), 0)
    assert found.returns.mean() >= 15.0


def test_a_run_repeats_to_the_bit_and_another_seed_does_not(finished: Path, tmp_path: Path) -> None:
    again, other = (start(tmp_path / str(seed), seed=seed).run_dir for seed in (0, 1))
    assert record(again) == record(finished)
    assert {line["parameters_digest"] for line in record(other)}.isdisjoint(
        line["parameters_digest"] for line in record(finished)
    )


def test_the_record_counts_what_was_really_done(finished: Path) -> None:
    logged = record(finished)
    assert [line["iteration"] for line in logged] == list(range(12))
    assert [line["env_steps"] for line in logged] == [64 * (i + 1) for i in range(12)]
    assert all(line["updates"] == 4 for line in logged)
    assert all(line["first_ratio_error"] < 1e-6 for line in logged)
    # Every step is a transition, or the reset after an end; the ends of the last row are reset later.
    missing = logged[-1]["env_steps"] - logged[-1]["transitions"]
    assert logged[-1]["episodes_total"] - 4 <= missing <= logged[-1]["episodes_total"]
    assert logged[-1]["episodes_total"] == sum(line["episodes"] for line in logged)


@pytest.mark.parametrize("engine", ["jax", "gymnasium-sync"])
def test_evaluation_leaves_no_trace_in_training(engine: str, tmp_path: Path) -> None:
    often, never = (start(tmp_path / str(every), engine=engine, eval_every=every).run_dir for every in (1, 0))
    assert record(often, leave_out=("eval",)) == record(never, leave_out=("eval",))
    assert all("eval_mean" in line for line in record(often))


def test_results_do_not_depend_on_envpools_threads(tmp_path: Path) -> None:
    one, two = (
        start(tmp_path / str(threads), engine="envpool", num_threads=threads, total_steps=64 * 4).run_dir
        for threads in (1, 2)
    )
    assert record(one) == record(two)


@pytest.mark.parametrize("engine", ENGINES)
def test_terminated_and_resumed_is_the_same_as_never_stopped(engine: str, tmp_path: Path) -> None:
    """Stopped twice, before and after a scheduled checkpoint at which engines that cannot be saved start anew."""
    iterations = 60
    wishes = {"engine": engine, "total_steps": 64 * iterations, "checkpoint_every": iterations // 2 + 1}
    whole = start(tmp_path / "whole", **wishes).run_dir
    run = prepare(run_dir=tmp_path / "stopped", quiet=True, **(SMALL | wishes))
    for after in (2, iterations // 2 + 2):
        with TerminatedAfter(run, after):
            result = batchwright.resume(run, quiet=True)
        assert result.interrupted
        assert result.evaluation == {}
    assert batchwright.resume(run, quiet=True).iterations == iterations
    assert record(run) == record(whole)
    assert episodes(run) == episodes(whole)
    assert [e["kind"] for e in read_events(run / "events.jsonl")].count("resume") == 2


def test_a_stop_is_heard_where_every_iteration_has_a_checkpoint(tmp_path: Path) -> None:
    run = prepare(run_dir=tmp_path / "run", quiet=True, **(SMALL | {"checkpoint_every": 1, "total_steps": 64 * 300}))
    with TerminatedAfter(run, 2):
        assert batchwright.resume(run, quiet=True).interrupted
    assert lines(run) < 300


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run with checkpoints after iterations 2, 4, 6 and more to do."""
    run = prepare(run_dir=tmp_path / "run", quiet=True, **(SMALL | {"checkpoint_every": 2, "total_steps": 64 * 200}))
    with TerminatedAfter(run, 7):
        batchwright.resume(run, quiet=True)
    return run


def test_a_damaged_newest_checkpoint_is_passed_over_and_said(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = record(stopped)
    kept = sorted(path.name for path in (stopped / "checkpoints").iterdir())
    assert len(kept) == 3
    damage = stopped / "checkpoints" / kept[-1] / "state.npz"
    damage.write_bytes(damage.read_bytes()[:-50])
    with TerminatedAfter(stopped, len(before) + 5):
        batchwright.resume(stopped, quiet=True)
    said = capsys.readouterr().out
    assert f"checkpoint {kept[-1]} is damaged" in said
    assert f"using {kept[-2]}" in said
    assert any(kept[-1] in event["message"] for event in read_events(stopped / "events.jsonl"))
    assert record(stopped)[: len(before)] == before


def test_a_full_disk_is_said_and_older_checkpoints_stay(tmp_path: Path) -> None:
    """The limit on the size of a file stands for the disk: small lines fit, the arrays of a checkpoint do not."""
    run = prepare(run_dir=tmp_path / "run", quiet=True, **(SMALL | {"checkpoint_every": 2, "total_steps": 64 * 400}))
    with TerminatedAfter(run, 5):
        batchwright.resume(run, quiet=True)
    kept = sorted((run / "checkpoints").iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((run / "metrics.jsonl").stat().st_size + 4000, hard))
    try:
        with pytest.raises(DiskFull, match="What was written before is intact"):
            batchwright.resume(run, quiet=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert kept[-1] in (run / "checkpoints").iterdir()
    assert not list((run / "checkpoints").glob(".*"))
    assert batchwright.load(run).iteration >= int(kept[-1].name)


def test_checkpoints_are_plain_arrays_without_pickles(finished: Path) -> None:
    newest = sorted((finished / "checkpoints").iterdir())[-1]
    manifest = json.loads((newest / "manifest.json").read_text())
    assert manifest["iteration"] == 12
    assert set(manifest["sha256"]) == {path.name for path in newest.iterdir()} - {"manifest.json"}
    with zipfile.ZipFile(newest / "state.npz") as packed:
        assert all(name.endswith(".npy") for name in packed.namelist())
    with np.load(newest / "state.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.kind in "fiub" for name in arrays.files)


def test_resuming_a_finished_run_shows_its_evaluation_and_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = start(tmp_path / "run", stop_return=1e6)
    before = {path: path.read_bytes() for path in trained.run_dir.glob("*.jsonl")}
    capsys.readouterr()
    result = batchwright.resume(trained.run_dir)
    assert (result.iterations, result.env_steps, result.interrupted, result.solved) == (12, 64 * 12, False, False)
    assert result.evaluation == trained.evaluation
    said = capsys.readouterr().out
    assert "nothing is left to do" in said
    assert f"mean return {trained.evaluation['mean']:,.2f}" in said
    assert {path: path.read_bytes() for path in trained.run_dir.glob("*.jsonl")} == before


def test_a_run_that_reached_its_target_return_says_so_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = SMALL | {"total_steps": 64 * 400, "stop_return": 5}  # CartPole pays about 20 at random
    result = batchwright.train(run_dir=tmp_path / "run", quiet=True, **wishes)
    assert (result.stopped, result.solved, result.interrupted) == ("return reached", True, False)
    assert 0 < result.iterations < 400
    text = f"stopped: return reached after iteration {result.iterations} of 400"
    assert text in capsys.readouterr().out
    last = read_events(tmp_path / "run" / "events.jsonl")[-1]
    assert last["kind"] == "finished" and last["reason"] == "return reached" and last["message"].startswith(text)
    assert diagnose(tmp_path / "run").status == "stopped: return reached"
    assert '"status":"stopped"' in (tmp_path / "run" / "report.html").read_text()
    again = batchwright.resume(tmp_path / "run")
    assert (again.stopped, again.iterations) == ("return reached", result.iterations)
    assert "stopped: return reached after" in capsys.readouterr().out


def test_a_run_that_ends_with_its_plan_is_finished_whatever_its_target(finished: Path) -> None:
    assert diagnose(finished).status == "finished"
    assert "reason" not in read_events(finished / "events.jsonl")[-1]


@pytest.mark.parametrize("kept", [False, True])
def test_nothing_stays_of_a_run_that_is_refused_before_it_begins(tmp_path: Path, kept: bool) -> None:
    wishes = SMALL | {"env": f"{FAULTY}:RaisesInReset", "engine": "gymnasium-sync"}
    if kept:  # a run that was there before is the user's
        prepare(run_dir=tmp_path / "run", quiet=True, **wishes)
        with pytest.raises(UserError, match="no display found"):
            batchwright.resume(tmp_path / "run", quiet=True)
        assert (tmp_path / "run" / "plan.json").is_file()
    else:
        with pytest.raises(UserError, match="no display found"):
            batchwright.train(run_dir=tmp_path / "run", quiet=True, **wishes)
        assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_other_settings_is_refused(finished: Path, tmp_path: Path) -> None:
    wider = prepare(run_dir=tmp_path / "wider", quiet=True, **(SMALL | {"hidden": "9"}))
    shutil.copytree(finished / "checkpoints", wider / "checkpoints")
    with pytest.raises(UserError, match="the run needs"):
        batchwright.resume(wider, quiet=True)


def play(policy: Any, seed: int) -> float:
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        action = policy(obs)
        assert env.action_space.contains(action)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + float(reward), terminated or truncated
    return total


def test_a_loaded_policy_plays_by_hand_as_it_is_evaluated(tmp_path: Path) -> None:
    from batchwright.envs.engines.engine import env_seeds

    run = start(tmp_path / "run", engine="gymnasium-sync", normalize_obs=True, total_steps=64 * 6).run_dir
    policy = batchwright.load(run)
    found = policy.evaluate(episodes=3, seed=5)
    assert found["returns"] == [play(policy, seed) for seed in env_seeds(5, 3)]
    assert policy.iteration == 6
    sampled = {int(policy(np.zeros(4, np.float32), deterministic=False)) for _ in range(50)}
    assert sampled == {0, 1}


def linear(inputs: Any, raw_size: int, num_values: int) -> Any:
    import jax

    def init(key: Any) -> Any:
        return {"w": 0.1 * jax.random.normal(key, (inputs.vector_size, raw_size + num_values))}

    def apply(params: Any, x: Any) -> Any:
        out = x @ params["w"]
        return out[..., :raw_size], out[..., raw_size:]

    return batchwright.Network(init, apply)


def test_a_network_of_ones_own_is_trained_loaded_and_resumed(tmp_path: Path) -> None:
    wishes = {name: value for name, value in SMALL.items() if name != "hidden"}
    run = batchwright.train(run_dir=tmp_path / "run", quiet=True, network=linear, **wishes).run_dir
    digests = [line["parameters_digest"] for line in record(run)]
    assert len(set(digests)) == 12
    policy = batchwright.load(run, network=linear)
    assert policy.params.shape == (4 * 3 + 2,)
    assert int(policy(np.zeros(4, np.float32))) in (0, 1)
    with pytest.raises(UserError, match="network of your own"):
        batchwright.load(run)
    unfinished = prepare(run_dir=tmp_path / "unfinished", quiet=True, network=linear, **wishes)
    with pytest.raises(UserError, match="network of your own"):
        batchwright.resume(unfinished)


def test_training_tells_what_the_plan_warns_of_and_why_the_last_evaluation_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """64 transitions in minibatches of about 30 are 2 x 32; the training return never comes near the threshold."""
    wishes = SMALL | {"minibatches": None, "minibatch_transitions": 30, "total_steps": 128, "eval_every": 1}
    result = batchwright.train(run_dir=tmp_path / "run", **(wishes | {"eval_threshold": 400}))
    shown = capsys.readouterr().out
    assert "warning: minibatch: 30 requested, 32 used, so that nothing is left over (64 = 2 x 32)." in shown
    events = read_events(tmp_path / "run" / "events.jsonl")
    assert "30 requested, 32 used" in events[0]["message"]
    assert "below --eval-threshold 400; the last evaluation is made all the same" in shown
    assert len(result.evaluation["returns"]) == 2
    assert [event["kind"] for event in events].count("evaluation") == 1
