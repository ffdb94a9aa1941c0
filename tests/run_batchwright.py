"""How tests ask: a plan on a machine that is always the same, or the command in this process with what it printed."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from dataclasses import dataclass
from typing import Any

import batchwright
from batchwright.cli import main
from batchwright.core.machine import GIB, Machine
from batchwright.planning.plan import Plan

LAPTOP = Machine(cores=8, ram_bytes=32 * GIB, shm_bytes=16 * GIB)


@dataclass(frozen=True)
class Answer:
    """What one run of the command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def plan(**options: Any) -> Plan:
    """A plan on a laptop with 8 cores, 32 GiB and no GPU."""
    return batchwright.plan(**{"machine": LAPTOP, **options})


def run(*words: str) -> Answer:
    """The command with these words."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(words))
        except SystemExit as leaving:  # argparse leaves this way after --help
            code = int(leaving.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


def run_line(line: str) -> Answer:
    """The command as a person types it, without its first word."""
    return run(*shlex.split(line))


def refusal(line: str) -> Answer:
    """The answer to bad input, after checking that it is one message on stderr, exit code 2, and nothing else."""
    answer = run_line(line)
    assert answer.code == 2, f"{line!r} was accepted"
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("error:") == 1
    assert "Traceback" not in answer.err
    return answer
