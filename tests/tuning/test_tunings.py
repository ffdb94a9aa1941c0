"""Whole tunings: repeatable, resumable, every unit a run that train makes too, and refusals that name the fix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.tuning.tuning_ledger import TuningLedger, read_ledger
from run_batchwright import refusal, run
from small_runs import SMALL, record

UNIT_STEPS = 640
FIXED: dict[str, Any] = {
    name: value for name, value in SMALL.items() if name not in ("env", "eval_every", "total_steps")
}
FIXED |= {"preset": "none", "eval_episodes": 1}
OPTIONS: dict[str, Any] = {"phases": ["B"], "search": "none", "judge_seeds": 4, "budget_steps": 30 * UNIT_STEPS}
"""One unit of the default, 6 of phase B (learning rate and gradient clip: no new shapes) and 2 beyond its edges, 9 with
more seeds, 3 x 4 of judging."""


def flags(**options: Any) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", *(value if isinstance(value, list) else [str(value)])]
    return words


COMMAND = ["tune", "CartPole-v1", *flags(**FIXED, **OPTIONS)]


def without_times(folder: Path) -> list[dict[str, Any]]:
    """The ledger in unit order, times and the forecast aside."""
    lines = [line for line in read_ledger(folder / "ledger.jsonl") if line["kind"] != "forecast"]
    lines.sort(key=lambda line: (line["kind"] != "header", line["kind"] != "unit", line.get("unit", 0)))
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuning") / "first"
    result = batchwright.tune("CartPole-v1", run_dir=folder, quiet=True, **FIXED, **OPTIONS)
    assert result is not None and result.verdict is not None
    assert result.env_steps <= OPTIONS["budget_steps"]
    return folder


def test_the_same_command_gives_the_same_ledger_in_one_process_and_in_workers(tuned: Path, tmp_path: Path) -> None:
    done = run(*COMMAND, "--run-dir", str(tmp_path / "workers"), "--workers", "2", "--json")
    assert done.code == 0
    assert without_times(tmp_path / "workers") == without_times(tuned)
    assert done.json["units"] == len([line for line in without_times(tuned) if line["kind"] == "unit"])


def test_any_unit_equals_the_run_that_train_makes_of_its_settings(tuned: Path, tmp_path: Path) -> None:
    header, *lines = without_times(tuned)
    units = [line for line in lines if line["kind"] == "unit"]
    for unit in (units[3], units[-1]):
        settings = {**header["flags"], **unit["setting"], "preset": "none"}
        alone = batchwright.train(
            run_dir=tmp_path / unit["key"], quiet=True, seed=unit["seed"], total_steps=unit["steps"], **settings
        )
        assert record(alone.run_dir) == record(tuned / "units" / unit["key"])
        assert record(alone.run_dir)[-1]["parameters_digest"] == unit["digest"]


def test_a_killed_tuning_is_resumed_to_the_same_verdict(tuned: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "batchwright.cli"]
    process = subprocess.Popen([*command, *COMMAND, "--run-dir", str(folder)], stdout=subprocess.DEVNULL)
    ledger = folder / "ledger.jsonl"
    deadline = time.monotonic() + 120
    while not ledger.exists() or ledger.read_bytes().count(b"\n") < 9:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with ledger.open("ab") as file:
        file.write(b'{"kind": "unit", "uni')  # what a kill in the middle of a write leaves
    finished = {line["key"] for line in read_ledger(ledger) if line["kind"] == "unit"}
    before = {key: (folder / "units" / key / "metrics.jsonl").stat().st_mtime_ns for key in finished}
    done = run("tune", "--resume", str(folder), "--json")
    assert done.code == 0
    assert without_times(folder) == without_times(tuned)
    assert {key: (folder / "units" / key / "metrics.jsonl").stat().st_mtime_ns for key in finished} == before


def test_a_finished_tuning_that_is_resumed_changes_nothing(tuned: Path) -> None:
    before = (tuned / "ledger.jsonl").read_bytes()
    result = batchwright.api.resume_tuning(tuned, quiet=True)
    assert not result.interrupted
    assert (tuned / "ledger.jsonl").read_bytes() == before


def test_the_report_shows_every_setting_and_the_cost_against_the_forecast(tuned: Path) -> None:
    page = (tuned / "report.html").read_text()
    assert "tuning of ppo" in page and "--learning-rate 0.003" in page
    assert '"expected":{"units":30' in page
    assert run("report", str(tuned)).code == 0


def test_a_winner_becomes_a_preset_that_train_plan_and_presets_read(tmp_path: Path) -> None:
    def objective(line: Any) -> float:  # the largest learning rate wins, whatever is learned
        return float(line["learning_rate"]) + 1e-9 * float(line["loss"])

    folder = tmp_path / "won"
    result = batchwright.tune("CartPole-v1", run_dir=folder, quiet=True, objective=objective, **FIXED, **OPTIONS)
    assert result is not None and result.preset == folder / "tuned.yaml"
    assert result.best["learning_rate"] == 0.027, "twice three times the last value of its range"
    certificate = run("presets", "show", str(result.preset), "--json").json["certificate"]
    assert certificate["judging_seeds"] == [1000, 1001, 1002, 1003] and certificate["tuning_seeds"] == [0, 1]
    ledger = TuningLedger(folder)
    assert certificate["ledger"] == ledger.digest
    ledger.close()
    planned = batchwright.plan("CartPole-v1", preset=str(result.preset))
    assert planned["learning_rate"] == 0.027 and planned["total_steps"] == UNIT_STEPS
    trained = batchwright.train(
        "CartPole-v1", preset=str(result.preset), engine="jax", run_dir=tmp_path / "used", quiet=True
    )
    assert trained.env_steps == UNIT_STEPS
    with pytest.raises(UserError, match="objective"):
        batchwright.api.resume_tuning(folder, quiet=True)


def test_units_that_fail_are_named_rank_last_and_the_tuning_goes_on(tmp_path: Path) -> None:
    def objective(line: Any) -> float:  # a training that is not finite, and one that is best
        return float("nan") if line["learning_rate"] > 0.1 else float(line["learning_rate"])

    space, env = tmp_path / "space.yaml", tmp_path / "own.py"
    space.write_text("B: {learning_rate: [1e-3, 1], minibatches: [2, 1000]}\n")
    env.write_text("import gymnasium\n\n\ndef make_env():\n    return gymnasium.make('CartPole-v1')\n")
    settings = {**FIXED, "engine": "gymnasium-sync"} | {"minibatches": None}
    options = OPTIONS | {"space": space, "objective": objective, "budget_steps": "14k"}
    result = batchwright.tune(f"{env}:make_env", run_dir=tmp_path / "own", quiet=True, **settings, **options)
    assert result is not None and result.verdict is not None
    assert result.verdict["rows"][1]["setting"] == {"learning_rate": 1e-3}
    units = [line for line in without_times(tmp_path / "own") if line["kind"] == "unit"]
    reasons = {json.dumps(unit["setting"]): unit["reason"] for unit in units if unit["score"] is None}
    assert "not finite" in reasons['{"learning_rate": 1.0}']
    assert "1000" in reasons['{"learning_rate": 0.001, "minibatches": 1000}']
    assert result.failed_units == 2
    env.write_text(env.read_text() + "# changed\n")
    with pytest.raises(UserError, match="has changed since"):
        batchwright.api.resume_tuning(tmp_path / "own", quiet=True, objective=objective)


def test_a_ledger_of_other_versions_or_with_other_results_is_refused(tuned: Path, tmp_path: Path) -> None:
    lines = (tuned / "ledger.jsonl").read_text().splitlines()
    other = tmp_path / "other"
    other.mkdir()
    (other / "ledger.jsonl").write_text("\n".join([lines[0].replace('"jax": "', '"jax": "9.'), *lines[1:]]) + "\n")
    assert "other versions (jax 9." in refusal(f"tune --resume {other}").err
    last = max(at for at, line in enumerate(lines) if '"phase": "B"' in line and '"kind": "unit"' in line)
    lines[last] = json.dumps({**json.loads(lines[last]), "score": 1e6})
    (other / "ledger.jsonl").write_text("\n".join(lines) + "\n")
    assert "does not lead to the decisions" in refusal(f"tune --resume {other}").err


def test_two_tunings_do_not_share_a_directory(tuned: Path) -> None:
    before = (tuned / "ledger.jsonl").read_bytes()
    with RunDir(tuned).lock():
        assert "already trains into" in refusal(f"tune --resume {tuned}").err
    assert (tuned / "ledger.jsonl").read_bytes() == before
    assert "--space cannot change" in refusal(f"tune --resume {tuned} --space other.yaml").err


def test_the_code_that_a_strangers_tuning_names_is_not_run(tuned: Path, tmp_path: Path) -> None:
    code, given = tmp_path / "theirs.py", tmp_path / "given"
    code.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n")
    given.mkdir()
    header = json.loads((tuned / "ledger.jsonl").read_text().splitlines()[0])
    (given / "ledger.jsonl").write_text(json.dumps({**header, "env": f"{code}:make_env"}) + "\n")
    assert "was not made here by you" in refusal(f"tune --resume {given}").err
    assert not (tmp_path / "was_run").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("CartPole-v1 --budget 5x", "is not a time"),
        ("CartPole-v1 --budget 30m --budget-steps 5M", "both limit the cost"),
        ("CartPole-v1 --phases B Q", "unknown phase 'Q'"),
        ("CartPole-v1 --search random", "unknown search"),
        ("CartPole-v1 --judge-seeds 3", "can tell a better setting from chance"),
        ("CartPole-v1 --fix gamma", "is not NAME=VALUE"),
        ("CartPole-v1 --fix gamma=0.9 --gamma 0.8", "both state gamma"),
        ("CartPole-v1 --budget-steps 1k", "is too small: "),
        ("CartPole-v1 --phases B --fix learning_rate=1e-3 max_grad_norm=1", "nothing is left to tune"),
        ("--resume {folder} --gamma 0.9", "--gamma cannot change"),
        ("--resume nowhere", "holds no tuning"),
        ("CartPole-v1 --run-dir {folder}", "holds a tuning already"),
        ("", "tune needs an environment"),
    ],
)
def test_bad_input_is_refused_with_a_fix(words: str, said: str, tuned: Path) -> None:
    more = "" if words.startswith("--") or not words else " ".join(flags(**FIXED))
    answer = refusal(f"tune {words} {more}".replace("{folder}", str(tuned)))
    assert said in answer.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("B: {learning_rat: [1]}", "Did you mean learning_rate"),
        ("Q: {learning_rate: [1]}", "unknown phase"),
        ("B: {learning_rate: 1}", "needs a list"),
        ("B: {learning_rate: [abc]}", "is not a number"),
        ("B: [1, 2]", "is not a space"),
        ("B: {entropy_start: {factors: [2]}}", "factors of it mean nothing"),
        ("a: &a [1]\nb: *a", "aliases"),
    ],
)
def test_a_space_that_cannot_be_meant_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text)
    answer = refusal(f"tune CartPole-v1 {' '.join(flags(**FIXED))} --space {path}")
    assert said in answer.err
