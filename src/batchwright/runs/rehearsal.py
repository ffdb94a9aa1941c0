"""What a run costs before it starts: the run itself in a folder that is thrown away, for a second of its updates."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from batchwright.core.run_dir import RunDir
from batchwright.planning.plan import Plan
from batchwright.runs.engine_learner import EngineLearner
from batchwright.runs.learner import IterationResult, Record
from batchwright.runs.loop import run
from batchwright.runs.recorder import OutputOptions, RunRecorder
from batchwright.runs.start_state import StartOptions, start_or_resume
from batchwright.runs.time_forecast import Compiled, Enough, Speed
from batchwright.watch.metric_log import EventLog

MakeLearner = Callable[[], EngineLearner[Any]]


class RehearsalRecorder(RunRecorder):
    """Records as a run does, and asks it to stop once its speed is known."""

    def begin(self, enough: Enough) -> None:
        self._enough, self._stop = enough, False
        self.stop_requested = lambda: self._stop

    def on_record(self, record: Record, result: IterationResult | None = None) -> None:
        super().on_record(record, result)
        self._stop = self._enough.add(record)

    def on_last_record(self, record: Record, result: IterationResult | None = None) -> None:
        super().on_last_record(record, result)
        self._stop = self._enough.add(record)


def rehearse(plan: Plan, make_learner: MakeLearner) -> Speed:
    """The speed of a plan. Of two rehearsals the first only compiles: the run will find its programs in the cache."""
    _train(plan, make_learner, Compiled())
    jax.clear_caches()  # type: ignore[no-untyped-call]
    enough = Enough()
    return enough.speed(*_train(plan, make_learner, enough))


def _train(plan: Plan, make_learner: MakeLearner, enough: Enough) -> tuple[float, float]:
    """Seconds of a rehearsal from start to end, and those of one evaluation, which are not among them."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = RunDir.create(Path(folder) / "rehearsal", "rehearsal")
        with EventLog(run_dir.events_path) as events:
            recorder = RehearsalRecorder(run_dir, plan, events, OutputOptions(quiet=True, stream=io.StringIO()))
            recorder.begin(enough)
            learner = make_learner()
            recorder.attach(learner)
            try:
                state = run(learner, start_or_resume(learner, recorder, StartOptions()), recorder)
                learner.evaluate(state)  # compiles, and belongs to the start
                end = time.perf_counter()
                learner.evaluate(state)
                evaluation_seconds = time.perf_counter() - end
            finally:
                learner.close()
                recorder.close()
    return end - start, evaluation_seconds
