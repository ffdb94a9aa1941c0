"""Trains runs as tasks of a Ray cluster.

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
from batchwright.runs.ray_cluster import join_cluster
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.runs.versions import other_versions, versions
from batchwright.tuning.executors import FAILED, INTERRUPTED, RunOutcome, train_run
from batchwright.tuning.unit_files import pack_run, unpack_run

MOST_TRIES = 3
"""Of a unit whose worker or node dies: the node may be at fault, or the unit itself."""
_programs = SharedPrograms()
"""Of a worker process of Ray, which trains several units one after the other."""


class RayExecutor:
    """Trains runs as Ray tasks, as many side by side as the cluster has room for, or `workers` at most."""

    def __init__(self, address: str | None = None, workers: int | None = None, cores: int = 1) -> None:
        self._ray, self._most, self._cores = join_cluster(address), workers, cores
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
    if other := other_versions(expected, versions()):
        return {"refused": f"the node {socket.gethostname()} has other versions ({other}): its units differ."}
    plan = json.loads(files["plan.json"])
    os.environ.setdefault(NPROC, str(plan["quantities"]["learner_threads"]["value"]))
    with tempfile.TemporaryDirectory(prefix="batchwright-unit-") as folder:
        run = Path(folder) / name
        unpack_run(files, run)
        outcome = train_run(run, _programs, trust=True)  # asked before, where the tuning was started
        return {"status": outcome.status, "reason": outcome.reason, "seconds": outcome.seconds, "files": pack_run(run)}
