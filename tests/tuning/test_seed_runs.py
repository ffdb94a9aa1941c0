"""One setting over seeds: every run equals the run alone, kills cost nothing, one report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import batchwright
from run_batchwright import run as command
from small_runs import SMALL, record

TINY: dict[str, Any] = SMALL | {"total_steps": 64 * 3, "eval_episodes": 1}
FLAGS = [word for name, value in TINY.items() if name != "env" for word in (f"--{name.replace('_', '-')}", str(value))]


def test_each_seed_of_a_folder_equals_the_run_alone_whatever_executes_it(tmp_path: Path) -> None:
    here = batchwright.train(seeds=2, run_dir=tmp_path / "here", quiet=True, seed=3, **TINY)
    workers = batchwright.train(seeds=2, workers=2, run_dir=tmp_path / "workers", quiet=True, seed=3, **TINY)
    for seed in (3, 4):
        alone = batchwright.train(run_dir=tmp_path / f"alone-{seed}", quiet=True, seed=seed, **TINY)
        for result in (here, workers):
            assert record(result.run_dir / f"seed-{seed}") == record(alone.run_dir)
    assert [row["status"] for row in workers.runs] == ["finished"] * 2
    assert here.iqm == workers.iqm and here.iqm_interval == workers.iqm_interval
    report = (tmp_path / "here" / "report.html").read_text()
    assert "2 runs of one setting" in report


def test_resuming_a_folder_of_seeds_trains_only_what_is_left(tmp_path: Path) -> None:
    whole = batchwright.train(seeds=2, run_dir=tmp_path / "whole", quiet=True, **TINY)
    folder = batchwright.api.prepare(seeds=2, run_dir=tmp_path / "cut", quiet=True, **TINY)
    batchwright.resume(folder / "seed-0", quiet=True)
    before = (folder / "seed-0" / "metrics.jsonl").read_bytes()
    done = command("resume", str(folder), "--json")
    assert done.code == 0
    assert (folder / "seed-0" / "metrics.jsonl").read_bytes() == before
    assert [row["score"] for row in json.loads(done.out)["runs"]] == [row["score"] for row in whole.runs]


def test_a_seed_that_fails_is_named_and_the_others_are_trained(tmp_path: Path) -> None:
    folder = batchwright.api.prepare(seeds=3, run_dir=tmp_path / "some", quiet=True, **TINY)
    (folder / "seed-1" / "plan.json").write_text("damaged")
    done = command("resume", str(folder))
    assert done.code == 3
    assert "seed-1: failed" in done.out and "damaged" in done.out
    assert "return of 2 seeds" in done.out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--seeds", "0"], "--seeds 0 is not a whole number"),
        (["--seeds", "1001"], "from 1 to 1000"),
        (["--workers", "2"], "--workers trains several seeds"),
        (["--seeds", "2", "--workers", "x"], "--workers x is not a whole number"),
    ],
)
def test_bad_counts_are_refused_before_anything_is_made(flags: list[str], said: str, tmp_path: Path) -> None:
    found = command("train", "CartPole-v1", *FLAGS, *flags, "--run-dir", str(tmp_path / "run"))
    assert found.code == 2 and said in found.err
    assert not (tmp_path / "run").exists()
