"""`batchwright doctor` on real runs: sick, unfinished and damaged ones; and its advice during training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import batchwright
from batchwright.watch.metric_log import read_events
from run_batchwright import run

SMALL = {
    "env": "CartPole-v1",
    "preset": "none",
    "engine": "jax",
    "num_envs": 4,
    "rollout_steps": 64,
    "minibatches": 4,
    "epochs": 4,
    "hidden": "8,8",
    "eval_every": 0,
    "eval_episodes": 2,
    "total_steps": 256 * 30,
}


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a learning rate of 0.5."""
    folder = tmp_path_factory.mktemp("sick") / "run"
    return batchwright.train(run_dir=folder, quiet=True, **(SMALL | {"learning_rate": 0.5})).run_dir


def test_the_first_finding_of_a_huge_learning_rate_is_the_learning_rate(sick: Path) -> None:
    answer = json.loads(run("doctor", str(sick), "--json").out)
    assert answer["status"] == "finished" and not answer["healthy"]
    first = answer["findings"][0]
    assert first["finding"] == "learning-rate-too-high"
    assert first["flags"][0] == "--learning-rate 0.001"  # of the preset that is tuned for CartPole
    assert first["evidence"]["learning_rate"] == 0.5


def test_the_same_advice_was_given_while_training(sick: Path) -> None:
    advice = [event for event in read_events(sick / "events.jsonl") if event["kind"] == "advice"]
    first = advice[0]
    assert first["finding"] == "learning-rate-too-high" and first["iteration"] < 29
    assert set(first) >= {"severity", "evidence", "cause", "flags", "message"}
    assert len({event["finding"] for event in advice}) == len(advice)


def test_with_the_doctor_off_there_is_no_advice_and_every_bit_is_the_same(sick: Path, tmp_path: Path) -> None:
    wishes = SMALL | {"learning_rate": 0.5, "doctor": "off"}
    off = batchwright.train(run_dir=tmp_path / "off", quiet=True, **wishes).run_dir
    assert not [event for event in read_events(off / "events.jsonl") if event["kind"] == "advice"]
    last = [json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1]) for folder in (sick, off)]
    assert last[0]["parameters_digest"] == last[1]["parameters_digest"]


def test_a_truncated_and_damaged_record_is_diagnosed_as_far_as_it_goes(sick: Path, tmp_path: Path) -> None:
    lines = (sick / "metrics.jsonl").read_text().splitlines()[:12]
    (tmp_path / "plan.json").write_text((sick / "plan.json").read_text())
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines[:5], "{torn", *lines[5:]]))
    answer = json.loads(run("doctor", str(tmp_path), "--json").out)
    assert answer["status"] == "unfinished" and answer["iterations"] == 12
    assert answer["remarks"] == ["1 lines of metrics.jsonl cannot be read and were passed over"]
    assert answer["findings"][0]["finding"] == "learning-rate-too-high"


def test_a_run_without_a_plan_is_diagnosed_by_its_metrics(sick: Path, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text((sick / "metrics.jsonl").read_text())
    answer = json.loads(run("doctor", str(tmp_path), "--json").out)
    assert "plan cannot be read" in answer["remarks"][0]
    assert "learning-rate-too-high" in [finding["finding"] for finding in answer["findings"]]


def test_a_path_that_is_no_run_is_refused_with_the_runs_beside_it(sick: Path) -> None:
    answer = run("doctor", str(sick.parent / "rum"))
    assert answer.code == 2 and str(sick) in answer.err


def test_the_checklist_fits_on_a_page() -> None:
    text = run("doctor", "--checklist").out
    assert len(text.splitlines()) < 60 and "--entropy-anneal" in text
