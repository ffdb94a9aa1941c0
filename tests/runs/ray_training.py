"""A training of three processes on a Ray cluster of three nodes, through accidents; prints what was seen.

Run by test_ray_processes.py, in namespaces of its own: see tests/tuning/ray_cluster.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tuning"))
from ray_cluster import STORE_BYTES, make_cluster, raise_loopback

SECONDS = 300.0
PROCESSES = rb"batchwright\.process_worker"


def start(words: list[str], cluster: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "batchwright.cli", *words, "--on", "ray", "--address", cluster.address]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def iterations(run: Path) -> int:
    record = run / "metrics.jsonl"
    return record.read_bytes().count(b"\n") if record.exists() else 0


def wait_for(run: Path, count: int, driver: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + SECONDS
    while iterations(run) < count:
        assert driver.poll() is None and time.monotonic() < deadline, f"{iterations(run)} iterations, {driver.poll()}"
        time.sleep(0.005)


def ids(pattern: bytes) -> list[int]:
    """Processes whose command line matches."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            if re.search(pattern, line):
                found.append(int(entry.name))
    return found


def outcome(driver: subprocess.Popen[str], since: float) -> dict[str, Any]:
    _, errors = driver.communicate(timeout=SECONDS)
    return {"code": driver.returncode, "seconds": time.monotonic() - since, "errors": errors.splitlines()}


def worker(number: int) -> int:
    """The process with this number; the one that Ray's actor, or the command itself, has started."""
    (found,) = ids(rb"batchwright\.process_worker \S+ 3 %d " % number)
    return found


def hurt(accident: str, driver: subprocess.Popen[str], cluster: Any) -> None:
    """Lets one thing happen to a training."""
    if accident == "worker":
        os.kill(worker(2), signal.SIGKILL)
    elif accident == "actor":
        os.kill(ids(rb"^ray::Member\.train")[0], signal.SIGKILL)
    elif accident == "node":  # not the head's: an actor waits there for its process
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, include_dashboard=False)
    else:
        driver.send_signal({"Ctrl-C": signal.SIGINT, "driver": signal.SIGKILL}[accident])


def main(folder: Path, accidents: str, words: list[str]) -> None:
    raise_loopback()
    cluster, seen = make_cluster(3), dict[str, Any]()
    for accident in accidents.split(","):
        run = folder / accident
        driver = start([*words, "--run-dir", str(run)], cluster)
        wait_for(run, 6, driver)
        happened = time.monotonic()
        hurt(accident, driver, cluster)
        seen[accident] = outcome(driver, happened) | {"stopped": iterations(run)}
        while ids(PROCESSES) and time.monotonic() - happened < SECONDS:
            time.sleep(0.05)
        seen[accident]["all_ended"] = time.monotonic() - happened
        cluster.wait_for_nodes()
        seen[accident]["resumed"] = outcome(start(["resume", str(run), "--quiet"], cluster), time.monotonic())
        print(accident, seen[accident], file=sys.stderr, flush=True)
    more = ["6" if word == "3" else word for word in words]
    seen["too many"] = outcome(start([*more, "--run-dir", str(folder / "more")], cluster), time.monotonic())
    print(json.dumps(seen), flush=True)
    os._exit(0)  # what is left of the cluster ends with the namespace


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
