"""The doctor during training: checks the run about 20 times and reports each finding once, again only when worse."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchwright.doctor.finding import SEVERITIES, Finding
from batchwright.doctor.remedy import choose_remedy
from batchwright.doctor.run_history import MOST_RECORDS, Facts, RunHistory
from batchwright.doctor.triage import examine, unexplained, worsened

CHECKS_PER_RUN = 20
FIRST_CHECK = 5
"""Iterations before the first check."""
LEAST_TO_ACT = 8
"""Records that a remedy needs, at least."""
LARGEST_TIME_SHARE = 0.005
"""A check that would raise the doctor's share of the run's time above this is skipped."""
_SEVERITY_OF = {name: severity for severity, name in SEVERITIES.items()}


class LiveDoctor:
    """Receives every record and event of a run; `check` returns the alarms that are new or worse.

    Checks are skipped where they would cost too much time. They never change the training, so two runs stay identical
    whatever was reported.
    """

    def __init__(self, facts: Facts, clock: Callable[[], float] = time.perf_counter) -> None:
        self._facts = facts
        self._clock = clock
        self._began = clock()
        self.spent_seconds = 0.0
        planned = facts.number("iterations")
        self._every = max(1, int(planned or 1000) // CHECKS_PER_RUN)
        self._records: list[Mapping[str, Any]] = []
        self._stride = 1
        self._count = 0
        self._events: list[Mapping[str, Any]] = []
        self._reported: dict[str, Finding] = {}

    def restore(self, records: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]] = ()) -> None:
        """Continues from the records and events before a resume; advice among them is not repeated."""
        self._records, self._stride, self._count = [], 1, 0
        for record in records:
            self._keep(record)
        self._events = [event for event in events if event.get("kind") in ("non-finite", "diverged")]
        for event in events:
            if event.get("kind") == "advice":
                name, severity = str(event.get("finding")), _SEVERITY_OF.get(str(event.get("severity")), 1)
                self._reported[name] = Finding(name, severity, 1.0, "", "", "")

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Adds an event; those about NaN and infinity are evidence of findings."""
        self._events.append(event)

    def check(self, record: Mapping[str, Any]) -> list[Finding]:
        """Adds one record; returns the alarms that are new or worse, in the order in which to fix them."""
        self._keep(record)
        if self._count < FIRST_CHECK or self._count % self._every or not self._has_time():
            return []
        began = self._clock()
        found = self._new(examine(self._history()))
        self.spent_seconds += self._clock() - began
        return found

    def remedy(self, facts: Facts, since: int) -> tuple[str, Finding] | None:
        """The remedy for the records since the last change; None until there are enough of them."""
        fresh = [record for record in self._records if record["iteration"] >= since]
        if len(fresh) < LEAST_TO_ACT:
            return None
        history = RunHistory(fresh, facts, self._events)
        history.length = self._count
        return choose_remedy(history)

    def final_check(self) -> tuple[list[Finding], list[Finding]]:
        """The alarms at the end of a run, however it ended: those that are new, and all of them."""
        found = examine(self._history())
        return self._new(found), unexplained(found)

    def _new(self, found: Sequence[Finding]) -> list[Finding]:
        new = [finding for finding in unexplained(found) if worsened(finding, self._reported.get(finding.name))]
        self._reported |= {finding.name: finding for finding in new}
        return new

    def _keep(self, record: Mapping[str, Any]) -> None:
        """Stores a record; at twice `MOST_RECORDS` every second one is dropped, and from then on not stored."""
        if self._count % self._stride == 0:
            self._records.append(record)
        self._count += 1
        if len(self._records) >= 2 * MOST_RECORDS:
            self._records = self._records[::2]
            self._stride *= 2

    def _has_time(self) -> bool:
        checks = max(1, self._count // self._every)
        expected = self.spent_seconds / checks if self.spent_seconds else 0.0
        return self.spent_seconds + expected <= LARGEST_TIME_SHARE * (self._clock() - self._began)

    def _history(self) -> RunHistory:
        history = RunHistory(self._records, self._facts, self._events)
        history.length = self._count
        return history
