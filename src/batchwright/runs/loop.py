"""The training loop: iterate, undo bad updates, record, evaluate, save."""

from __future__ import annotations

import time
from typing import Protocol

from batchwright.runs.learner import Doctor, IterationResult, Learner, Record, RunState, StateT

MAX_BAD_ITERATIONS = 3
"""After so many undone iterations in a row the run stops: it does not recover by itself."""


class DivergedError(Exception):
    """Training produced non-finite numbers in several iterations in a row, up to `iteration`."""

    def __init__(self, reason: str, iteration: int) -> None:
        super().__init__(reason)
        self.iteration = iteration
        self.fixes: tuple[str, ...] = ()
        """Flags that the doctor recommends; empty where it is off or has none."""


class Callbacks(Doctor, Protocol):
    """Callbacks of the training loop. Implementations write files and print."""

    def on_warning(self, kind: str, iteration: int, message: str) -> None: ...
    def on_non_finite(self, iteration: int, result: IterationResult) -> None: ...
    def on_record(self, record: Record, result: IterationResult | None) -> None: ...
    def evaluate(self, state: RunState) -> Record: ...
    def on_iteration(self, state: RunState, record: Record) -> Record: ...
    def stopped(self) -> bool: ...
    def on_checkpoint(self, state: RunState, scheduled: bool, reason: str) -> None: ...
    def on_last_record(self, record: Record, result: IterationResult | None) -> None: ...
    def evaluate_last(self, state: RunState) -> None: ...
    def stop_requested(self) -> bool: ...


def run(learner: Learner[StateT], state: StateT, callbacks: Callbacks) -> StateT:
    """Iterates to the end of the plan, to a stop by the user's callback or to one by a signal; returns the last state.

    The last record and the last checkpoint are saved before the last evaluation, which completes the record: whatever
    happens to it costs no training, and a resumed run makes up for it.
    """
    settings = learner.settings
    while not learner.finished(state):
        before, start_seconds = state, time.perf_counter()
        state, result = learner.iterate(state)
        if result.non_finite is not None:
            state = _undo(learner, state, before, result, callbacks)
        iteration, last = int(state.counters.iteration), learner.finished(state)
        for message in result.messages:
            callbacks.on_warning("remark", iteration - 1, message)
        record = learner.record(state, result, time.perf_counter() - start_seconds)
        at_checkpoint = iteration % settings.checkpoint_every == 0
        if not last and settings.eval_every and iteration % settings.eval_every == 0:
            record |= callbacks.evaluate(state)
        record |= callbacks.on_iteration(state, record)
        if last or callbacks.stopped():
            callbacks.on_last_record(record, result)
            # As in a longer run, which this one may become: what cannot be saved restarts, or is replayed.
            state = learner.before_checkpoint(state) if at_checkpoint else state
            callbacks.on_checkpoint(state, scheduled=at_checkpoint, reason="end of the run")
            break
        callbacks.on_record(record, result)
        stop = callbacks.stop_requested()
        state = _between_iterations(learner, state, at_checkpoint, callbacks)
        if at_checkpoint or stop:
            reason = "scheduled" if at_checkpoint else "asked for by a signal"
            callbacks.on_checkpoint(state, scheduled=at_checkpoint, reason=reason)
        if stop:
            break
    if 0 < int(state.counters.iteration) == int(state.counters.bad_iterations):
        raise DivergedError("every update was undone", int(state.counters.iteration))
    if learner.finished(state) or callbacks.stopped():
        callbacks.evaluate_last(state)
    return state


def _undo(
    learner: Learner[StateT], state: StateT, before: StateT, result: IterationResult, callbacks: Callbacks
) -> StateT:
    """Undoes the updates of an iteration with non-finite numbers; too many in a row end the run."""
    iteration = int(state.counters.iteration)
    callbacks.on_non_finite(iteration, result)
    state = learner.undo(state, before)
    if int(state.counters.bad_iterations) < MAX_BAD_ITERATIONS:
        return state
    reason = result.non_finite or ""
    rescued = learner.rescue(state, reason)
    if rescued is None:
        raise DivergedError(reason, iteration)
    state, message = rescued
    callbacks.on_warning("remedy", iteration, message)
    return state


def _between_iterations(learner: Learner[StateT], state: StateT, at_checkpoint: bool, callbacks: Callbacks) -> StateT:
    """What changes between two iterations: restarted environments, and remedies of the doctor."""
    if at_checkpoint:
        state = learner.before_checkpoint(state)
    state, message = learner.adjust(state, at_checkpoint, callbacks)
    if message is not None:
        callbacks.on_warning("remedy", int(state.counters.iteration), message)
    return state
