"""Threads of the update in a process: NPROC is set once, said where it differs from the plan."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.runs.learner_threads import take_threads, with_threads

WIDE = {"algo": "sac", "obs_shape": "17", "action_size": 6, "cores": 2}


def test_a_process_without_a_number_takes_the_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPROC")
    assert take_threads(batchwright.plan(**WIDE)) == 2
    assert os.environ["NPROC"] == "2"


def test_the_number_of_the_process_is_what_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "1")
    found = with_threads(batchwright.plan(**WIDE)).quantities["learner_threads"]
    assert found.value == 1
    assert "NPROC=1" in found.reason


def test_a_stated_number_that_the_process_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "1")
    with pytest.raises(UserError, match=r"gives updates 1 thread .*--learner-threads asks for 2") as caught:
        with_threads(batchwright.plan(**WIDE, learner_threads=2))
    assert "--learner-threads 1" in caught.value.fixes


def test_two_threads_repeat_to_the_bit_and_another_number_is_said(tmp_path: Path) -> None:
    wishes = "--algo sac --engine jax --hidden 256,256 --total-steps 192 --warmup-steps 64"
    free = {name: value for name, value in os.environ.items() if name != "NPROC"}

    def call(words: str, **extra: str) -> None:
        line = [sys.executable, "-m", "batchwright.cli", *words.split(), "--quiet"]
        subprocess.run(line, check=True, capture_output=True, env=free | extra)

    call(f"train IdentityContinuous-v0 {wishes} --learner-threads 2 --run-dir {tmp_path / 'first'}")
    for name in ("again", "other"):
        (tmp_path / name).mkdir()
        for file in ("config.yaml", "plan.json"):
            (tmp_path / name / file).write_bytes((tmp_path / "first" / file).read_bytes())
    call(f"resume {tmp_path / 'again'}")
    assert _digests(tmp_path / "again") == _digests(tmp_path / "first")
    call(f"resume {tmp_path / 'other'}", NPROC="1")
    assert "planned with 2 threads, this process gives them 1" in (tmp_path / "other" / "events.jsonl").read_text()


def _digests(run: Path) -> list[str]:
    return [json.loads(line)["parameters_digest"] for line in (run / "metrics.jsonl").read_text().splitlines()]
