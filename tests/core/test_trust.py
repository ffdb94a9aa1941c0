"""Code that a run names: run for those who made the run here, asked for where somebody else did."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

import batchwright
from batchwright.api import prepare
from batchwright.core.errors import UserError
from batchwright.core.trust import named_code
from run_batchwright import refusal, run
from small_runs import SMALL

OWN = """
from pathlib import Path
import gymnasium
(Path(__file__).parent / "was-run").write_text("by somebody")
def make():
    return gymnasium.make("CartPole-v1")
"""
WISHES = SMALL | {"engine": "gymnasium-sync", "num_envs": 2, "total_steps": 32 * 2, "rollout_steps": 16}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an environment of one's own."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def strange(run: Path) -> Path:
    """A run of somebody else: its plan is known, its settings name code."""
    run.mkdir(parents=True)
    made = prepare(run_dir=run / "made", quiet=True, **SMALL)
    for name in ("plan.json", "config.yaml"):
        shutil.move(made / name, run / name)
    settings = (run / "config.yaml").read_text().replace('"CartPole-v1"', '"own/mine.py:make"')
    (run / "config.yaml").write_text(settings)
    shutil.rmtree(made)
    return run


def was_run(project: Path) -> bool:
    return (project / "own" / "was-run").exists()


@pytest.mark.parametrize("command", ["resume", "eval", "prove"])
@pytest.mark.parametrize("env", ["own/mine.py:make", "this:d", "own.mine:make"])
def test_a_stranger_s_code_is_not_run(project: Path, command: str, env: str) -> None:
    there = strange(project / "theirs")
    text = (there / "config.yaml").read_text().replace("own/mine.py:make", env)
    (there / "config.yaml").write_text(text)
    (there / "metrics.jsonl").write_text('{"iteration": 0, "env_steps": 64}\n')
    known = set(sys.modules)
    answer = refusal(f"{command} {there}")
    assert "names code of its own" in answer.err
    assert "--trust" in answer.err
    assert not was_run(project)
    assert not {"this", "own", "own.mine"} & (set(sys.modules) - known)


def test_reading_a_run_never_runs_its_code(project: Path) -> None:
    there = strange(project / "theirs")
    (there / "metrics.jsonl").write_text('{"iteration": 0, "env_steps": 64}\n')
    for command in ("doctor theirs", "report theirs", "compare theirs theirs"):
        assert run(*command.split()).code == 0
    assert not was_run(project)


def test_a_run_made_here_goes_on_without_a_question_moved_or_copied(project: Path) -> None:
    wishes = WISHES | {"env": "own/mine.py:make"}
    made = batchwright.train(run_dir="runs/mine", quiet=True, **wishes).run_dir
    assert run("eval", str(made), "--episodes", "1").code == 0
    shutil.copytree(made, "elsewhere/copy")
    assert run("eval", "elsewhere/copy", "--episodes", "1").code == 0
    with Path("elsewhere/copy/config.yaml").open("a") as file:
        file.write("# changed by somebody\n")
    assert "names code of its own" in refusal("eval elsewhere/copy --episodes 1").err


def test_the_same_name_of_another_file_is_strange(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepare(run_dir=project / "mine", quiet=True, **(WISHES | {"env": "own/mine.py:make"}))
    (project / "download" / "own").mkdir(parents=True)
    shutil.copy("own/mine.py", project / "download" / "own")
    monkeypatch.chdir(project / "download")
    with pytest.raises(UserError, match="names code of its own"):
        batchwright.resume(made, quiet=True)


def test_who_trusts_a_stranger_is_asked_once(project: Path) -> None:
    there = strange(project / "theirs")
    answer = run("resume", str(there), "--trust")
    assert answer.code in (0, 2), answer.err
    assert was_run(project), "the code was run, as was agreed"
    assert "names code of its own" not in answer.err
    assert "names code of its own" not in run("resume", str(there)).err


def test_without_a_place_to_remember_training_still_works(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(project / "file"))
    made = batchwright.train(run_dir="runs/mine", quiet=True, **(WISHES | {"env": "own/mine.py:make"})).run_dir
    with pytest.raises(UserError, match="names code of its own"):
        batchwright.load(made)
    assert batchwright.load(made, trust=True).iteration == 2


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ("CartPole-v1", None),
        ("ALE/Pong-v5", None),
        ("batchwright.envs.registration:Moving-v0", None),
        ("batchwright.py:make", "batchwright.py"),
        ("batchwright.cli:main", "batchwright.cli"),
        ("a:b.py:make", "a:b.py"),
        (":x", None),
    ],
)
def test_names_that_import_something_are_known(env: str, code: str | None) -> None:
    assert named_code(env) == code


def test_the_list_of_trusted_runs_is_the_user_s_alone(project: Path) -> None:
    prepare(run_dir=project / "mine", quiet=True, **(WISHES | {"env": "own/mine.py:make"}))
    (path,) = (project / "state").rglob("trusted-runs")
    assert path.stat().st_mode & 0o777 == 0o600
    (line,) = path.read_text().split()
    assert len(json.dumps(line)) == 66
