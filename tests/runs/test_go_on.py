"""Going on after the end: longer runs, runs from another run's parameters, the best checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchwright
from batchwright.api import extend, prepare
from batchwright.core.errors import UserError
from batchwright.runs.checkpoints import load_named
from batchwright.watch.metric_log import read_events
from run_batchwright import refusal, run
from small_runs import SMALL, record, start

CONSTANT = {"learning_rate_schedule": "constant", "preset": "none"}
NO_ANNEAL = {"entropy_start": 0.01, "entropy_end": 0.01, "clip_schedule": "constant"}
REPLAY = {"rollout_steps": 8, "updates_per_iteration": 1, "transitions_per_update": 8, "warmup_steps": 32}
REPLAY |= {"minibatches": None, "epochs": None, "replay_transitions": 512, "total_steps": 32 * 6}
CASES: dict[str, dict[str, Any]] = {
    "ppo": {**NO_ANNEAL},
    "ppo in envpool": {**NO_ANNEAL, "engine": "envpool"},
    "ppo, restarted at the end": {**NO_ANNEAL, "engine": "gymnasium-sync", "checkpoint_every": 3},
    "a2c": {"algo": "a2c", **NO_ANNEAL, "clip_schedule": None, "epochs": 1},
    "reinforce": {"algo": "reinforce", **NO_ANNEAL, "clip_schedule": None, "epochs": 1, "minibatches": None},
    "hybrid actions": {"env": "Moving-v0", **NO_ANNEAL},
    "masks": {"env": "Colony-v0", **NO_ANNEAL},
    "images": {"env": "IdentityImage-v0", **NO_ANNEAL, "hidden": None},
    "sac": {"env": "Pendulum-v1", "algo": "sac", **REPLAY},
    "dqn": {"algo": "dqn", **REPLAY, "epsilon_end": 1.0},
    "td3": {"env": "Pendulum-v1", "algo": "td3", **REPLAY},
}


Halves = Callable[[str], Path]


def wishes(case: str) -> dict[str, Any]:
    return {**CONSTANT, "total_steps": 64 * 6, **CASES[case]}


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Halves:
    """Runs of half the length, each trained once."""
    folder = tmp_path_factory.mktemp("halves")

    def half(case: str) -> Path:
        path = folder / case.replace(" ", "-")
        if not path.exists():
            start(path, **wishes(case) | {"total_steps": wishes(case)["total_steps"] // 2})
        return path

    return half


@pytest.mark.parametrize("case", CASES)
def test_an_extended_run_equals_one_that_was_planned_longer(case: str, halves: Halves, tmp_path: Path) -> None:
    longer = wishes(case)
    steps = longer["total_steps"]
    whole = start(tmp_path / "whole", **longer).run_dir
    extended = Path(shutil.copytree(halves(case), tmp_path / "extended"))
    assert record(extended)[-1]["env_steps"] == steps // 2
    again = batchwright.resume(extended, quiet=True, total_steps=steps)
    assert again.env_steps == steps
    assert not again.interrupted
    assert record(extended, leave_out=("eval",)) == record(whole, leave_out=("eval",))


def test_what_a_longer_run_changes_is_said_before_it_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedules = {"learning_rate_schedule": "linear", "clip_schedule": "linear", "learning_rate": 1e-3, "preset": "none"}
    path = start(tmp_path / "run", total_steps=64 * 2, clip_range=0.2, entropy_start=0.01, **schedules).run_dir
    capsys.readouterr()
    extend(path, total_steps=64 * 8)
    said = capsys.readouterr().out
    # A quarter of the longer run is done: a linear schedule stands at 3/4 there, and stood at 0.
    assert "total_steps 128 -> 512, 2 -> 8 iterations" in said
    assert "learning_rate (linear) is 0 after iteration 2 and goes on from 0.00075" in said
    assert "clip_range (linear) is 0 after iteration 2 and goes on from 0.15" in said
    assert "the entropy coefficient falls over the last" in said
    assert "eval_every" not in said  # it was stated
    assert read_events(path / "events.jsonl")[-1]["kind"] == "extended"
    assert batchwright.resume(path, quiet=True).env_steps == 64 * 8


def test_a_number_that_would_be_planned_otherwise_is_said_to_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = start(tmp_path / "run", **wishes("sac") | {"replay_transitions": None}).run_dir
    capsys.readouterr()
    extend(path, total_steps=1920)
    said = capsys.readouterr().out
    assert "replay_transitions stays 192; planned this long from the start it would be 1920" in said


def test_lengths_that_cannot_be_are_refused(finished: Path, tmp_path: Path) -> None:
    assert "has 768 steps behind it already" in refusal(f"resume {finished} --total-steps 100").err
    assert "counts its length by --total-steps (768)" in refusal(f"resume {finished} --total-episodes 5").err
    assert "--gamma cannot change" in refusal(f"resume {finished} --gamma 0.9").err
    solved = start(tmp_path / "solved", stop_return=1.0, total_steps=64 * 100).run_dir
    assert "it would stop again" in refusal(f"resume {solved} --total-steps 90000").err


def test_the_best_checkpoint_is_that_of_the_best_evaluation(tmp_path: Path) -> None:
    path = start(tmp_path / "run", eval_every=1, checkpoint_every=2, learning_rate=0.01).run_dir
    means = [line["eval_mean"] for line in record(path)]
    first_best = int(np.argmax(means)) + 1
    found = load_named(path / "best", pytest.fail)
    assert found is not None
    assert (found[1]["iteration"], found[1]["mean_return"]) == (first_best, max(means))
    best, last = (batchwright.load(path, checkpoint=name) for name in ("best", "last"))
    assert (best.iteration, last.iteration) == (first_best, 12)
    played = run("eval", str(path), "--checkpoint", "best", "--episodes", "1")
    assert played.out.startswith(f"CartPole-v1 after iteration {first_best}:")
    assert batchwright.load(path, checkpoint=10).iteration == 10
    kept = refusal(f"eval {path} --checkpoint 3").err
    assert "kept are those after" in kept
    assert "10, 12" in kept
    assert "is best, last or the number" in refusal(f"eval {path} --checkpoint newest").err


@pytest.mark.parametrize("case", ["ppo", "a2c", "reinforce", "hybrid actions", "masks", "images", "sac", "dqn", "td3"])
def test_a_run_starts_from_the_parameters_of_another(case: str, halves: Halves, tmp_path: Path) -> None:
    settings, source = wishes(case), halves(case)
    # A learning rate so small that updates cannot be seen leaves the parameters as they were taken.
    own = {name: value for name, value in settings.items() if name not in ("algo", "hidden")}
    own |= {"total_steps": settings["total_steps"] // 3, "init_from": str(source), "learning_rate": 1e-12}
    made = start(tmp_path / "tuned", hidden=None, **own)
    before, after = (load_named(path / "checkpoints", pytest.fail) for path in (source, made.run_dir))
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(after[0][".train.params"], before[0][".train.params"], atol=1e-6)
    if before[0][".obs.count"] > 0:
        assert after[0][".obs.count"] > before[0][".obs.count"]
    said = [event["message"] for event in read_events(made.run_dir / "events.jsonl") if event["kind"] == "init"]
    assert f"starts from {source} after iteration" in said[0]


def test_what_does_not_fit_is_refused_with_the_shapes(finished: Path, tmp_path: Path) -> None:
    small = "--engine jax --num-envs 4 --rollout-steps 16 --quiet"
    wrong = refusal(f"train Acrobot-v1 --init-from {finished} --run-dir {tmp_path / 'a'} {small}").err
    assert "for 4 inputs" in wrong
    assert "for 6" in wrong
    assert not (tmp_path / "a").exists()
    assert "kept are those after 12" in refusal(f"train CartPole-v1 --init-from {finished}@7").err
    narrow = f"--hidden 9 {small} --run-dir {tmp_path / 'b'}"
    assert "--algo ppo --hidden 8" in refusal(f"train CartPole-v1 --init-from {finished} {narrow}").err


def test_a_run_with_init_from_does_not_take_changed_parameters(tmp_path: Path) -> None:
    source = start(tmp_path / "source", total_steps=64 * 2).run_dir
    settings = {**SMALL, "init_from": f"{source}@best", "total_steps": 64}
    prepared = prepare(run_dir=tmp_path / "run", quiet=True, **settings)
    plan = json.loads((prepared / "plan.json").read_text())
    assert plan["quantities"]["init_from"]["value"] == f"{source}@2"
    plan["quantities"]["init_digest"]["value"] = "0123"
    (prepared / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(UserError, match="holds other parameters"):
        batchwright.resume(prepared, quiet=True)
