"""Executors train prepared run directories: in this process, or in local worker processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from batchwright.core.errors import UserError
from batchwright.nets.policy import NetworkMaker
from batchwright.regimes import make_learner
from batchwright.runs.launch import continue_run
from batchwright.runs.loop import DivergedError
from batchwright.runs.recorder import OutputOptions
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.runs.start_state import StartOptions

FINISHED, DIVERGED, FAILED, INTERRUPTED = "finished", "diverged", "failed", "interrupted"


@dataclass(frozen=True)
class RunOutcome:
    """How the training of one run directory ended."""

    run: Path
    status: str
    """`finished`, `diverged`, `failed` or `interrupted`."""
    reason: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "run": str(self.run)}


class Executor(Protocol):
    """Trains runs that lie prepared in their directories; one that is finished already is not trained again."""

    @property
    def slots(self) -> int:
        """Runs that are trained side by side."""

    def execute(self, runs: Iterable[Path]) -> Iterator[RunOutcome]:
        """The outcomes in order of completion; the next run is asked for when there is room for it.

        Ends early after an interruption.
        """

    def close(self) -> None: ...


def train_run(
    run: Path,
    programs: SharedPrograms,
    writers: tuple[str, ...] = (),
    network: NetworkMaker | None = None,
    trust: bool = False,
) -> RunOutcome:
    """Trains one run directory to its end; what goes wrong in it is an outcome, not an error."""
    start = time.perf_counter()
    status, reason = FINISHED, ""
    try:
        options = OutputOptions(quiet=True, writers=writers, stream=io.StringIO())
        make = partial(make_learner, programs=programs, network=network)
        if continue_run(run, make, options, StartOptions(trust=trust)).interrupted:
            status = INTERRUPTED
    except KeyboardInterrupt:
        status = INTERRUPTED
    except DivergedError as error:
        status, reason = DIVERGED, str(error)
    except UserError as error:
        status, reason = FAILED, error.message
    except Exception as error:  # an environment may raise anything; other units go on
        status, reason = FAILED, f"{type(error).__name__}: {error}"
    return RunOutcome(run, status, reason, time.perf_counter() - start)


class InProcessExecutor:
    """Trains one run after the other in this process, which compiles every program once."""

    slots = 1

    def __init__(self, writers: tuple[str, ...] = (), network: NetworkMaker | None = None, trust: bool = False) -> None:
        self.programs, self._writers, self._network, self._trust = SharedPrograms(), writers, network, trust

    def execute(self, runs: Iterable[Path]) -> Iterator[RunOutcome]:
        for run in runs:
            outcome = train_run(run, self.programs, self._writers, self._network, self._trust)
            yield outcome
            if outcome.status == INTERRUPTED:
                return

    def close(self) -> None:
        self.programs = SharedPrograms()


FIRST_LOOK_SECONDS = 0.05
"""Between two looks whether the first run has compiled."""


class WorkerExecutor:
    """Trains runs in worker processes. Ctrl-C saves what they train.

    Where compiled programs are kept on disk, the first run begins alone: XLA uses all cores to compile it, and the
    other workers load what it compiled. Otherwise each worker compiles everything.
    """

    def __init__(self, workers: int, writers: tuple[str, ...] = (), trust: bool = False) -> None:
        self._outcomes: queue.Queue[tuple[_Worker, RunOutcome]] = queue.Queue()
        options = {"writers": writers, "trust": trust}
        self._workers = [_Worker(self._outcomes, options) for _ in range(workers)]
        self._keeps_programs = bool(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
        self._first_run: Path | None = None

    @property
    def slots(self) -> int:
        return len(self._workers)

    def execute(self, runs: Iterable[Path]) -> Iterator[RunOutcome]:
        waiting, idle = iter(runs), list(self._workers)
        while True:
            alone = self._first_run_compiles(idle)
            while idle and not alone and (run := next(waiting, None)) is not None:
                idle.pop(0).train(run)
                self._first_run = self._first_run or run
                if alone := self._first_run_compiles(idle):
                    for worker in idle:  # they import their libraries meanwhile
                        worker.start()
            if len(idle) == len(self._workers):
                return
            try:
                worker, outcome = self._outcomes.get(timeout=FIRST_LOOK_SECONDS if alone else None)
            except queue.Empty:
                continue
            except KeyboardInterrupt:
                waiting = iter(())
                for one in self._workers:
                    one.interrupt()
                continue
            idle.append(worker)
            if outcome.status == INTERRUPTED:
                waiting = iter(())
            yield outcome

    def _first_run_compiles(self, idle: list[_Worker]) -> bool:
        """Whether the first run of all is being trained and has made no iteration so far."""
        if not self._keeps_programs or self._first_run is None or len(idle) < len(self._workers) - 1:
            return False
        return any(worker.run == self._first_run for worker in self._workers) and not has_records(self._first_run)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


class _Worker:
    """One worker process; started for its first run, and again after it has died."""

    def __init__(self, outcomes: queue.Queue[tuple[_Worker, RunOutcome]], options: dict[str, Any]) -> None:
        self._outcomes, self._options = outcomes, options
        self._process: subprocess.Popen[bytes] | None = None
        self.run: Path | None = None
        """What it trains now."""

    def start(self) -> subprocess.Popen[bytes]:
        """Its process, which lives on from run to run."""
        return self._process if self._process is not None and self._process.poll() is None else self._begin()

    def train(self, run: Path) -> None:
        process = self.start()
        self.run = run
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died: the reader reports it
            process.stdin.write(json.dumps({"run": str(run), **self._options}).encode() + b"\n")
            process.stdin.flush()

    def interrupt(self) -> None:
        if self.run is not None and self._process is not None:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()

    def _begin(self) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C reaches the workers through `interrupt` alone, once.
        command = [sys.executable, "-m", "batchwright.tuning.unit_worker"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._process = process
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            self._report(RunOutcome(**{**found, "run": Path(found["run"])}))
        code = process.wait()
        if self.run is not None:
            self._report(RunOutcome(self.run, FAILED, f"its worker process ended with exit code {code}"))

    def _report(self, outcome: RunOutcome) -> None:
        self.run = None
        self._outcomes.put((self, outcome))


def has_records(run: Path) -> bool:
    """Whether a run has recorded an iteration."""
    metrics = run / "metrics.jsonl"
    return metrics.exists() and metrics.stat().st_size > 0


def make_executor(
    workers: int = 1, writers: tuple[str, ...] = (), network: NetworkMaker | None = None, trust: bool = False
) -> InProcessExecutor | WorkerExecutor:
    """An executor of so many runs side by side; `trust` lets the code run that strange runs name."""
    if workers == 1:
        return InProcessExecutor(writers, network, trust)
    if network is not None:
        raise UserError("a network of your own cannot be passed to worker processes.", ["workers=1"])
    return WorkerExecutor(workers, writers, trust)


def end_with_parent(lines: queue.Queue[str]) -> None:
    """Passes lines of standard input on; ends the process when it is closed, so that no worker outlives its parent."""
    for line in sys.stdin:
        lines.put(line.rstrip("\n"))
    os._exit(0)
