"""The progress display: a live line on a terminal, few plain lines elsewhere, only warnings and the result if quiet."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

from batchwright.planning.plan import Plan
from batchwright.planning.quantity import counted
from batchwright.watch.curve import learning_curve
from batchwright.watch.lines import (
    CLASSIC,
    PLAIN,
    RETURN,
    batch_configuration,
    batch_header,
    batch_line,
    duration,
    evaluation_line,
    iteration_line,
    more_than_requested,
    rollout_header,
)
from batchwright.watch.metric_log import FirstMetrics
from batchwright.watch.statistics import MovingStatistics, is_finite_number

BATCH_LINES = 30
"""Batch lines of a whole run; with the first, the last and the status lines about 40."""
STATUS_LINES = 10
STATUS_EVERY_SECONDS = 2.0
"""Seconds between two status lines, so that short runs have none."""
LIVE_EVERY_SECONDS = 0.2
RATE_ITERATIONS = 50
"""The ETA is computed over this many iterations."""
LEAST_BAR = 6
COLOURS = {"warning": 33, "doctor": 36}
"""ANSI codes of the words that messages begin with."""
_CLEAR = "\r\x1b[2K"


class Progress:
    """The display of one run. When its stream breaks, it stops printing; training goes on."""

    def __init__(
        self,
        plan: Plan,
        stream: TextIO | None = None,
        *,
        quiet: bool = False,
        plain: bool = False,
        lines: str = PLAIN,
        total_iterations: int | None = None,
        past: Iterable[Mapping[str, Any]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`past` are the records before a resume, so that moving averages and the curve continue; `lines` is one of
        `LINES`."""
        self.plan = plan
        self.quiet, self._classic = quiet, lines == CLASSIC
        self._stream = sys.stdout if stream is None else stream
        self._live = not plain and not quiet and _is_terminal(self._stream)
        self._total = total_iterations if total_iterations is not None else plan.get("iterations")
        self._clock = clock
        self._moving = MovingStatistics()
        self._steps, self._returns = array("d"), array("d")
        self._pace: deque[tuple[float, float, int]] = deque(maxlen=RATE_ITERATIONS)
        self._metrics = FirstMetrics()
        self._warming = bool(plan.get("warmup_steps"))  # steps before the first update are faster than those after it
        self._surplus_steps = 0
        self._milestone, self._status_milestone = -1, 0
        self._status_time = clock()
        self._next_live = 0.0
        self._shown = False  # whether a live line is on the terminal
        self._silent = False
        self._unshown = ""  # the last batch line if it was not printed; printed when the run ends early
        self._past_steps = 0  # of the processes before a resume, whose time is not counted here
        for record in past:
            self._add(record)
            self._past_steps = record["env_steps"]

    def header(self, run_dir: object, *lines: str) -> None:
        """Prints the batch configuration, the run directory, further lines, and the description of a batch.

        Where much more than the requested steps will be made, that is said even when quiet.
        """
        if not self.quiet:
            first = [batch_configuration(self.plan)] if self._classic else []
            about = batch_header(self.plan) if self._classic else rollout_header(self.plan)
            self._print("\n".join([*first, f"run directory: {run_dir}", *map(self._coloured, lines), "", about, ""]))
        more = more_than_requested(self.plan)
        if more and not lines:  # a resumed run has said it before
            self.note(more, warning=True)
        if self._live:
            self._write("compiling ...")
            self._shown = True

    def iteration(self, record: Mapping[str, Any]) -> None:
        """Adds the record of one finished iteration and prints what is due."""
        self._add(record)
        if self._metrics.has_first(record) or (self._warming and record.get("updates")):
            self._warming = self._warming and not record.get("updates")
            self._pace.clear()
        self._pace.append((self._clock(), self._fraction(record) or 0.0, record["env_steps"]))
        if self.quiet or self._silent:
            return
        self._unshown = self._line(record)
        if self._batch_line_is_due(record):
            self._print(self._unshown)
            self._unshown = ""
        if self._live:
            self._show_live(record)
        elif self._classic and self._status_is_due(record):
            self._print("iteration " + " | ".join(self._status(record)))

    def note(self, message: str, *, warning: bool = False) -> None:
        """Prints a message; warnings are printed even when quiet."""
        if warning or not self.quiet:
            self._print(self._coloured(f"warning: {message}") if warning else self._coloured(message))

    def _line(self, record: Mapping[str, Any]) -> str:
        if self._classic:
            return batch_line(record, self._moving)
        seconds = None if self._live or self._ends(record) else self._seconds_left()
        eta = "" if seconds is None else f"ETA {duration(seconds)}"
        return iteration_line(record, self._moving, self._total, eta)

    def _coloured(self, text: str) -> str:
        """Warnings in yellow and the doctor in cyan on a terminal; NO_COLOR and a pipe leave text as it is."""
        word = next((word for word in COLOURS if text.startswith(f"{word}:")), None)
        if word is None or not self._live or os.environ.get("NO_COLOR"):
            return text
        return f"\x1b[{COLOURS[word]}m{word}:\x1b[0m{text[len(word) + 1 :]}"

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Prints the result; all keys are optional: `evaluation` (of `summarise`), `env_steps`, `iterations`,
        `wall_seconds`, `outcome` (a sentence, such as why the run ended early), `run_dir`."""
        lines = []
        if not self.quiet:
            columns = min(shutil.get_terminal_size().columns - 1, 78)
            lines += [self._unshown] if self._unshown else []
            lines += ["", learning_curve(self._steps, self._returns, columns, ascii=not _has_unicode(self._stream)), ""]
        if summary.get("outcome"):
            lines.append(str(summary["outcome"]))
        if summary.get("evaluation"):
            lines.append(f"evaluation: {evaluation_line(summary['evaluation'])}")
        elif self._moving.moving is not None:
            lines.append(f"last training return {self._moving.moving:,.2f}, best {self._moving.best:,.2f}")
        effort = _effort(summary, self.plan.get("total_steps"), self._past_steps)
        lines += [effort] if effort else []
        if self._surplus_steps:
            lines.append(f"{self._surplus_steps:,} surplus steps beyond the requested episodes, not used in updates")
        lines += [f"run directory: {summary['run_dir']}"] if summary.get("run_dir") else []
        self._print("\n".join(lines))

    def _add(self, record: Mapping[str, Any]) -> None:
        self._moving.add(record.get(RETURN))
        surplus_steps: Any = record.get("surplus_steps")
        self._surplus_steps += surplus_steps if is_finite_number(surplus_steps) else 0
        if self._moving.mean is not None:
            self._steps.append(record["env_steps"])
            self._returns.append(self._moving.mean)

    def _fraction(self, record: Mapping[str, Any]) -> float | None:
        """The finished fraction of the run, from 0 to 1; None where its end is unknown."""
        if self._total:
            return min(1.0, (int(record["iteration"]) + 1) / self._total)
        total_steps: int | None = self.plan.get("total_steps")
        return min(1.0, float(record["env_steps"]) / total_steps) if total_steps else None

    def _ends(self, record: Mapping[str, Any]) -> bool:
        return self._fraction(record) == 1.0

    def _batch_line_is_due(self, record: Mapping[str, Any]) -> bool:
        """The first iteration, the last, and evenly between; ever more rarely where the end is unknown."""
        milestone = self._milestone_of(record, BATCH_LINES)
        due = milestone > self._milestone or self._ends(record)
        self._milestone = max(self._milestone, milestone)
        return due

    def _status_is_due(self, record: Mapping[str, Any]) -> bool:
        milestone, now = self._milestone_of(record, STATUS_LINES), self._pace[-1][0]
        if milestone <= self._status_milestone or now < self._status_time + STATUS_EVERY_SECONDS:
            return False
        self._status_milestone, self._status_time = milestone, now
        return True

    def _milestone_of(self, record: Mapping[str, Any], lines: int) -> int:
        fraction = self._fraction(record)
        if fraction is None:
            return int(3 * math.log2(record["iteration"] + 1))
        return int(fraction * lines + 1e-9)

    def _status(self, record: Mapping[str, Any]) -> list[str]:
        """Iteration, ETA, return, steps, speed: the most important first, as narrow terminals drop the last."""
        fraction, rate, seconds = self._fraction(record), self._steps_per_second(record), self._seconds_left()
        of = f"/{self._total}" if self._total else ""
        share = "" if fraction is None else f" ({fraction:.0%})"
        parts = [f"{record['iteration'] + 1}{of}{share}"]
        parts += [] if seconds is None else [f"ETA {duration(seconds)}"]
        parts += [] if self._moving.moving is None else [f"return {self._moving.moving:,.2f}"]
        parts += [f"{record['env_steps']:,} steps"]
        parts += [] if rate is None else [f"{rate:,.0f} steps/s"]
        return parts

    def _show_live(self, record: Mapping[str, Any]) -> None:
        """Overwrites the live line: a bar and as many parts of the status as fit the terminal."""
        now = self._clock()
        if now < self._next_live and not self._ends(record):
            return
        self._next_live = now + LIVE_EVERY_SECONDS
        columns = max(20, shutil.get_terminal_size().columns - 1)
        fraction = self._fraction(record)
        line = _fitting(self._status(record), columns if fraction is None else columns - LEAST_BAR - 1)
        if fraction is not None:
            room = min(24, columns - len(line) - 1)
            line = f"{_bar(fraction, room, _has_unicode(self._stream))} {line}"
        self._write(_CLEAR + line)
        self._shown = True

    def _steps_per_second(self, record: Mapping[str, Any]) -> float | None:
        recorded: float | None = record.get("steps_per_second")
        if recorded is not None or len(self._pace) < 2:
            return recorded
        (start, _, first), (end, _, last) = self._pace[0], self._pace[-1]
        return (last - first) / (end - start) if end > start else None

    def _seconds_left(self) -> float | None:
        """From the speed of recent iterations; the first with updates, which compiles, only starts the clock."""
        if self._warming or len(self._pace) < 2:
            return None
        (start, first, _), (end, last, _) = self._pace[0], self._pace[-1]
        return (end - start) * (1 - last) / (last - first) if last > first else None

    def _print(self, text: str) -> None:
        """Prints whole lines in place of the live line, which returns with the next iteration."""
        clear = _CLEAR if self._shown else ""
        self._shown, self._next_live = False, 0.0
        self._write(f"{clear}{text}\n")

    def _write(self, text: str) -> None:
        if self._silent:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # closed pipe (`| head`) or terminal: training goes on
            self._silent = True


def _effort(summary: Mapping[str, Any], requested: int | None, past_steps: int) -> str:
    """`100,352 steps (100,000 requested), 49 iterations, 0:12, 8,362 steps/s`; unknown parts are left out.

    Time and speed are those of this process: `past_steps` were made before a resume.
    """
    steps, seconds = summary.get("env_steps"), summary.get("wall_seconds")
    beside = f" ({requested:,} requested)" if requested and requested != steps else ""
    parts = [] if steps is None else [f"{steps:,} steps{beside}"]
    if summary.get("iterations") is not None:
        parts.append(counted(summary["iterations"], "iteration"))
    if seconds is not None:
        parts.append(duration(seconds))
        made = (steps or 0) - past_steps
        parts += [f"{made / seconds:,.0f} steps/s"] if made > 0 and seconds > 0 else []
    return ", ".join(parts)


def _fitting(parts: list[str], columns: int) -> str:
    """The first parts, as many as fit into the columns."""
    while len(parts) > 1 and len(" | ".join(parts)) > columns:
        parts = parts[:-1]
    return " | ".join(parts)[:columns]


def _bar(fraction: float, width: int, unicode: bool) -> str:
    full, empty = ("━", "─") if unicode else ("#", "-")
    done = int(fraction * width)
    return full * done + empty * (width - done)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):
        return False


def _has_unicode(stream: TextIO) -> bool:
    try:
        return (stream.encoding or "").lower().replace("-", "").startswith("utf")
    except AttributeError:  # a stream that is not a file, such as a notebook's
        return False
