"""One training iteration stays readable: the files that it passes through, and their lines, have limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("envpool")

TRACER = Path(__file__).parents[1] / "benchmarks" / "trace_iteration.py"


@pytest.mark.parametrize(
    ("name", "most_files", "most_lines"), [("ppo", 14, 2200), ("ppo-normalised", 16, 2380), ("sac-rrd", 16, 2900)]
)
def test_a_reader_of_one_iteration_opens_few_files(name: str, most_files: int, most_lines: int) -> None:
    done = subprocess.run([sys.executable, str(TRACER), name, "--json"], capture_output=True, text=True, check=True)
    files = json.loads(done.stdout)
    listed = "\n".join(f"{row['lines']:>5} {row['file']}" for row in files)
    assert {"runs/loop.py", "runs/engine_learner.py"} < {row["file"] for row in files}
    assert len(files) <= most_files, listed
    assert sum(row["lines"] for row in files) <= most_lines, listed
