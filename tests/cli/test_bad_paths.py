"""Paths and files that nobody should give: one message each; and errors that nobody foresaw: one line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import batchwright
from batchwright.api import diagnose
from batchwright.core.errors import UserError
from run_batchwright import run

LONG = "x" * 5000
COMMANDS = ("resume {}", "eval {}", "prove {}", "doctor {}", "report {}", "watch {}", "compare {} {}", "rrd {} --show")


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, "train CartPole-v1 --run-dir {}", "plan --config {}", "doctor run {}", "presets {}", "watch --host {}"],
)
@pytest.mark.parametrize("path", [LONG, "a/" * 2500, "a\0b"])
def test_a_path_that_no_system_takes_is_one_short_message(command: str, path: str) -> None:
    answer = run(*(word.replace("{}", path) for word in command.split()))
    assert answer.code == 2
    assert answer.err.startswith("error: ") and answer.err.count("error: ") == 1
    assert len(answer.err) < 1000


@pytest.mark.parametrize("path", [LONG, "a\0b"])
def test_python_callers_get_a_user_error_for_such_a_path(path: str) -> None:
    for call in (batchwright.resume, batchwright.load, batchwright.report, diagnose):
        with pytest.raises(UserError):
            call(path)


@pytest.mark.parametrize("command", ["doctor /proc/self/mem", "doctor /", "rrd / --show", "doctor /dev/zero"])
def test_what_is_no_log_and_no_recording_is_refused_soon(command: str) -> None:
    began = time.monotonic()
    answer = run(*command.split())
    assert answer.code == 2, answer
    assert answer.err.count("error: ") == 1
    assert time.monotonic() - began < 30


def test_settings_come_through_a_pipe_but_one_that_nobody_writes_to_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchwright.config.load.LONGEST_WAIT_SECONDS", 0.05)
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", f"exec 3<>{tmp_path / 'pipe'}; sleep 60"])
    try:
        time.sleep(0.2)
        assert "nothing came for" in run("plan", "--config", str(tmp_path / "pipe")).err
    finally:
        writer.kill()
        writer.wait()
    read, write = os.pipe()
    os.write(write, b"num_envs: 16\n")
    os.close(write)
    assert run("plan", "--config", f"/dev/fd/{read}").code == 0
    os.close(read)
    assert "larger than 32 KiB" in run("plan", "--config", "/dev/zero").err


BOMB = "\n".join(
    ["m0: &m0 {a: 1, b: 2}", *(f"m{k}: &m{k} {{<<: [{', '.join([f'*m{k - 1}'] * 9)}]}}" for k in range(1, 9))]
)


def test_settings_that_multiply_by_aliases_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "config.yaml").write_text(BOMB)
    began = time.monotonic()
    assert run("plan", "--config", str(tmp_path / "config.yaml")).code == 2
    assert run("resume", str(tmp_path)).code == 2
    answer = run("report", str(tmp_path))
    assert answer.code == 0
    assert "config.yaml is damaged" in (tmp_path / "report.html").read_text()
    assert time.monotonic() - began < 5


def test_an_unexpected_error_is_one_line_and_its_traceback_is_kept(tmp_path: Path) -> None:
    code = (
        "import sys, batchwright.commands.plan_commands as c, batchwright.cli as cli\n"
        "def broken(words): raise ZeroDivisionError('a\\nb')\n"
        "c.plan = broken\n"
        "sys.exit(cli.main(['plan']))"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    (kept,) = tmp_path.glob("traceback-*.txt")
    assert done.stderr == (
        f"error: ZeroDivisionError: a. This is a fault of the environment or of Batchwright. Traceback: {kept}\n"
    )
    assert "in broken" in kept.read_text()


def test_the_traceback_of_a_training_lies_in_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ZeroDivisionError("in the middle")

    monkeypatch.setattr("batchwright.regimes.make_learner", broken)
    wishes = ["--total-steps", "128", "--num-envs", "2", "--engine", "jax", "--hidden", "8"]
    answer = run("train", "CartPole-v1", "--run-dir", str(tmp_path / "run"), *wishes)
    assert answer.code == 1
    assert "Traceback (most" not in answer.err
    (kept,) = (tmp_path / "run").glob("traceback-*.txt")
    assert str(kept) in answer.err
