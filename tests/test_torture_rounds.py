"""A campaign of attacks that was stopped goes on where it was."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "torture"))
from rounds import add_round, is_on_file, read_rounds


def test_rounds_are_added_to_those_on_file_by_part_and_seed(tmp_path: Path) -> None:
    path = tmp_path / "torture.json"
    assert read_rounds(path) == [] and not is_on_file(path, "calls", 4)
    for part, seed in (("calls", 4), ("kills", 9), ("calls", 3)):
        add_round(path, {"part": part, "seed": seed, "tried": 2}, ["kills", "calls"])
    assert [(one["part"], one["seed"]) for one in read_rounds(path)] == [("kills", 9), ("calls", 3), ("calls", 4)]
    assert is_on_file(path, "calls", 4) and not is_on_file(path, "kills", 4)
    assert [entry.name for entry in tmp_path.iterdir()] == ["torture.json"]
