"""The record of a run, one line of metrics per iteration and one line per event; the comparison of two records.

Names of what the machine decides end in `_seconds`, `_per_second`, `_bytes` (memory) or `_use` (utilisation). All other
values of two identical runs are equal to the last digit: floats are written so that reading them gives the same bits.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.core.files import explain_full_disk, free_name_beside
from batchwright.watch.json_lines import (
    NONFINITE,
    JsonLines,
    Lines,
    each_line,
    encode,
    end_of_line_before,
    json_safe,
    parse,
    read_lines,
)

_ITERATION = re.compile(rb'\{"iteration": (\d+)[,}]')
LARGEST_COUNT = 2**53
COUNTERS = ("iteration", "env_steps")
NOT_LOGGED = "(not logged)"
EVALUATION_SECONDS = "evaluation_seconds"
"""Metric of every record with an evaluation, one that failed included."""
ELAPSED_SECONDS = "elapsed_seconds"
"""Metric of every record: since this process began with the run."""
MACHINE_DEPENDENT = ("_seconds", "_per_second", "_bytes", "_use")


class FirstMetrics:
    """Tells of each record in turn whether it has the first of a metric: then a program ran for the first time.

    Those of evaluations do not count: evaluations are priced apart.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    def has_first(self, record: Mapping[str, Any]) -> bool:
        names = {name for name in record if not name.startswith("eval")}
        new = not names <= self._known
        self._known |= names
        return new


class IterationLines(JsonLines):
    """Lines that begin with their iteration, in its order."""

    def cut_after(self, iteration: int) -> int:
        """Drops the lines of later iterations, which a resumed run writes again; returns how many.

        Iterations never descend, so this is one truncation of the file: it is atomic and works on a full disk.
        """
        offset = kept = dropped = 0
        for line in each_line(self.path):
            found = _iteration_of(line)
            if dropped or (found is not None and found > iteration):
                dropped += 1
            else:
                kept = offset + len(line)
            offset += len(line)
        os.ftruncate(self._handle, kept)
        self.sync()
        return dropped

    def put_in_order(self) -> Path | None:
        """Orders lines that were changed from outside; returns where the old file is kept, None where all was well."""
        counts = (found for line in each_line(self.path) if (found := _iteration_of(line)) is not None)
        if all(before <= after for before, after in itertools.pairwise(counts)):
            return None
        kept = self.keep_beside()
        lines = [(found, line) for line in each_line(kept) if (found := _iteration_of(line)) is not None]
        self.append_lines(b"".join(line for _, line in sorted(lines, key=lambda counted: counted[0])))
        return kept

    def keep_beside(self) -> Path:
        """Renames the file to `<name>.<time>.jsonl` and begins an empty one; returns the new name."""
        self.sync()
        kept = free_name_beside(self.path)
        self.path.rename(kept)
        self.close()
        JsonLines.__init__(self, self.path)
        return kept


class MetricLog(IterationLines):
    """`metrics.jsonl`: iterations count up from 0, one line each."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._last = self._last_iteration()

    def record(self, values: Mapping[str, Any]) -> None:
        """Appends the metrics of one iteration; `iteration` and `env_steps` are required and come first."""
        iteration = int(values["iteration"])
        if iteration <= self._last:
            raise ValueError(f"iteration {iteration} after {self._last} in {self.path}: cut_after comes first")
        self.append({"iteration": iteration, "env_steps": values["env_steps"], **values})
        self._last = iteration

    def amend(self, values: Mapping[str, Any]) -> None:
        """Adds values to the last line, in one write: a process killed meanwhile leaves the old line or the new one."""
        end = os.fstat(self._handle).st_size
        start = end_of_line_before(self._handle, end - 1)
        old = os.pread(self._handle, end - start, start)
        before, added = parse(old) or {}, json_safe(values)
        nonfinite = [*before.get(NONFINITE, []), *added.get(NONFINITE, [])]
        line = encode(before | added | ({NONFINITE: nonfinite} if nonfinite else {}))
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        fcntl.fcntl(self._handle, fcntl.F_SETFL, flags & ~os.O_APPEND)  # which sends every write to the end
        try:
            with explain_full_disk(self.path, len(line)):
                if os.pwrite(self._handle, line, start) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except UserError:
            os.ftruncate(self._handle, end)
            os.pwrite(self._handle, old, start)
            raise
        finally:
            fcntl.fcntl(self._handle, fcntl.F_SETFL, flags)

    def cut_after(self, iteration: int) -> int:
        dropped = super().cut_after(iteration)
        self._last = self._last_iteration()
        return dropped

    def keep_beside(self) -> Path:
        kept = super().keep_beside()
        self._last = -1
        return kept

    def _last_iteration(self) -> int:
        """The iteration of the last line that has one; -1 where there is none."""
        end = os.fstat(self._handle).st_size
        while end > 0:
            start = end_of_line_before(self._handle, end - 1)
            found = _iteration_of(os.pread(self._handle, end - start, start))
            if found is not None:
                return found
            end = start
        return -1


class EventLog(JsonLines):
    """`events.jsonl`: warnings, advice, checkpoints, evaluations; each with the wall-clock time."""

    def record(self, kind: str, iteration: int, message: str, **details: Any) -> None:
        """Appends one event; `details` are further values of it."""
        head = {"kind": kind, "iteration": int(iteration), "message": message}
        self.append(head | details | {"unix_seconds": round(time.time(), 3)})


def read_metrics(path: Path) -> Lines:
    """The records of `metrics.jsonl`, a list; `unreadable` counts lines that are torn or lack their counters.

    Every record has a whole `iteration` and a number of `env_steps`; other values may be anything where it is damaged.
    """
    return _keep(read_lines(path), lambda record: all(_is_count(record.get(name)) for name in COUNTERS))


def read_events(path: Path) -> Lines:
    """The events of `events.jsonl`, a list; `unreadable` counts lines that are torn or lack what every event has.

    Every event has a `kind` and a `message`, both text, and a whole `iteration`.
    """
    return _keep(read_lines(path), _is_event)


def is_time_valued(name: str) -> bool:
    """Whether a metric depends on the machine and may differ between two identical runs."""
    return name.endswith(MACHINE_DEPENDENT)


@dataclass(frozen=True)
class Difference:
    """The first difference of two records: its iteration, its metric, and both values."""

    iteration: int
    metric: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"iteration {self.iteration}, {self.metric}: {self.first!r} and {self.second!r}"


def first_difference(
    records_a: Sequence[Mapping[str, Any]], records_b: Sequence[Mapping[str, Any]]
) -> Difference | None:
    """The first value that differs in any digit, machine-dependent metrics aside; None for equal records."""
    for one, other in zip_longest(records_a, records_b):
        if one is None or other is None:
            iteration = (one or other or {})["iteration"]
            values = [NOT_LOGGED if record is None else record["iteration"] for record in (one, other)]
            return Difference(iteration, "iteration", *values)
        for name in dict.fromkeys((*one, *other)):
            first, second = one.get(name, NOT_LOGGED), other.get(name, NOT_LOGGED)
            if repr(first) != repr(second) and not is_time_valued(
                name
            ):  # repr distinguishes 0.0 from -0.0 and equates NaN
                return Difference(min(one["iteration"], other["iteration"]), name, first, second)
    return None


def _iteration_of(line: bytes) -> int | None:
    found = _ITERATION.match(line)
    if found:
        return int(found[1])
    value = (parse(line) or {}).get("iteration")
    return value if type(value) is int else None


def _keep(lines: Lines, is_whole: Callable[[dict[str, Any]], bool]) -> Lines:
    kept = Lines(line for line in lines if is_whole(line))
    kept.unreadable = lines.unreadable + len(lines) - len(kept)
    return kept


def _is_event(event: Mapping[str, Any]) -> bool:
    texts = isinstance(event.get("kind"), str) and isinstance(event.get("message"), str)
    return texts and type(event.get("iteration")) is int


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST_COUNT
