"""Masks, unused boxes, components, learned weights and memories in a run that is stopped and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import batchwright
from small_runs import TerminatedAfter, record, start

CASES: dict[str, dict[str, Any]] = {
    "masks and components": {"env": "Colony-v0", "component_weighting": "learned"},
    "masks from Gymnasium": {"env": "Colony-v0", "engine": "gymnasium-sync", "num_envs": 2},
    "memory": {"memory": "lstm", "memory_size": 8, "seq_length": 8, "hidden": "8,8"},
    "memory from Gymnasium": {"engine": "gymnasium-sync", "memory": "gru", "memory_size": 8, "seq_length": 4},
}


@pytest.mark.parametrize("case", CASES)
def test_a_special_run_resumes_to_the_bit(case: str, tmp_path: Path) -> None:
    wishes = {"preset": "none", "total_steps": 64 * 40, **CASES[case]}
    whole = start(tmp_path / "whole", **wishes)
    with TerminatedAfter(tmp_path / "cut", 4):
        cut = start(tmp_path / "cut", **wishes)
    assert cut.interrupted, "the signal came too late"
    batchwright.resume(tmp_path / "cut", quiet=True)
    assert record(tmp_path / "cut") == record(whole.run_dir)
