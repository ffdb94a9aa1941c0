"""Reports of runs, and messages while they are made."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


def report(*runs: str | Path, out: str | Path | None = None) -> Path:
    """Writes one page about runs that opens without a connection; returns where it lies. Runs no code of a run.

    Runs that differ in nothing but the seed are drawn together. One run's report goes into the run where `out` is not
    stated; only a report of ours is replaced.
    """
    from batchwright.web.report import write_report

    return write_report(runs, out)


def leave_report(run: str | Path, stream: TextIO) -> None:
    """The report of a run, named on the screen. Best effort: it can be made again from the record."""
    try:
        message = f"report: {report(run)}"
    except Exception as error:
        message = f"warning: no report was written: {error}"
    with contextlib.suppress(OSError, ValueError):  # the reader went away
        print(message, file=stream, flush=True)


def message_printer(quiet: bool) -> Callable[[str], None]:
    """Prints a message at once; nothing where it should be quiet."""
    return _say_nothing if quiet else _print_now


def _print_now(message: str) -> None:
    print(message, flush=True)


def _say_nothing(message: str) -> None:
    """For a quiet run."""
