"""Units as Ray tasks: the ledger of one process, whatever happens to nodes, driver and head.

The cluster runs in namespaces of its own (see ray_cluster.py); without Ray or namespaces its test is left out.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_tunings import COMMAND, FIXED, OPTIONS, without_times

import batchwright
from batchwright.core.errors import UserError
from batchwright.tuning.unit_files import pack_run, unpack_run
from run_batchwright import refusal

HAS_RAY = importlib.util.find_spec("ray") is not None
OWN_NAMESPACES = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def namespaces_are_allowed() -> bool:
    try:
        return subprocess.run([*OWN_NAMESPACES, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not HAS_RAY, reason="ray is not installed: pip install 'batchwright[ray]'")
@pytest.mark.skipif(HAS_RAY and not namespaces_are_allowed(), reason="network namespaces are not allowed here")
def test_a_tuning_on_ray_survives_the_loss_of_a_node_the_driver_and_the_head(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    batchwright.tune("CartPole-v1", run_dir=here, quiet=True, **FIXED, **OPTIONS)
    with tempfile.TemporaryDirectory(prefix="bw", dir="/tmp") as home:  # sockets of Ray need short paths
        own = {"HOME": home, "RAY_TMPDIR": home, "RAY_USAGE_STATS_ENABLED": "0", "XDG_CACHE_HOME": str(tmp_path)}
        own |= {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}  # seconds until a driver without a head gives up
        script = [sys.executable, str(Path(__file__).with_name("ray_cluster.py")), str(there)]
        done = subprocess.run(
            [*OWN_NAMESPACES, *script, *COMMAND, "--run-dir", str(there)],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["last_driver"] == 0
    assert seen["driver_after_head_kill"] != 0
    assert seen["units_at_driver_kill"] < seen["units_at_head_kill"] < 23, "the accidents came too late to matter"
    lines = (there / "ledger.jsonl").read_text().splitlines()
    keys = [line["key"] for line in map(json.loads, lines) if line["kind"] == "unit"]
    assert len(set(keys)) == len(keys), "a unit is in the ledger twice"
    assert without_times(there) == without_times(here)


def test_a_packed_run_is_the_run_and_replaces_a_half_written_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints" / "1").mkdir(parents=True)
    (run / "plan.json").write_text("{}")
    (run / "checkpoints" / "1" / "state").write_bytes(b"\x00\x01")
    (run / "elsewhere").symlink_to("/etc/hostname")
    files = pack_run(run)
    assert files == {"plan.json": b"{}", "checkpoints/1/state": b"\x00\x01"}
    other = tmp_path / "other"
    other.mkdir()
    (other / "half-written").write_text("x")
    unpack_run(files, other)
    assert pack_run(other) == files
    with pytest.raises(UserError, match="outside of its run"):
        unpack_run({"../x": b""}, other)
    assert not (tmp_path / "x").exists() and pack_run(other) == files


@pytest.mark.skipif(HAS_RAY, reason="ray is installed")
def test_without_ray_a_cluster_is_refused_with_the_extra() -> None:
    answer = refusal("tune CartPole-v1 --on ray")
    assert "Ray, which is not installed" in answer.err and "batchwright[ray]" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [("--on clouds", "unknown place 'clouds'"), ("--address 10.0.0.1:6379", "--on ray --address 10.0.0.1:6379")],
)
def test_a_place_that_cannot_be_meant_is_refused(words: str, said: str) -> None:
    assert said in refusal(f"tune CartPole-v1 {words}").err


@pytest.mark.skipif(not HAS_RAY, reason="ray is not installed")
def test_where_no_cluster_answers_none_is_started() -> None:
    words = " ".join(word for word in COMMAND if word != "tune")
    answer = refusal(f"tune {words} --on ray --address 127.0.0.1:1")
    assert "no Ray cluster answers at 127.0.0.1:1" in answer.err and "ray start --head" in answer.err
