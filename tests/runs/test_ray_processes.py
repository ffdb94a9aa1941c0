"""The processes of one training on a Ray cluster: the bits of local ones, whatever happens to workers, driver and node.

The cluster runs in namespaces of its own (see tests/tuning/ray_cluster.py); without Ray or namespaces its test is left
out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import batchwright
from run_batchwright import refusal
from small_runs import episodes, record

HAS_RAY = importlib.util.find_spec("ray") is not None
OWN_NAMESPACES = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
SETTINGS: dict[str, Any] = {
    "engine": "gymnasium-sync",
    "preset": "none",
    "num_envs": 6,
    "rollout_steps": 8,
    "epochs": 2,
    "hidden": "8,8",
    "total_steps": 48 * 200,
    "checkpoint_every": 4,
    "eval_every": 0,
    "eval_episodes": 2,
    "normalize_obs": True,
    "processes": 3,
}
CODES = {"worker": 2, "actor": 2, "node": 2, "Ctrl-C": 130, "driver": -9}
"""Exit codes of the command, by what happens to its training."""


def words() -> list[str]:
    named = [(f"--{name.replace('_', '-')}", value) for name, value in SETTINGS.items()]
    return [text for flag, value in named for text in ([flag] if value is True else [flag, str(value)])]


def namespaces_are_allowed() -> bool:
    try:
        return subprocess.run([*OWN_NAMESPACES, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not HAS_RAY, reason="ray is not installed: pip install 'batchwright[ray]'")
@pytest.mark.skipif(HAS_RAY and not namespaces_are_allowed(), reason="network namespaces are not allowed here")
def test_a_training_on_ray_has_the_bits_of_local_processes_whatever_dies(tmp_path: Path) -> None:
    local = batchwright.train("CartPole-v1", run_dir=tmp_path / "local", quiet=True, **SETTINGS).run_dir
    with tempfile.TemporaryDirectory(prefix="bw", dir="/tmp") as home:  # sockets of Ray need short paths
        own = {"HOME": home, "RAY_TMPDIR": home, "RAY_USAGE_STATS_ENABLED": "0", "XDG_CACHE_HOME": str(tmp_path)}
        own |= {"RAY_worker_niceness": "0"}  # 15 otherwise: processes 1 and 2 would wait for whatever else runs
        script = [sys.executable, str(Path(__file__).with_name("ray_training.py")), str(tmp_path), ",".join(CODES)]
        done = subprocess.run(
            [*OWN_NAMESPACES, *script, "train", "CartPole-v1", *words(), "--quiet"],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    messages = {
        "worker": "error: process 2 of 3 was ended by SIGKILL; the others were stopped.",
        "actor": "error: process ",
        "node": "error: process ",
        "Ctrl-C": "",
        "driver": "",
    }
    for name, message in messages.items():
        found, run = seen[name], tmp_path / name
        assert found["code"] == CODES[name], (name, found)
        assert found["seconds"] < 30 and found["all_ended"] < 30, (name, found)
        assert found["stopped"] < len(record(local)), f"{name} came too late to matter"
        said = [line for line in found["errors"] if line.startswith(("error:", "  fix:"))]
        if message:
            assert len(said) == 2 and said[0].startswith(message), (name, said)
            assert said[1].startswith(f"  fix: batchwright resume {run} --on ray --address "), (name, said)
        if name in ("actor", "node"):
            assert "is lost (its node " in said[0] or "a process lost the others" in said[0]
        assert found["resumed"]["code"] == 0, found["resumed"]
        assert record(run) == record(local), name
        assert episodes(run) == episodes(local), name
    assert seen["too many"]["code"] == 2
    assert "6 processes with a CPU each: the Ray cluster has 3 in 3 nodes." in " ".join(seen["too many"]["errors"])
    assert not (tmp_path / "more").exists()


@pytest.mark.skipif(HAS_RAY, reason="ray is installed")
def test_without_ray_a_cluster_is_refused_with_the_extra() -> None:
    answer = refusal("train CartPole-v1 --processes 2 --on ray")
    assert "Ray, which is not installed" in answer.err and "batchwright[ray]" in answer.err


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("--processes 2 --on clouds", "unknown place 'clouds'"),
        ("--processes 2 --address 10.0.0.1:6379", "--on ray --address 10.0.0.1:6379"),
        ("--on ray --coordinator 127.0.0.1:7654 --process-id 0 --processes 2", "places processes itself"),
    ],
)
def test_a_place_that_cannot_be_meant_is_refused(said: str, message: str) -> None:
    assert message in refusal(f"train CartPole-v1 {said}").err


@pytest.mark.skipif(not HAS_RAY, reason="ray is not installed")
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("--on ray", "and this run has one"),
        ("--processes 2 --on ray --address ray://127.0.0.1:10001", "a client's way into a cluster from outside"),
        ("--processes 2 --on ray --address 127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
    ],
)
def test_a_cluster_that_cannot_serve_is_refused_and_nothing_stays(said: str, message: str, tmp_path: Path) -> None:
    where = tmp_path / "run"
    assert message in refusal(f"train CartPole-v1 --engine gymnasium-sync --num-envs 2 --run-dir {where} {said}").err
    assert not where.exists()
