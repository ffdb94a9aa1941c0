"""The campaign of attacks, a few of each part: it runs, it finds nothing, and it would find something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TORTURE = Path(__file__).parents[1] / "benchmarks" / "torture"
FEW = {"kills": 1, "damages": 1, "strangers": 1, "calls": 30, "environments": 1}


def torture(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TORTURE), *words], capture_output=True, text=True, check=False, env=os.environ | variables
    )


@pytest.mark.parametrize("parts", [("strangers", "calls"), ("kills", "damages", "environments")], ids="-".join)
def test_a_few_attacks_of_each_part_are_survived(parts: tuple[str, ...], tmp_path: Path) -> None:
    counts = [word for name in parts for word in (f"--{name}", str(FEW[name]))]
    done = torture(*parts, *counts, "--scratch", str(tmp_path), "--json", str(tmp_path / "torture.json"))
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    rounds = {one["part"]: one for one in json.loads((tmp_path / "torture.json").read_text())["rounds"]}
    assert rounds.keys() == set(parts)
    for name, found in rounds.items():
        assert found["survived"] == found["tried"]
        assert (sum(found["codes"].values()) if name == "kills" else found["tried"]) == FEW[name]
    assert not [path for path in tmp_path.iterdir() if path.name != "torture.json"]


def test_what_falls_is_shown_with_the_way_to_repeat_it(tmp_path: Path) -> None:
    broken = "import batchwright.commands.plan_commands as commands\ndef plan(words): 1 / 0\ncommands.plan = plan\n"
    (tmp_path / "sitecustomize.py").write_text(broken)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = torture("calls", "--calls", "3", "--scratch", str(tmp_path), PYTHONPATH=path)
    assert done.returncode == 1, done.stderr[-3000:]
    assert "ZeroDivisionError" in done.stdout
    assert "repeat: python benchmarks/torture --seed 0 --only calls:" in done.stdout
