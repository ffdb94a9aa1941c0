"""Calls the command in one warm process and survives whatever the call does: hangs, exits, crashes.

The process is a fork of this one, which has imported everything and started nothing. It runs one call after the other;
when a call hangs or kills it, the next call gets a fresh fork. Both outputs are taken at the level of file
descriptors, so that what environments and their processes print is seen too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HUNG, DIED, RAISED, TERMINATED = "hung", "died", "raised", "ended by SIGTERM"
SECONDS_TO_STOP = 20.0
"""From SIGTERM to SIGKILL for a call that is over its time."""
SECONDS_BETWEEN_LOOKS = 0.5
MOST_WALL_SECONDS = 1800.0


@dataclass(frozen=True)
class Answer:
    """What one call left behind: its exit code, or HUNG, DIED, RAISED or TERMINATED."""

    code: int | str
    out: str
    err: str
    seconds: float
    stopped: bool = False
    """Whether it was still busy at the end of its time and was asked to stop."""

    @property
    def text(self) -> str:
        return f"{self.out}\n{self.err}"


class Caller:
    """A warm process for calls; `functions` are what it can be asked for besides commands, by name."""

    def __init__(self, folder: Path, functions: dict[str, Callable[..., Any]], memory_bytes: int) -> None:
        self._folder, self._functions, self._memory_bytes = folder, functions, memory_bytes
        self._process = 0
        self._jobs = self._answers = -1

    def command(self, *words: str, seconds: float) -> Answer:
        """`batchwright` with these words."""
        return self._call({"words": list(words)}, seconds)

    def function(self, name: str, *arguments: str, seconds: float) -> Answer:
        """One of the functions; code 2 where it raises a UserError."""
        return self._call({"function": name, "arguments": list(arguments)}, seconds)

    def close(self) -> None:
        """Ends the process and all that it has started."""
        if self._process:
            self._kill()

    def _call(self, job: dict[str, Any], seconds: float) -> Answer:
        if not self._process:
            self._start()
        begin = time.monotonic()
        os.write(self._jobs, json.dumps(job).encode() + b"\n")
        code, stopped = self._wait(seconds), False
        if code is None:
            os.kill(self._process, signal.SIGTERM)
            code, stopped = self._wait(SECONDS_TO_STOP), True
            code = HUNG if code is None else TERMINATED if code == DIED else code
        if code in (HUNG, DIED, TERMINATED):
            self._kill()
        out, err = ((self._folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
        return Answer(code, out, err, time.monotonic() - begin, stopped)

    def _wait(self, seconds: float) -> int | str | None:
        """The code that the process reports; DIED where it ends, None where it says nothing in time.

        Time in which it waits for a core that other programs have does not count.
        """
        begin, before = time.monotonic(), queued_seconds(self._process)
        queued = dict(before)
        while not select.select([self._answers], [], [], min(seconds, SECONDS_BETWEEN_LOOKS))[0]:
            wall = time.monotonic() - begin
            queued |= queued_seconds(self._process)  # threads that have ended since keep what they had
            waited = sum(queued.values()) - sum(before.values())
            if wall - waited > seconds or wall > MOST_WALL_SECONDS:
                return None
        line = os.read(self._answers, 1 << 16)
        return json.loads(line) if line else DIED

    def _start(self) -> None:
        for name in ("stdout", "stderr"):
            (self._folder / name).write_bytes(b"")
        jobs, self._jobs = os.pipe()
        self._answers, answers = os.pipe()
        sys.stdout.flush()
        self._process = os.fork()
        if self._process == 0:
            os.close(self._jobs)
            os.close(self._answers)
            try:
                self._serve(jobs, answers)
            finally:
                os._exit(1)
        os.close(jobs)
        os.close(answers)

    def _kill(self) -> None:
        for end in (self._jobs, self._answers):
            os.close(end)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._process = 0

    def _serve(self, jobs: int, answers: int) -> None:
        os.setsid()
        _die_with_parent()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(self._folder / name, os.O_WRONLY | os.O_APPEND), number)
        _limit(self._memory_bytes)
        os.chdir(self._folder / "cwd")
        with os.fdopen(jobs) as lines:
            for line in lines:
                for number in (1, 2):
                    os.ftruncate(number, 0)
                code = self._run(json.loads(line))
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os.write(answers, json.dumps(code).encode())

    def _run(self, job: dict[str, Any]) -> int | str:
        from batchwright.cli import main
        from batchwright.core.errors import UserError

        np.seterr(all="warn")  # an environment of an earlier call may have changed it
        try:
            if "words" in job:
                return main(job["words"])
            self._functions[job["function"]](*job["arguments"])
            return 0
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        except SystemExit as leaving:  # argparse leaves this way after --help
            return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except BaseException:
            traceback.print_exc()
            return RAISED


def queued_seconds(process: int) -> dict[str, float]:
    """Seconds that each thread of a process and its children was ready to run without a core (proc(5), schedstat)."""
    found: dict[str, float] = {}
    for task in Path(f"/proc/{process}/task").glob("*"):
        try:
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
            children = (task / "children").read_text().split()
        except (OSError, IndexError, ValueError):  # it has ended meanwhile, or this kernel does not count
            continue
        for child in children:
            found |= queued_seconds(int(child))
    return found


def _limit(memory_bytes: int) -> None:
    """Bounds memory, and takes from root the right to read and write everything, so that permissions mean something."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == 0 and sys.platform == "linux":
        drop_override()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def drop_override() -> None:
    """Drops CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of this process (capset(2), version 3)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capget(header, data) == 0:
        for part in (0, 1, 2):  # effective, permitted, inheritable
            data[part] &= ~0b110
        libc.capset(header, data)
