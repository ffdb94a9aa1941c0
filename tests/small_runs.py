"""Runs that take a second: tiny networks, short rollouts, one way to read their record."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import batchwright
from batchwright.runs.launch import Result
from batchwright.watch.metric_log import is_time_valued, read_metrics

FAULTY = str(Path(__file__).with_name("faulty_envs.py"))
SMALL = {
    "env": "CartPole-v1",
    "engine": "jax",
    "num_envs": 4,
    "rollout_steps": 16,
    "minibatches": 2,
    "epochs": 2,
    "hidden": "8",
    "eval_every": 0,
    "eval_episodes": 2,
    "total_steps": 64 * 12,
    "checkpoint_every": 100,
}


def start(folder: Path, **changes: Any) -> Result:
    """A small run, trained to its end unless something stops it."""
    return batchwright.train(run_dir=folder, quiet=True, **(SMALL | changes))


def record(run: Path, leave_out: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """All that a run logged, times and the named metrics aside."""
    return [
        {name: value for name, value in line.items() if not is_time_valued(name) and not name.startswith(leave_out)}
        for line in read_metrics(run / "metrics.jsonl")
    ]


def episodes(run: Path) -> bytes:
    """The record of episodes: nothing in it depends on the machine, so that equal runs have equal bytes."""
    found = (run / "episodes.jsonl").read_bytes()
    assert found, "no episode ended: nothing to compare"
    return found


def lines(run: Path) -> int:
    """Iterations that have been logged so far."""
    path = run / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


class TerminatedAfter:
    """Sends this process a SIGTERM as soon as a run has logged so many iterations."""

    def __init__(self, run: Path, iterations: int) -> None:
        self._run, self._iterations = run, iterations
        self._gone = threading.Event()

    def __enter__(self) -> None:
        # Whatever comes too late must not end the tests.
        self._before = signal.signal(signal.SIGTERM, lambda number, frame: None)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._gone.is_set():
            if lines(self._run) >= self._iterations:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            time.sleep(0.0005)

    def __exit__(self, *error: object) -> None:
        self._gone.set()
        self._thread.join()
        signal.signal(signal.SIGTERM, self._before)
