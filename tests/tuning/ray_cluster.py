"""A tuning on a Ray cluster of three nodes through three accidents; prints what was seen. Run by test_ray_executor.py.

Ray listens on every interface and leaves processes behind when it is killed. So this runs in namespaces of its own:
a network that has nothing but loopback, and processes that end with this one.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STORE_BYTES = 80 * 1024**2


def raise_loopback() -> None:
    """Brings lo up; refuses to go on where the network holds anything else."""
    assert [name for _, name in socket.if_nameindex()] == ["lo"], "not in a network namespace of its own"
    set_flags, up_and_running = 0x8914, 0x1 | 0x40  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, set_flags, struct.pack("16sh", b"lo", up_and_running))


def make_cluster(nodes: int) -> Any:
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for _ in range(nodes):
        cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, include_dashboard=False)
    cluster.wait_for_nodes()
    return cluster


def start(words: list[str], cluster: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "batchwright.cli", *words, "--on", "ray", "--address", cluster.address]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def units(ledger: Path) -> int:
    return ledger.read_bytes().count(b'"kind": "unit"') if ledger.exists() else 0


def wait_for_units(ledger: Path, count: int, driver: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while units(ledger) < count:
        assert driver.poll() is None and time.monotonic() < deadline, f"{units(ledger)} units, driver {driver.poll()}"
        time.sleep(0.005)


def main(folder: Path, words: list[str]) -> None:
    raise_loopback()
    ledger, seen = folder / "ledger.jsonl", {}
    cluster = make_cluster(3)
    driver = start(words, cluster)
    wait_for_units(ledger, 2, driver)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)  # SIGKILL
    wait_for_units(ledger, 6, driver)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    seen["units_at_driver_kill"] = units(ledger)
    driver = start(["tune", "--resume", str(folder)], cluster)
    wait_for_units(ledger, 10, driver)
    cluster.remove_node(cluster.head_node, allow_graceful=False)
    seen["units_at_head_kill"] = units(ledger)
    seen["driver_after_head_kill"] = driver.wait(timeout=120)
    cluster = make_cluster(3)
    seen["last_driver"] = start(["tune", "--resume", str(folder)], cluster).wait()
    print(json.dumps(seen), flush=True)
    os._exit(0)  # what is left of the clusters ends with the namespace


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
