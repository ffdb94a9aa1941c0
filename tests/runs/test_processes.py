"""Several processes train one run: repeatable, resumable after a kill, with the environments of one process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import batchwright
from batchwright.envs.engines.engine import ShareSeed, env_seeds
from batchwright.runs.process_group import ProcessGroup, own_rows
from run_batchwright import plan, run
from small_runs import SMALL, episodes, lines, record, start

TOGETHER: dict[str, Any] = {"processes": 2, "checkpoint_every": 4, "normalize_obs": True}
SECONDS = 300.0


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nobody stopped."""
    return start(tmp_path_factory.mktemp("processes") / "run", **TOGETHER).run_dir


def command(folder: Path, *more: str) -> list[str]:
    settings = SMALL | TOGETHER
    env = settings.pop("env")
    del settings["normalize_obs"], settings["processes"]
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    named = [sys.executable, "-m", "batchwright.cli", "train", env, "--run-dir", str(folder), "--normalize-obs"]
    return [*named, *flags, "--processes", "2", "--quiet", *more]


def wait_for(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Returns when a run has logged so many iterations."""
    end = time.monotonic() + SECONDS
    while lines(folder) < count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.01)


def worker_of(parent: int, number: int) -> int:
    """The id of a process of the training that `parent` has started."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(parent):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                above = int(re.findall(rb"PPid:\s*(\d+)", (entry / "status").read_bytes())[0])
            except OSError:
                continue
            if above == parent and b"batchwright.process_worker" in words and words[5] == str(number).encode():
                return int(entry.name)
    raise AssertionError(f"process {number} is not there")


def test_two_processes_collect_what_one_does_and_begin_with_its_gradient(trained: Path, tmp_path: Path) -> None:
    alone = start(tmp_path / "alone", **(TOGETHER | {"processes": 1, "total_steps": 64})).run_dir
    (first,) = record(alone)
    together = record(trained)[0]
    for name in ("episodes", "transitions", "reward_std", "obs_abs_max", "explained_variance", "value_mean"):
        assert together[name] == pytest.approx(first[name], rel=1e-5), name
    found = episodes(trained).splitlines()
    assert found[: len(episodes(alone).splitlines())] == episodes(alone).splitlines()
    assert batchwright.load(trained) is not None


def test_a_killed_process_ends_the_others_and_the_resumed_run_is_the_same(trained: Path, tmp_path: Path) -> None:
    for number in (1, 0):
        folder = tmp_path / str(number)
        parent = subprocess.Popen(command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(folder, 6, parent)
        os.kill(worker_of(parent.pid, number), signal.SIGKILL)
        killed = time.monotonic()
        _, errors = parent.communicate(timeout=60)
        assert time.monotonic() - killed < 20
        assert parent.returncode == 2
        message = f"error: process {number} of 2 was ended by SIGKILL; the others were stopped."
        assert errors.splitlines()[-2:] == [message, f"  fix: batchwright resume {folder}"]
        batchwright.resume(folder, quiet=True)
        assert record(folder) == record(trained)
        assert episodes(folder) == episodes(trained)


def test_processes_of_a_launcher_stop_together_and_another_number_goes_on(trained: Path, tmp_path: Path) -> None:
    folder, port = tmp_path / "run", _free_port()
    launched = [
        subprocess.Popen(
            command(folder, "--coordinator", f"127.0.0.1:{port}", "--process-id", str(number)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]
    wait_for(folder, 2, launched[0])
    launched[1].send_signal(signal.SIGTERM)
    for process in launched:
        process.communicate(timeout=60)
    assert [process.returncode for process in launched] == [130, 130]
    stopped = lines(folder)
    assert stopped < len(record(trained))
    result = batchwright.resume(folder, quiet=True, processes=1)
    assert result.iterations == len(record(trained))
    assert record(folder)[:stopped] == record(trained)[:stopped]
    events = (folder / "events.jsonl").read_text()
    assert "the checkpoint was made by 2 processes, 1 go on: expect other last digits" in events


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_environments_of_a_share_have_the_seeds_that_they_have_in_one_process() -> None:
    assert env_seeds(ShareSeed(7, 3), 2) == env_seeds(7, 5)[3:]


def test_rows_of_one_process_come_back_from_a_gather_as_they_were() -> None:
    tree = {"a": np.arange(6, dtype=np.int16).reshape(3, 2), "b": np.array([True, False, True]), "c": np.ones((3, 0))}
    back = ProcessGroup().gather_rows(tree)
    assert all((back[name] == tree[name]).all() and back[name].dtype == tree[name].dtype for name in tree)
    assert own_rows(np.arange(12).reshape(2, 6), ProcessGroup(1, 3), 1).tolist() == [[2, 3], [8, 9]]


def test_the_plan_counts_processes_and_their_environments() -> None:
    made = plan(env="CartPole-v1", processes=3, num_envs=6, rollout_steps=20)
    assert (made["num_envs"], made["envs_per_process"], made["rollout_transitions"]) == (6, 2, 120)
    assert plan(env="Acrobot-v1", preset="none", processes=3)["num_envs"] == 9  # 8 rounded up


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--processes 3 --num-envs 8", "8 envs cannot be shared out equally over 3 processes"),
        ("--processes 4 --num-envs 2", "2 envs cannot be shared out equally over 4 processes"),
        ("--processes 2 --rollout-episodes 4", "needs rollouts of equal size in every process"),
        ("--processes 2 --doctor act", "does not go with --processes 2"),
        ("--processes 2 --algo sac", "belongs to on-policy and dataset training"),
        ("--processes 2 --seeds 2", "--seeds trains many runs, each in one process"),
        ("--processes 2 --device cpu", "--device is for one process"),
        ("--process-id 0 --processes 2", "--coordinator is missing"),
        ("--coordinator 127.0.0.1:1 --process-id 0", "--processes is missing"),
        ("--coordinator 127.0.0.1 --process-id 0 --processes 2", "is not HOST:PORT"),
        ("--coordinator 127.0.0.1:7654 --process-id 2 --processes 2", "--process-id 2 is none of 2 processes"),
    ],
)
def test_what_cannot_be_is_refused_in_one_message(words: str, message: str) -> None:
    answer = run("train", "CartPole-v1", *words.split())
    assert answer.code == 2
    assert message in answer.err
    assert "fix:" in answer.err


def test_a_port_in_use_is_refused_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = run("train", "CartPole-v1", "--coordinator", place, "--process-id", "0", "--processes", "2")
    assert answer.code == 2
    assert f"process 0 cannot listen at --coordinator {place}" in answer.err


def test_objects_of_this_process_are_refused(tmp_path: Path) -> None:
    with pytest.raises(batchwright.UserError, match="callback= is an object of this process"):
        start(tmp_path / "run", processes=2, callback=lambda metrics, view: None)
    with pytest.raises(batchwright.UserError, match="env= is an object of this process"):
        start(tmp_path / "other", env=lambda: gymnasium.make("CartPole-v1"), engine="gymnasium", processes=2)
    assert not (tmp_path / "run").exists()
