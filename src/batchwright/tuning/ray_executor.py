"""Trains runs as tasks of a Ray cluster. Ray is an extra, imported here alone.

A task gets the files of a run and returns them trained: nodes need no common disk, and a task that is run again after
its node died starts from the same files. The ledger stays with the process that started the tuning.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.runs.learner_threads import NPROC
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.runs.versions import versions
from batchwright.tuning.executors import FAILED, INTERRUPTED, RunOutcome, train_run
from batchwright.tuning.unit_files import pack_run, unpack_run

MOST_TRIES = 3
"""Of a unit whose worker or node dies: the node may be at fault, or the unit itself."""
MAKE_CLUSTER = "ray start --head"
KNOCK_SECONDS = 10.0
_programs = SharedPrograms()
"""Of a worker process of Ray, which trains several units one after the other."""


def load_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UserError(
            "--on ray needs Ray, which is not installed.", ["pip install 'batchwright[ray]'", "--on local"]
        ) from None
    return ray


class RayExecutor:
    """Trains runs as Ray tasks, as many side by side as the cluster has room for, or `workers` at most."""

    def __init__(self, address: str | None = None, workers: int | None = None, cores: int = 1) -> None:
        self._ray, self._most, self._cores = load_ray(), workers, cores
        _connect(self._ray, address)
        # Tries are counted here: Ray cannot tell a unit that kills its worker from a node that went away.
        self._task = self._ray.remote(num_cpus=cores, max_retries=0)(train_packed)
        if not self._room():
            self.close()
            raise UserError(f"no node of the Ray cluster has the {cores} cores that a unit needs.", ["add a node"])

    @property
    def slots(self) -> int:
        return max(1, self._room())

    def execute(self, runs: Iterable[Path]) -> Iterator[RunOutcome]:
        waiting, running = iter(runs), dict[Any, tuple[Path, int]]()
        try:
            while True:
                while len(running) < self.slots and (run := next(waiting, None)) is not None:
                    running[self._start(run)] = (run, 1)
                if not running:
                    return
                done, _ = self._ray.wait(list(running), timeout=5.0)  # a node that joins is used within so many seconds
                for task in done:
                    run, tries = running.pop(task)
                    outcome = self._finish(task, run, tries)
                    if outcome is None:
                        running[self._start(run)] = (run, tries + 1)
                    else:
                        yield outcome
        except KeyboardInterrupt:
            yield from (RunOutcome(run, INTERRUPTED) for run, _ in running.values())
        finally:
            for task in running:
                self._ray.cancel(task, force=True)

    def close(self) -> None:
        self._ray.shutdown()

    def _room(self) -> int:
        """Units that the cluster has cores for, node by node."""
        nodes = [node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]]
        room = sum(int(cores // self._cores) for cores in nodes)
        return room if self._most is None else min(room, self._most)

    def _start(self, run: Path) -> Any:
        return self._task.remote(pack_run(run), run.name, versions())

    def _finish(self, task: Any, run: Path, tries: int) -> RunOutcome | None:
        """The outcome of a task; None where it shall be tried again."""
        try:
            answer = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            if tries < MOST_TRIES:
                return None
            return RunOutcome(run, FAILED, f"its worker died {tries} times: {str(error).splitlines()[0]}")
        if "refused" in answer:
            raise UserError(answer["refused"], ["install the same versions on every node", "--on local"])
        if (
            answer["status"] == INTERRUPTED and tries < MOST_TRIES
        ):  # its node is being stopped; nobody stopped the tuning
            return None
        unpack_run(answer["files"], run)
        return RunOutcome(run, answer["status"], answer["reason"], answer["seconds"])


def train_packed(files: dict[str, bytes], name: str, expected: dict[str, str]) -> dict[str, Any]:
    """Trains a packed run on a node: {"status", "reason", "seconds", "files"}, or {"refused"} for other versions."""
    here = versions()
    other = [
        f"{package} {here[package]}, not {wanted}" for package, wanted in expected.items() if here[package] != wanted
    ]
    if other:
        return {
            "refused": f"the node {socket.gethostname()} has other versions ({', '.join(other)}): its units differ."
        }
    plan = json.loads(files["plan.json"])
    os.environ.setdefault(NPROC, str(plan["quantities"]["learner_threads"]["value"]))
    with tempfile.TemporaryDirectory(prefix="batchwright-unit-") as folder:
        run = Path(folder) / name
        unpack_run(files, run)
        outcome = train_run(run, _programs, trust=True)  # asked before, where the tuning was started
        return {"status": outcome.status, "reason": outcome.reason, "seconds": outcome.seconds, "files": pack_run(run)}


def _connect(ray: Any, address: str | None) -> None:
    """Joins a cluster that runs; none is started, because what Ray starts listens to the network."""
    where = address or os.environ.get("RAY_ADDRESS") or "auto"
    try:
        _knock(where)
        ray.init(address=where, log_to_driver=False, logging_level="ERROR", namespace="batchwright")
    except (OSError, RuntimeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"no Ray cluster answers at {where}: {reason}", [MAKE_CLUSTER, "--address HOST:6379", "--on local"]
        ) from None


def _knock(where: str) -> None:
    """Raises where nothing listens at HOST:PORT: Ray itself would try for many minutes."""
    host, colon, port = where.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
