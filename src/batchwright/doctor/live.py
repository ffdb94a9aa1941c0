"""The doctor beside a running training: a look now and then, each finding said once, or again when it has worsened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from batchwright.doctor.finding import Finding
from batchwright.doctor.remedy import wanted
from batchwright.doctor.run_history import MOST_RECORDS, Facts, RunHistory
from batchwright.doctor.triage import examine, unexplained, worsened

LOOKS_PER_RUN = 20
FIRST_LOOK = 5
"""Iterations before which nothing can be told."""
LEAST_TO_ACT = 8
"""Records that a remedy is decided from, at least."""
LARGEST_TIME_SHARE = 0.005
"""A look that would take the doctor's time above this share of the run's is left out."""


class LiveDoctor:
    """Told of every record and event; `look` gives what is newly to be said.

    Looks are left out where they would cost too much time. What is said never changes the training, so two runs stay
    identical whatever was said.
    """

    def __init__(self, facts: Facts, clock: Callable[[], float] = time.perf_counter) -> None:
        self._facts = facts
        self._clock = clock
        self._began = clock()
        self.spent_seconds = 0.0
        planned = facts.number("iterations")
        self._every = max(1, int(planned or 1000) // LOOKS_PER_RUN)
        self._records: list[Mapping[str, Any]] = []
        self._stride = 1
        self._count = 0
        self._events: list[Mapping[str, Any]] = []
        self._said: dict[str, Finding] = {}

    def take_up(self, past: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]] = ()) -> None:
        """Goes on from the records and the advice before a resume: what was said is not said again."""
        self._records, self._stride, self._count = [], 1, 0
        for record in past:
            self._keep(record)
        self._events = [event for event in events if event.get("kind") in ("non-finite", "diverged")]
        severities = {"note": 1, "warning": 2, "danger": 3}
        for event in events:
            if event.get("kind") == "advice":
                name, severity = str(event.get("finding")), severities.get(str(event.get("severity")), 1)
                self._said[name] = Finding(name, severity, 1.0, "", "", "")

    def hear(self, event: Mapping[str, Any]) -> None:
        """An event that tells of numbers that are not finite."""
        self._events.append(event)

    def look(self, record: Mapping[str, Any]) -> list[Finding]:
        """Takes one record in; the alarms that are new or worse, the first to mend first."""
        self._keep(record)
        if self._count < FIRST_LOOK or self._count % self._every or not self._has_time():
            return []
        began = self._clock()
        found = self._new(examine(self._case()))
        self.spent_seconds += self._clock() - began
        return found

    def remedy(self, facts: Facts, since: int) -> tuple[str, Finding] | None:
        """What is to be changed, by the records after the last change; nothing before there are enough of them."""
        fresh = [record for record in self._records if record["iteration"] >= since]
        if len(fresh) < LEAST_TO_ACT:
            return None
        case = RunHistory(fresh, facts, self._events)
        case.length = self._count
        return wanted(case)

    def last_look(self) -> tuple[list[Finding], list[Finding]]:
        """What is new at the end of a run, or when it broke off; and all that is wrong then, said before or not."""
        found = examine(self._case())
        return self._new(found), unexplained(found)

    def _new(self, found: Sequence[Finding]) -> list[Finding]:
        new = [finding for finding in unexplained(found) if worsened(finding, self._said.get(finding.name))]
        self._said |= {finding.name: finding for finding in new}
        return new

    def _keep(self, record: Mapping[str, Any]) -> None:
        """At most twice `MOST_RECORDS` in memory: then every second one is dropped and only every second kept."""
        if self._count % self._stride == 0:
            self._records.append(record)
        self._count += 1
        if len(self._records) >= 2 * MOST_RECORDS:
            self._records = self._records[::2]
            self._stride *= 2

    def _has_time(self) -> bool:
        looked = max(1, self._count // self._every)
        expected = self.spent_seconds / looked if self.spent_seconds else 0.0
        return self.spent_seconds + expected <= LARGEST_TIME_SHARE * (self._clock() - self._began)

    def _case(self) -> RunHistory:
        case = RunHistory(self._records, self._facts, self._events)
        case.length = self._count
        return case
