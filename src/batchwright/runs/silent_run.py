"""A training in a process that is not the first: it learns in step with the others, and writes and shows nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from batchwright.doctor.finding import Finding
from batchwright.envs.engines.engine import OnEvent
from batchwright.planning.plan import Plan, plan_from_dict
from batchwright.runs.engine_learner import EngineLearner
from batchwright.runs.learner import IterationResult, Learner, Record, RunState, StateT
from batchwright.runs.learner_threads import take_threads
from batchwright.runs.loop import DivergedError
from batchwright.runs.loop import run as run_iterations
from batchwright.runs.process_group import ProcessGroup, peers_lost
from batchwright.runs.signals import stop_when_asked

DIVERGED, INTERRUPTED = 3, 130


class SilentCallbacks:
    """Callbacks of the training loop that only take part in what all processes do together."""

    def __init__(self, learner: Learner[Any], group: ProcessGroup, stop_requested: Callable[[], bool]) -> None:
        self._learner, self._group, self._stop_requested = learner, group, stop_requested

    def on_warning(self, kind: str, iteration: int, message: str) -> None: ...
    def on_non_finite(self, iteration: int, result: IterationResult) -> None: ...
    def on_record(self, record: Record, result: IterationResult | None) -> None: ...
    def on_last_record(self, record: Record, result: IterationResult | None) -> None: ...
    def evaluate_last(self, state: RunState) -> None: ...

    def evaluate(self, state: RunState) -> Record:
        return {}

    def on_iteration(self, state: RunState, record: Record) -> Record:
        return {}

    def stopped(self) -> bool:
        return False

    def on_checkpoint(self, state: RunState, scheduled: bool, reason: str) -> None:
        self._learner.save(state, Path(), scheduled)

    def stop_requested(self) -> bool:
        return self._group.any(self._stop_requested())

    def remedy(self, plan: Plan, since_iteration: int) -> tuple[str, Finding] | None:
        return None


def publish_training(plan: Plan, env: str, group: ProcessGroup) -> None:
    """Tells the other processes what is trained; they need no run directory."""
    group.publish(json.dumps({"env": env, "plan": json.loads(plan.to_json())}))


class SharingLearner(Protocol):
    """What a learner of several processes has beside those of one."""

    def share_start(self, state: Any) -> Any:
        """Sends the state to begin with to all other processes."""

    def receive_start(self) -> Any:
        """The state that the first process has sent, with this process's environments."""


def share_start(learner: Any, state: StateT, group: ProcessGroup) -> StateT:
    """Hands the state to begin with to other processes, where there are any."""
    if group.processes == 1:
        return state
    sharing: SharingLearner = learner
    shared: StateT = sharing.share_start(state)
    return shared


def publish_nothing(group: ProcessGroup) -> None:
    """Tells the other processes that nothing is left to train."""
    if group.processes > 1:
        group.publish(json.dumps({"plan": None}))


def train_silently(make_learner: Callable[[Plan, str, OnEvent | None], EngineLearner[Any]], group: ProcessGroup) -> int:
    """Trains what the first process has published, to its end; returns the exit code."""
    published = json.loads(group.receive())
    if published["plan"] is None:
        return 0
    plan = plan_from_dict(published["plan"])
    take_threads(plan)
    with peers_lost():
        learner = make_learner(plan, published["env"], None)
        try:
            with stop_when_asked(lambda text: None) as stop_requested:
                sharing: Any = learner
                state = sharing.receive_start()
                callbacks = SilentCallbacks(learner, group, stop_requested)
                state = run_iterations(learner, state, callbacks)
        except DivergedError:
            return DIVERGED
        finally:
            learner.close()
    return 0 if learner.finished(state) else INTERRUPTED
