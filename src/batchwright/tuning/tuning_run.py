"""Runs a tuning: asks the playbook for units, executes those that the ledger lacks, writes down what happened."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.tuning.executors import FINISHED, INTERRUPTED, Executor, RunOutcome
from batchwright.tuning.judging import SKIPPED
from batchwright.tuning.playbook import JUDGING_PHASE
from batchwright.tuning.search_space import Setting
from batchwright.tuning.setting_moves import Batch, Step, UnitRequest
from batchwright.tuning.tuning_ledger import TuningLedger, unit_key
from batchwright.tuning.unit_runs import Objective, UnitPlanner, unit_result

UNITS_FOLDER = "units"
REFUSED = "refused"
NO_RESULT: dict[str, Any] = {"score": None, "final": None, "tenths": [], "noise": 0.0, "env_steps": 0, "digest": ""}


class TuningInterrupted(Exception):  # noqa: N818 - a stop that was asked for, not an error
    """A stop was asked for; everything that was done is in the ledger."""


@dataclass
class Limits:
    """What a tuning may cost."""

    steps: int | None = None
    """Environment steps of all units together."""
    seconds: float | None = None
    judging_seconds: float = 0.0
    """Of them, what judging is expected to take: tuning stops before it."""
    started: float = field(default_factory=time.monotonic)
    before: float = 0.0
    """Seconds that were spent before the tuning was resumed."""

    def used_seconds(self) -> float:
        return self.before + time.monotonic() - self.started

    def out_of_time(self, phase: str, unit_seconds: float) -> bool:
        """Whether a unit that starts now would end too late; half of its time may lie beyond."""
        if self.seconds is None:
            return False
        end = self.seconds if phase == JUDGING_PHASE else self.seconds - self.judging_seconds
        return self.used_seconds() + 0.5 * unit_seconds > end


@dataclass
class TuningRun:
    """One tuning in its folder. The holder of the folder's lock runs it."""

    folder: Path
    ledger: TuningLedger
    planner: UnitPlanner
    executor: Executor
    unit_steps: int
    limits: Limits
    objective: Objective
    on_unit: Callable[[dict[str, Any], int], None]
    """Gets every line of a unit as it is written, and the number of units so far."""
    _order: dict[str, int] = field(default_factory=dict)
    _steps: dict[str, int] = field(default_factory=dict)

    def run(self, steps: Generator[Step, Any, dict[str, Any]]) -> dict[str, Any]:
        """Plays to the end; returns the verdict. Raises `TuningInterrupted` where a stop was asked for."""
        reply: Any = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                final: dict[str, Any] = end.value
                return final
            if isinstance(step, Batch):
                try:
                    reply = self._results(step.units)
                except KeyboardInterrupt:
                    raise TuningInterrupted from None
            else:
                self.ledger.decide(step.record)
                reply = None

    def _results(self, requests: Sequence[UnitRequest]) -> list[dict[str, Any]]:
        """The ledger lines of units, in the order of the requests; those that are missing are trained."""
        keys = [self._key(request) for request in requests]
        for key, request in zip(keys, requests, strict=True):
            self._order.setdefault(key, len(self._order))
            if key in self.ledger.units and self.ledger.units[key]["status"] not in (SKIPPED, REFUSED):
                self._planned_steps(key, request)
        missing = {key: request for key, request in zip(keys, requests, strict=True) if key not in self.ledger.units}
        if missing and not self.ledger.is_replayed:  # what came after these units was decided: they were there
            raise self.ledger.refusal(requests[0].phase)
        outcomes = self.executor.execute(self._starts(missing))
        interrupted = False
        for outcome in outcomes:
            interrupted = interrupted or outcome.status == INTERRUPTED
            if outcome.status != INTERRUPTED:
                self._record(outcome, missing[outcome.run.name])
        if interrupted or any(key not in self.ledger.units for key in keys):
            raise TuningInterrupted
        return [self.ledger.units[key] for key in keys]

    def _starts(self, missing: dict[str, UnitRequest]) -> Iterator[Path]:
        """The run directories of units as there is room for them; what the budget does not allow is skipped."""
        for key, request in missing.items():
            try:
                planned = self._planned_steps(key, request)
                if self.limits.steps is not None and sum(self._steps.values()) > self.limits.steps:
                    del self._steps[key]
                    self._skip(request, SKIPPED, f"{planned:,} steps more than the budget of {self.limits.steps:,}")
                    continue
                if self.limits.out_of_time(request.phase, self._mean_seconds()):
                    self._skip(request, SKIPPED, "the time budget was spent")
                    continue
                path = self.folder / UNITS_FOLDER / key
                yield self.planner.prepare(request.setting, request.seed, self.unit_steps, path)
            except UserError as error:
                self._skip(request, REFUSED, error.message)

    def _planned_steps(self, key: str, request: UnitRequest) -> int:
        if key not in self._steps:
            plan = self.planner.plan(request.setting, request.seed, self.unit_steps)[1]
            self._steps[key] = int(plan.get("actual_steps") or self.unit_steps)
        return self._steps[key]

    def _mean_seconds(self) -> float:
        done = [unit["seconds"] for unit in self.ledger.units.values() if unit["status"] == FINISHED]
        return sum(done) / len(done) if done else 0.0

    def _record(self, outcome: RunOutcome, request: UnitRequest) -> None:
        done = outcome.status == FINISHED
        result = unit_result(outcome.run, self.unit_steps, self.objective) if done else NO_RESULT
        reason = outcome.reason
        if done and result["score"] is None:
            reason = "no episode ended, or its objective is not finite"
        self._write(request, outcome.status, reason, outcome.seconds, result)
        if done and request.phase != JUDGING_PHASE:  # its policy is of no use; train makes it again, to the bit
            shutil.rmtree(outcome.run / "checkpoints", ignore_errors=True)

    def _skip(self, request: UnitRequest, status: str, reason: str) -> None:
        self._write(request, status, reason, 0.0, NO_RESULT)

    def _write(self, request: UnitRequest, status: str, reason: str, seconds: float, result: dict[str, Any]) -> None:
        key = self._key(request)
        line = self.ledger.add_unit(
            {
                "unit": self._order[key],
                "key": key,
                "phase": request.phase,
                "setting": request.setting,
                "seed": request.seed,
                "steps": self.unit_steps,
                "status": status,
                "reason": reason,
                **result,
                "seconds": round(seconds, 3),
            }
        )
        self.on_unit(line, len(self.ledger.units))

    def _key(self, request: UnitRequest) -> str:
        return unit_key(self.planner.settings(request.setting), request.seed, self.unit_steps)


def best_so_far(ledger: TuningLedger) -> tuple[Setting, float | None]:
    """The setting with the highest mean score over its tuning units, the default where none has one."""
    by_setting: dict[str, tuple[Setting, list[float | None]]] = {}
    for unit in sorted(ledger.units.values(), key=lambda unit: unit["unit"]):
        if unit["phase"] != JUDGING_PHASE:
            by_setting.setdefault(repr(unit["setting"]), (unit["setting"], []))[1].append(unit["score"])
    most = max((len(scores) for _, scores in by_setting.values()), default=0)
    means = [
        (sum(score for score in scores if score is not None) / len(scores), setting)
        for setting, scores in by_setting.values()
        if len(scores) == most and None not in scores
    ]
    score, setting = max(means, key=lambda pair: pair[0], default=(None, {}))
    return setting, score
