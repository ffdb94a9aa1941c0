"""Starts the processes of one training and watches them: one that dies ends the others, with one message."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from batchwright.core.errors import UserError, unknown
from batchwright.runs.ray_cluster import load_ray

PEER_LOST = 75
"""Exit code of a process that ended because another one did."""
LOST = 76
"""Exit code of a process whose machine, or whose way there, is gone."""
ABORTED = -signal.SIGABRT
"""How JAX ends a process whose coordinator is gone."""
INTERRUPTED = 130
LOCAL, RAY = "local", "ray"
PLACES = (LOCAL, RAY)
LOOPBACK = "127.0.0.1"
WORKER = "batchwright.process_worker"
RUN_FILE, NATIVE_LOG, ERRORS = "run", "native-{}.log", "errors-{}.log"
"""Files of the folder that a parent and its processes share: the run's path, what libraries print, error messages."""
PRINTED = " It printed last: "
POLL_SECONDS = 0.05
GRACE_SECONDS = 3.0
"""What the others are given to end by themselves, after one has ended badly."""
_is_worker = False


@dataclass(frozen=True)
class ProcessPlace:
    """Which processes of a training are started here, and where the first one listens."""

    coordinator: str
    processes: int
    here: tuple[int, ...]
    """Numbers of the processes that this command starts."""
    again: str = ""
    """What `batchwright resume RUN` needs besides to start them in the same place."""

    @property
    def is_whole(self) -> bool:
        """Whether all processes are started here."""
        return len(self.here) == self.processes


class Child(Protocol):
    """A process that is watched: `subprocess.Popen`, or one on another machine."""

    @property
    def stdin(self) -> Any: ...

    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def wait(self) -> int: ...
    def send_signal(self, number: int) -> None: ...


class DistantChild(Child, Protocol):
    """A process on another machine; `start` starts it."""

    def start(self, words: Sequence[str], place: ProcessPlace, number: int, folder: Path) -> None: ...


class ProcessesFailed(UserError):  # noqa: N818 - a kind of UserError, named after what happened
    """The processes of a training ended; `code` is the exit code, and `said` whether they have printed why."""

    def __init__(self, message: str, fixes: Sequence[str], code: int, said: bool) -> None:
        super().__init__(message, fixes)
        self.code, self.said = code, said


def is_worker() -> bool:
    """Whether this process is one of several that train together."""
    return _is_worker


def mark_worker() -> None:
    global _is_worker  # noqa: PLW0603 - set once, before the command of a worker begins
    _is_worker = True


def local_place(processes: int) -> ProcessPlace:
    """All processes on this machine, on the loopback interface."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return ProcessPlace(f"{LOOPBACK}:{found.getsockname()[1]}", processes, tuple(range(processes)))


def launched_place(coordinator: str | None, process_id: str | None, processes: int | None) -> ProcessPlace | None:
    """The one process that a launcher starts here; None where no launcher is at work."""
    if coordinator is None and process_id is None:
        return None
    together = "--coordinator HOST:PORT --process-id K --processes N"
    for flag, value in (("--coordinator", coordinator), ("--process-id", process_id), ("--processes", processes)):
        if value is None:
            raise UserError(f"{flag} is missing: a launcher states all three for every process.", [together])
    assert coordinator is not None and process_id is not None and processes is not None
    host, _, port = coordinator.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise UserError(f"--coordinator {coordinator[:80]} is not HOST:PORT.", ["--coordinator 127.0.0.1:7654"])
    if not (process_id.isascii() and process_id.isdigit() and int(process_id) < processes):
        raise UserError(
            f"--process-id {process_id[:20]} is none of {processes} processes: they are numbered from 0.",
            [f"--process-id {processes - 1}", f"--processes {processes + 1}"],
        )
    return ProcessPlace(coordinator, processes, (int(process_id),))


def refuse_place(on: str | None, address: str | None, processes: int | None = None) -> bool:
    """Whether the processes of a run are placed on Ray; refuses places that cannot be meant."""
    if on not in (None, *PLACES):
        raise unknown("place", str(on), PLACES, "--on")
    if address is not None and on != RAY:
        raise UserError("--address is that of a Ray cluster.", [f"--on ray --address {address}"])
    if on == RAY:
        load_ray()  # refused before anything is measured
    if on == RAY and processes is not None and processes < 2:
        raise UserError(
            "--on ray places the processes of one training on a cluster, and this run has one.",
            ["--processes N", "leave out --on ray", "batchwright tune ENV --on ray trains many runs"],
        )
    return on == RAY


def refuse_port(coordinator: str) -> None:
    """Refuses an address that the first process cannot listen at."""
    host, _, port = coordinator.rpartition(":")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
    except OSError as error:
        raise UserError(
            f"process 0 cannot listen at --coordinator {coordinator}: {error.strerror or error}.",
            ["state an address of this machine and a port that is free"],
        ) from None


def run_processes(
    words: Sequence[str],
    place: ProcessPlace,
    elsewhere: Mapping[int, DistantChild] | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Runs a command in every process that belongs here, to their end; raises `ProcessesFailed` where one fails.

    `elsewhere` are those that run on other machines; `variables` are added to the environment of those that run here.
    """
    if 0 in place.here:
        refuse_port(place.coordinator)
    folder = Path(tempfile.mkdtemp(prefix="batchwright-processes-"))
    children: dict[int, Child] = {}
    try:
        for number in place.here:
            if elsewhere is not None and number in elsewhere:
                elsewhere[number].start(words, place, number, folder)
                children[number] = elsewhere[number]
            else:
                children[number] = start(words, place, number, folder, variables)
        with _forwarded_signals(children):
            codes = _watch(children)
        _judge(codes, place, folder)
    finally:
        for child in children.values():
            end_child(child)
        shutil.rmtree(folder, ignore_errors=True)


def start(
    words: Sequence[str], place: ProcessPlace, number: int, folder: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts one process on this machine; what it writes stays in the folder, that of process 0 is shown."""
    # A session of its own: Ctrl-C reaches it through its parent alone, once. Its input closes when the parent dies.
    host = place.coordinator.rpartition(":")[0]
    bind = LOOPBACK if host in (LOOPBACK, "localhost") else "-"
    about = [place.coordinator, str(place.processes), str(number), str(folder), bind]
    command = [sys.executable, "-m", WORKER, *about, *words]
    with contextlib.ExitStack() as opened:
        out: Any = subprocess.DEVNULL
        err: Any = opened.enter_context((folder / ERRORS.format(number)).open("wb"))
        if number == 0:
            out, err = _stream(sys.stdout), _stream(sys.stderr)
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": out, "stderr": err}
        around = {**os.environ, **variables} if variables else None
        child = subprocess.Popen(command, **streams, env=around, start_new_session=True)
    for pipe, stream in ((child.stdout, sys.stdout), (child.stderr, sys.stderr)):
        if pipe is not None:
            threading.Thread(target=_copy, args=(pipe, stream), daemon=True).start()
    return child


def _stream(stream: Any) -> Any:
    """The file of a stream; a pipe where it has none, as in a notebook."""
    with contextlib.suppress(Exception):
        stream.flush()
        return stream.fileno()
    return subprocess.PIPE


def _copy(pipe: IO[bytes], stream: Any) -> None:
    for line in pipe:
        stream.write(line.decode(errors="replace"))


@contextlib.contextmanager
def _forwarded_signals(children: dict[int, Child]) -> Iterator[None]:
    """Ctrl-C and SIGTERM go to every process: all of them agree on the iteration to stop after."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def forward(number: int, frame: Any) -> None:
        for child in children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(children: dict[int, Child]) -> dict[int, int]:
    """Waits for all processes; once one has failed, the others have a few seconds. Returns exit codes by number."""
    failed_at: float | None = None
    while True:
        codes = {number: code for number, child in children.items() if (code := child.poll()) is not None}
        if len(codes) == len(children):
            return codes
        if failed_at is None and any(code not in (0, INTERRUPTED) for code in codes.values()):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > GRACE_SECONDS:
            for number in children.keys() - codes.keys():
                children[number].kill()
                codes[number] = PEER_LOST
                children[number].wait()
            return codes
        time.sleep(POLL_SECONDS)


def _judge(codes: dict[int, int], place: ProcessPlace, folder: Path) -> None:
    """Raises where processes failed: what they said themselves, or which one died."""
    if all(code == 0 for code in codes.values()):
        return
    causes = {number: code for number, code in codes.items() if code not in (0, PEER_LOST, ABORTED)}
    fixes = _resume_fix(place, folder)
    if not causes:
        text = "another process of this training has ended" if not place.is_whole else "a process lost the others"
        who = f"process {place.here[0]}" if not place.is_whole else "they"
        raise ProcessesFailed(f"{text}; {who} cannot go on alone.", fixes, 2, said=False)
    # A lost machine, or a signal, comes before what it led to.
    number = min(causes, key=lambda one: (causes[one] != LOST, causes[one] > 0, one))
    code = causes[number]
    if code == LOST:
        reason = _last_lines(folder / ERRORS.format(number), 1).removeprefix(PRINTED)
        text = f"process {number} of {place.processes} is lost ({reason}); the others were stopped."
        raise ProcessesFailed(text, fixes, 2, said=False)
    if code < 0:
        name = signal.Signals(-code).name
        others = "; the others were stopped" if len(codes) > 1 else ""
        last = _last_lines(folder / NATIVE_LOG.format(number)) if code != -signal.SIGKILL else ""
        raise ProcessesFailed(
            f"process {number} of {place.processes} was ended by {name}{others}.{last}", fixes, 2, said=False
        )
    if number:  # what a silent process wrote before it failed
        with contextlib.suppress(OSError):
            sys.stderr.write((folder / ERRORS.format(number)).read_text(errors="replace"))
    raise ProcessesFailed(f"process {number} of {place.processes} ended with exit code {code}.", fixes, code, said=True)


def _resume_fix(place: ProcessPlace, folder: Path) -> list[str]:
    """How to go on, where the run is known and lies here."""
    with contextlib.suppress(OSError):
        run = (folder / RUN_FILE).read_text()
        more = place.again if place.is_whole else " --coordinator ... in all processes"
        return [f"batchwright resume {run}{more}"]
    return ["see what the others printed; then batchwright resume RUN in all of them"] if not place.is_whole else []


def _last_lines(log: Path, count: int = 3) -> str:
    with contextlib.suppress(OSError):
        lines = [line.strip()[:200] for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if lines:
            return PRINTED + " | ".join(lines[-count:])
    return ""


def end_child(child: Child) -> None:
    if child.poll() is None:
        child.kill()
        child.wait()
    if child.stdin is not None:
        child.stdin.close()


def tell_run(folder: str, run: os.PathLike[str]) -> None:
    """Tells the parent where the run lies."""
    with contextlib.suppress(OSError):
        (Path(folder) / RUN_FILE).write_text(str(run))
