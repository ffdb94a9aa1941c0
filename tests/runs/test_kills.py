"""A run killed again and again ends with the bits of one that nobody touched, whatever steps its environments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchwright.watch.metric_log import read_events
from small_runs import episodes, record

KILLS = int(os.environ.get("BATCHWRIGHT_KILLS", "2"))
"""For each engine; BATCHWRIGHT_KILLS=10 trains and kills five times as long."""
ENGINES = ("jax", "envpool", "gymnasium-async", "gymnasium-vector")
"""The others are terminated and resumed in test_runs.py; `make torture` kills runs of all."""


@pytest.mark.parametrize("engine", ENGINES)
def test_killed_again_and_again_and_resumed_is_the_same_as_never_stopped(engine: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "kill_again.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), engine, str(KILLS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kills, iterations = (int(word) for word in done.stdout.split())
    assert kills == KILLS
    whole = record(tmp_path / "whole")
    assert record(tmp_path / "killed") == whole
    assert episodes(tmp_path / "killed") == episodes(tmp_path / "whole")
    assert len(whole) == iterations
    resumed = [
        event["iteration"] for event in read_events(tmp_path / "killed" / "events.jsonl") if event["kind"] == "resume"
    ]
    assert max(resumed) > 0, "no attempt went on from a checkpoint"
