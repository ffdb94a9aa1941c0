"""Callbacks of the user: they change nothing by themselves, resume exactly, stop, log and set attributes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.api import prepare
from batchwright.core.errors import UserError
from batchwright.envs.engines import make_engine
from batchwright.watch.metric_log import read_events
from run_batchwright import refusal
from small_runs import SMALL, TerminatedAfter, episodes, record, start

CORRIDOR = f"{Path(__file__).parents[2] / 'examples' / 'callbacks.py'}:Corridor"
IN_PYTHON = {"env": CORRIDOR, "engine": "gymnasium-sync", "num_envs": 2}


class Grows(batchwright.Callback):
    """Lets corridors grow by one in every second iteration, counted by itself."""

    def __init__(self) -> None:
        self.calls = 0
        self.heard: list[str] = []

    def on_start(self, view: batchwright.RunView) -> None:
        self.heard.append("start")
        view.set_env("length", 1)

    def on_iteration(self, metrics: Mapping[str, Any], view: batchwright.RunView) -> None:
        self.calls += 1
        view.log("calls", self.calls)
        if self.calls % 2 == 0:
            view.set_env("length", min(16, 1 + self.calls // 2))

    def on_evaluation(self, evaluation: Mapping[str, Any], view: batchwright.RunView) -> None:
        self.heard.append(f"evaluation {evaluation['episodes']}")

    def on_end(self, view: batchwright.RunView) -> None:
        self.heard.append(f"end {view.iteration}")

    def save(self) -> Any:
        return {"calls": self.calls}

    def load(self, state: Any) -> None:
        self.heard.append("load")
        self.calls = state["calls"]


def test_a_callback_that_does_nothing_changes_no_bit(finished: Path, tmp_path: Path) -> None:
    with_one = start(tmp_path / "run", callback=batchwright.Callback()).run_dir
    assert record(with_one) == record(finished)
    assert episodes(with_one) == episodes(finished)


@pytest.mark.parametrize("engine", ["gymnasium-sync", "gymnasium-async"])
@pytest.mark.parametrize("checkpoint_every", [100, 4])
def test_a_curriculum_resumes_to_the_bit(engine: str, checkpoint_every: int, tmp_path: Path) -> None:
    wishes = {**IN_PYTHON, "engine": engine, "checkpoint_every": checkpoint_every, "total_steps": 32 * 60}
    whole = start(tmp_path / "whole", callback=Grows(), **wishes).run_dir
    with TerminatedAfter(tmp_path / "cut", 6):
        cut = start(tmp_path / "cut", callback=Grows(), **wishes)
    assert cut.interrupted, "the signal came too late"
    second = Grows()
    result = batchwright.resume(tmp_path / "cut", quiet=True, callback=second)
    assert second.heard == ["load", "evaluation 2", "end 60"]
    assert not result.interrupted
    assert record(tmp_path / "cut") == record(whole)
    assert episodes(tmp_path / "cut") == episodes(whole)
    lengths = [line["episode_length"] for line in record(whole) if "episode_length" in line]
    assert lengths[0] < 3  # of corridors of length 1


def test_metrics_of_a_callback_are_part_of_the_record(tmp_path: Path) -> None:
    path = start(tmp_path / "run", callback=lambda metrics, view: view.log("twice", 2 * metrics["iteration"])).run_dir
    assert [line["twice"] for line in record(path)] == [2 * number for number in range(12)]
    with pytest.raises(UserError, match="logs entropy, which is a metric of the run"):
        start(tmp_path / "taken", callback=lambda metrics, view: view.log("entropy", 0))


def test_a_callback_ends_a_run_which_is_then_finished(tmp_path: Path) -> None:
    def stop_at_5(metrics: Mapping[str, Any], view: batchwright.RunView) -> None:
        if view.iteration == 5:
            view.stop("five are enough")

    result = start(tmp_path / "run", callback=stop_at_5, eval_every=5)
    assert (result.iterations, result.interrupted, result.stopped) == (5, False, "by a callback")
    assert result.evaluation["episodes"] == 2
    last = read_events(result.run_dir / "events.jsonl")[-1]
    assert (last["kind"], last["reason"]) == ("finished", "by a callback")
    assert "five are enough" in last["message"]
    again = batchwright.resume(result.run_dir, quiet=True)
    assert (again.iterations, again.stopped) == (5, "by a callback")


def test_a_run_with_a_callback_does_not_go_on_without_one(tmp_path: Path) -> None:
    settings = SMALL | {"total_steps": 64 * 2}
    run = prepare(run_dir=tmp_path / "run", quiet=True, callback=Grows(), **settings)
    assert "was trained with a callback, test_callbacks:Grows" in refusal(f"resume {run}").err
    with pytest.raises(UserError, match="jax has no environments in Python"):
        batchwright.resume(run, quiet=True, callback=Grows())
    assert batchwright.resume(run, quiet=True, callback=batchwright.Callback()).iterations == 2


def test_an_attribute_that_no_environment_has_is_refused() -> None:
    engine = make_engine(CORRIDOR, 1, "gymnasium-sync")
    with pytest.raises(UserError, match="has no attribute 'lenght' to set"):
        engine.set_attribute("lenght", 3)
    engine.close()


def test_entries_of_info_are_logged_and_not_trained_on(tmp_path: Path) -> None:
    counter = f"{Path(__file__).parents[1] / 'envs' / 'sample_envs.py'}:Counter"
    settings = {"env": counter, "engine": "gymnasium-sync", "total_steps": 64 * 2, "preset": "none"}
    logged = start(tmp_path / "logged", log_info=("twice",), **settings).run_dir
    # Episodes of 4 steps with 2, 4, 6, 8 in info; the last step of each has 8.
    assert [line["info/twice/last"] for line in record(logged)] == [8.0, 8.0]
    assert 4.5 < record(logged)[0]["info/twice"] < 5.5
    assert record(logged, leave_out=("info/",)) == record(start(tmp_path / "plain", **settings).run_dir)
    assert "gives no info (x)" in refusal(f"train CartPole-v1 --log-info x --engine jax --run-dir {tmp_path}/a").err
