"""Follows one run directory: plan, metrics, events, and notes about damage to any of them."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from batchwright.config.load import read_settings
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.planning.quantity import counted
from batchwright.watch.lines import RETURN
from batchwright.watch.statistics import MovingStatistics
from batchwright.web.columns import Columns
from batchwright.web.folder import Folder
from batchwright.web.status import CRASHED, end_reason, status_of
from batchwright.web.tail import Tail, parse

TRACEBACK = "traceback-"
"""How the names of files begin in which a run keeps the traceback of an error."""
_TAIL_BYTES = 1 << 16
_FILE_BYTES = 1 << 22
_MOST_EVENTS = 5000
CLOCK_SLACK_SECONDS = 5.0
VIDEO_TYPES = {".gif": "image/gif", ".webp": "image/webp", ".mp4": "video/mp4", ".webm": "video/webm"}


class RunRecord:
    """The current content of one run; thread-safe. Damaged files never raise, they become notes."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder, self.name = folder, name
        self.lock = threading.RLock()
        self.plan: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.columns = Columns()
        self.metrics = Tail(folder, f"{name}/metrics.jsonl")
        self._events = Tail(folder, f"{name}/events.jsonl")
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._troubles: dict[str, str] = {}
        self._event_generation, self._metric_generation = self._events.generation, self.metrics.generation
        self._clock_jump = 0.0
        self._written = 0.0
        self._last_records: list[dict[str, Any]] = []

    def refresh(self) -> None:
        """Updates plan, config, events and the last metrics; cheap if nothing changed."""
        with self.lock:
            self._written = 0.0
            if self._changed("plan.json"):
                self.plan = self._load("plan.json", json.loads)
            if self._changed("config.yaml"):
                self.config = self._load("config.yaml", read_settings)
            self._follow_events()
            if self._changed("metrics.jsonl"):
                self._last_records = self._read_end()

    def read_metrics(self, budget_seconds: float = float("inf")) -> None:
        """Reads new metrics into the columns, for at most about `budget_seconds`."""
        with self.lock:
            fresh = self.metrics.read(budget_seconds)
            if self.metrics.generation != self._metric_generation:
                self._metric_generation = self.metrics.generation
                self.columns = Columns()
            self.columns.extend(fresh)

    def summary(self) -> dict[str, Any]:
        """The run's row in the list of runs."""
        with self.lock:
            last = self._last_records[-1] if self._last_records else {}
            moving = MovingStatistics()
            for record in self._last_records:
                moving.add(_number(record.get(RETURN)))
            evaluations = [event for event in self.events if event.get("kind") == "evaluation"]
            return {
                "name": self.name,
                "status": (status := self.status()),
                "reason": end_reason(status, self.events, self._last_words() if status == CRASHED else ""),
                "env": _text(self.config.get("env")),
                "algo": _text(self.plan.get("algo") or self.config.get("algo")),
                "seed": self.planned("seed"),
                "iteration": self.iterations_done(),
                "iterations": self.planned("iterations"),
                "env_steps": _number(last.get("env_steps")),
                "total_steps": self.planned("actual_steps") or self.planned("total_steps"),
                "return": moving.moving,
                "evaluation": _number(_mean(evaluations[-1].get("returns"))) if evaluations else None,
                "steps_per_second": _number(last.get("steps_per_second")),
                "advice": sum(event.get("kind") == "advice" for event in self.events),
                "events": len(self.events),
                "written": self._written or None,
                "stamp": [self._event_generation, len(self.events), *self._stamps.get("plan.json", ())],
                "notes": self.notes(),
            }

    def status(self) -> str:
        """One of the constants of `web.status` and `watch.run_end`."""
        locked = RunDir(self.folder.path / self.name).is_locked()
        silent = time.time() - self._written if self._written else None
        return status_of(locked, silent, self.iterations_done(), self.planned("iterations"), self.events)

    def _last_words(self) -> str:
        """The last line of the newest traceback that the run left; empty where it left none."""
        kept = [entry.name for entry in self.folder.entries(self.name) if entry.name.startswith(TRACEBACK)]
        try:
            content = self.folder.read_file(f"{self.name}/{max(kept)}", _FILE_BYTES) if kept else b""
        except OSError:
            return ""
        lines = content.decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def iterations_done(self) -> int:
        """The number of iterations in the record."""
        found = [r["iteration"] for r in self._last_records if type(r.get("iteration")) is int]
        return max(found) + 1 if found else 0

    def planned(self, name: str) -> int | float | None:
        """A number of the plan; None if it is missing or not a number."""
        quantities = self.plan.get("quantities")
        quantity = quantities.get(name) if isinstance(quantities, dict) else None
        return _number(quantity.get("value")) if isinstance(quantity, dict) else None

    def videos(self) -> list[str]:
        """Names of the video files in the run directory and its folders."""
        places = ["", *(entry.name for entry in self.folder.entries(self.name) if entry.is_dir(follow_symlinks=False))]
        return [
            f"{place}/{entry.name}".lstrip("/")
            for place in places
            for entry in self.folder.entries(f"{self.name}/{place}".rstrip("/"))
            if os.path.splitext(entry.name)[1].lower() in VIDEO_TYPES and entry.is_file(follow_symlinks=False)  # noqa: PTH122
        ]

    def notes(self) -> list[str]:
        """Sentences about damage to the record; empty for most runs."""
        with self.lock:
            notes = [f"{file} {trouble}." for file, trouble in self._troubles.items()]
            if self._written - time.time() > CLOCK_SLACK_SECONDS:
                notes.append("file times lie in the future: ages are unknown.")
            for file, tail in (("metrics.jsonl", self.metrics), ("events.jsonl", self._events)):
                if tail.unreadable:
                    notes.append(f"{file}: skipped {counted(tail.unreadable, 'unreadable line')}.")
            if self.metrics.is_torn:
                notes.append("metrics.jsonl: the last line is incomplete; it is shown once it is complete.")
            if self.columns.without_iteration:
                notes.append(
                    f"metrics.jsonl: skipped {counted(self.columns.without_iteration, 'line')} without an iteration."
                )
            if self.columns.repeated:
                notes.append(
                    f"metrics.jsonl: {counted(self.columns.repeated, 'line')} repeat an earlier iteration "
                    "(two writers?); the first of each is shown."
                )
            if self.columns.rows and "env_steps" not in self.columns.axes():
                notes.append("metrics.jsonl: env_steps is missing or decreases; curves are drawn over iterations.")
            if self.columns.left_out:
                notes.append(
                    f"metrics.jsonl: skipped {counted(len(self.columns.left_out), 'metric')} beyond the first 1,000."
                )
            if self._clock_jump:
                notes.append(f"the clock was set back by {self._clock_jump:,.0f} s during the run: times may be wrong.")
            return notes

    def _follow_events(self) -> None:
        fresh = [event for event in self._events.read() if isinstance(event.get("kind"), str)]
        if self._events.generation != self._event_generation:
            self._event_generation = self._events.generation
            self.events, self._clock_jump = [], 0.0
        for event in fresh:
            before = self.events[-1].get("unix_seconds") if self.events else None
            now = event.get("unix_seconds")
            if isinstance(before, int | float) and isinstance(now, int | float):
                self._clock_jump = max(self._clock_jump, before - now if before - now > CLOCK_SLACK_SECONDS else 0.0)
            self.events.append(event)
        del self.events[:-_MOST_EVENTS]
        self._changed("events.jsonl")

    def _changed(self, file: str) -> bool:
        """Whether a file has changed since the last refresh; also updates the time of the last write."""
        try:
            handle = self.folder.open_file(f"{self.name}/{file}")
        except OSError as error:
            if file != "events.jsonl" and not (file == "metrics.jsonl" and isinstance(error, FileNotFoundError)):
                is_missing = isinstance(error, FileNotFoundError)
                self._troubles[file] = "is missing" if is_missing else f"cannot be read ({error.strerror})"
            was = self._stamps.pop(file, None)
            return was is not None
        try:
            now = os.fstat(handle)
        finally:
            os.close(handle)
        if file not in self._stamps:
            self._troubles.pop(file, None)
        self._written = max(self._written, now.st_mtime)
        stamp = (now.st_ino, now.st_size, now.st_mtime_ns)
        changed = self._stamps.get(file) != stamp
        self._stamps[file] = stamp
        return changed

    def _load(self, file: str, parse_content: Callable[[bytes], Any]) -> dict[str, Any]:
        try:
            value = parse_content(self.folder.read_file(f"{self.name}/{file}", _FILE_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError, UserError):
            self._troubles[file] = "is damaged"
            return {}
        if not isinstance(value, dict):
            self._troubles[file] = "is damaged"
            return {}
        self._troubles.pop(file, None)
        return value

    def _read_end(self) -> list[dict[str, Any]]:
        """The last records, without reading the whole file."""
        try:
            handle = self.folder.open_file(f"{self.name}/metrics.jsonl")
        except OSError:
            return []
        try:
            start = max(0, os.fstat(handle).st_size - _TAIL_BYTES)
            lines = os.pread(handle, _TAIL_BYTES, start).split(b"\n")
        except OSError:
            return []
        finally:
            os.close(handle)
        return [value for line in lines[1 if start else 0 :] if line and (value := parse(line)) is not None]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | float | None:
    """A finite number, or None."""
    if type(value) is not int and type(value) is not float:
        return None
    return value if abs(value) < 1e300 else None


def _mean(values: Any) -> float | None:
    if not isinstance(values, list):
        return None
    numbers = [value for value in values if _number(value) is not None]
    return sum(numbers) / len(numbers) if numbers else None
