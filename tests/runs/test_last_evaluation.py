"""Whatever an evaluation meets, the training before it is saved, and a resumed run ends with the same files."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.runs.engine_learner import EngineLearner
from batchwright.runs.launch import EvaluationFailed
from batchwright.runs.loop import DivergedError
from batchwright.watch.metric_log import read_events, read_metrics
from small_runs import SMALL, record, start

NASTY = str(Path(__file__).parents[1] / "envs" / "nasty_envs.py")


def train(folder: Path, factory: str, **changes: Any) -> Any:
    wishes = {"engine": "gymnasium-sync", "num_envs": 4, "total_steps": 64 * 3, **changes}
    return start(folder, env=f"{NASTY}:{factory}", **wishes)


def checkpoint(run: Path) -> bytes:
    return (sorted((run / "checkpoints").iterdir())[-1] / "state.npz").read_bytes()


def said(run: Path, kind: str) -> list[str]:
    return [event["message"] for event in read_events(run / "events.jsonl") if event["kind"] == kind]


def test_episodes_that_never_end_are_cut_marked_and_said(tmp_path: Path) -> None:
    result = train(tmp_path / "run", "NeverEnds", eval_max_steps=70, eval_episodes=3, eval_every=2)
    assert result.evaluation["returns"] == [70.0] * 3
    assert result.evaluation["cut_episodes"] == [0, 1, 2]
    (message,) = said(tmp_path / "run", "remark")
    assert "3 of 3 evaluated episodes" in message and "after 70 steps" in message
    assert read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["eval_length_mean"] == 70


def test_an_environment_that_was_cut_plays_the_rest_of_its_share(tmp_path: Path) -> None:
    """17 episodes in 16 environments: the first has two to play, and both are cut."""
    result = train(tmp_path / "run", "NeverEnds", eval_max_steps=5, eval_episodes=17)
    assert len(result.evaluation["returns"]) == 17 == len(result.evaluation["cut_episodes"])


class Killed(BaseException):
    """Ends a run as a kill does: nothing handles it."""


@pytest.mark.parametrize("engine", ["jax", "gymnasium-sync"])
def test_a_run_killed_in_its_last_evaluation_resumes_to_the_same_files(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes = {"engine": engine, "total_steps": 64 * 3}
    whole = start(tmp_path / "whole", **wishes)
    with monkeypatch.context() as patch:
        patch.setattr(EngineLearner, "evaluate", lambda self, state: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            start(tmp_path / "killed", **wishes)
    assert len(read_metrics(tmp_path / "killed" / "metrics.jsonl")) == 3, "the last record is there"
    assert checkpoint(tmp_path / "killed") == checkpoint(tmp_path / "whole")
    resumed = batchwright.resume(tmp_path / "killed", quiet=True)
    assert resumed.evaluation == whole.evaluation
    assert record(tmp_path / "killed") == record(tmp_path / "whole")
    assert said(tmp_path / "killed", "finished")
    again = batchwright.resume(tmp_path / "killed", quiet=True)
    assert again.evaluation["returns"] == whole.evaluation["returns"]


def test_an_evaluation_that_raises_costs_nothing_but_itself(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(EvaluationFailed, match=r"training is finished and saved.*no licence.*nasty_envs\.py:\d+"):
        train(run, "FailsInEvaluation", eval_every=1)
    assert len(read_metrics(run / "metrics.jsonl")) == 3
    assert len(said(run, "evaluation-failed")) == 3, "periodic evaluations did not end the training either"
    assert said(run, "finished") and (run / "report.html").is_file()
    assert batchwright.resume(run, quiet=True).evaluation == {}


def test_rewards_that_are_no_number_in_an_evaluation_are_counted(tmp_path: Path) -> None:
    result = train(tmp_path / "run", "NanInEvaluation")
    assert result.evaluation["mean"] is None and result.evaluation["nonfinite_episodes"] == 2
    assert "not finite" in said(tmp_path / "run", "remark")[0]


def test_rewards_that_are_never_a_number_end_as_diverged(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="reward") as diverged:
        train(tmp_path / "long", "NanAlways", total_steps=64 * 5)
    assert diverged.value.fixes == (), "no flag mends the environment's own numbers"
    with pytest.raises(DivergedError, match="every update was undone"):
        train(tmp_path / "short", "NanAlways", total_steps=64)


@pytest.mark.parametrize("changes", [{"algo": "ppo"}, {"algo": "dqn", "warmup_steps": 32}])
def test_pictures_of_7_x_7_are_trained_on(tmp_path: Path, changes: dict[str, Any]) -> None:
    wishes = {"num_envs": 2, "rollout_steps": 8, "total_steps": 64, "eval_episodes": 1, "engine": "gymnasium-sync"}
    result = batchwright.train(f"{NASTY}:Grid", run_dir=tmp_path / "run", quiet=True, **(wishes | changes))
    assert result.env_steps == 64


def test_components_that_an_environment_does_not_have_are_refused(tmp_path: Path) -> None:
    wishes = {name: value for name, value in SMALL.items() if name not in ("env", "engine")}
    for env in (f"{NASTY}:Plain", "IdentityDiscrete-v0"):
        with pytest.raises(UserError, match=r"'a'|gives a"):
            batchwright.train(env, components=("a", "b"), run_dir=tmp_path / env[-5:], quiet=True, **wishes)


@pytest.mark.parametrize(
    ("factory", "signals", "code", "engine"),
    [
        ("StuckInC", 2, 130, "gymnasium-sync"),
        ("StuckInC", 1, 130, "gymnasium-sync"),
        ("Waits", 1, -2, "gymnasium-sync"),
        ("Waits", 1, -2, "gymnasium-async"),
    ],
)
def test_a_signal_ends_a_run_whose_environment_never_returns(
    factory: str, signals: int, code: int, engine: str, tmp_path: Path
) -> None:
    wishes = SMALL | {"env": f"{NASTY}:{factory}", "engine": engine, "run_dir": str(tmp_path / "run")}
    program = f"""
import batchwright
from batchwright.runs import signals
if __name__ == "__main__":
    signals.HANG_SECONDS, signals.STUCK_SECONDS = 1.0, 1.0
    batchwright.train(**{wishes!r})
"""
    stuck = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert stuck.stdout is not None
    try:
        while "stuck" not in (line := stuck.stdout.readline()):
            assert line, "it ended before it was stuck"
        for _ in range(signals):
            stuck.terminate()
            time.sleep(0.5)
        assert stuck.wait(30) == code
    finally:
        stuck.kill()
        stuck.communicate()
