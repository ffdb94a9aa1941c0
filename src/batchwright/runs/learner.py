"""The interface between the training loop and a regime: a learner, its state, and the result of one iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import numpy as np

from batchwright.data.rollout import CollectResult
from batchwright.doctor.finding import Finding
from batchwright.planning.plan import Plan
from batchwright.runs.run_settings import RunSettings

Record = dict[str, Any]
"""One line of `metrics.jsonl`: numbers, and the digest of the parameters."""


class Counters(NamedTuple):
    """Whole numbers of the run so far."""

    iteration: np.int64
    env_steps: np.int64
    """Steps of the environments, resets included: what budgets count."""
    transitions: np.int64
    episodes: np.int64
    engine_started: np.int64
    """The iteration before which the engine was last started; with the seed it gives the engine's seed."""
    bad_iterations: np.int64
    """Iterations in a row whose update was undone."""

    @classmethod
    def zero(cls) -> Counters:
        return cls(*(np.int64(0) for _ in cls._fields))


class RunState(Protocol):
    """A frozen dataclass of arrays, registered as a pytree."""

    @property
    def counters(self) -> Counters: ...


StateT = TypeVar("StateT", bound=RunState)


@dataclass(frozen=True)
class IterationResult:
    """What one iteration did, beside the new state."""

    metrics: dict[str, float]
    """Metrics of the updates, ready for the record."""
    seconds: dict[str, float]
    """Time of each phase by name, such as `collect` and `update`."""
    collected: CollectResult | None = None
    """The rollout and its episodes; None where a learner has no environments."""
    non_finite: str | None = None
    """Which number is not finite and where it was found; None where all is well."""
    params_before: jax.Array | None = None
    """The policy's parameters before the updates, where something is not finite."""
    messages: tuple[str, ...] = ()
    """Warnings for the user."""
    reward_names: tuple[str, ...] = ()
    """Of the reward's components, in the order in which `collected` has them."""
    agents: tuple[str, ...] = ()
    """Of each environment, in the order in which `collected` has them; empty where there is one."""


@dataclass(frozen=True)
class Evaluation:
    """The outcome of one evaluation."""

    summary: dict[str, Any]
    """What the result of the run shows, such as mean, median and IQM of the returns."""
    metrics: Record
    """What goes into the metric record."""
    event: str
    """The kind of the event that is recorded."""
    message: str
    details: dict[str, Any]
    """Further fields of the event."""
    warnings: tuple[str, ...] = ()
    """What the user should know of the episodes."""


@dataclass(frozen=True)
class CheckpointParts:
    """What a learner puts into one checkpoint."""

    state: Any
    """A pytree of arrays."""
    manifest: dict[str, Any]
    """Entries of the manifest, such as `replay`."""
    files: dict[str, list[np.ndarray]] = field(default_factory=dict)
    """Arrays in files of their own beside the state."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 by name of files in the shared folder that this checkpoint needs."""


@dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint found on disk: where it lies and what its manifest says."""

    folder: Path
    shared_folder: Path
    manifest: dict[str, Any] = field(default_factory=dict)


class Doctor(Protocol):
    """The doctor as a learner that may act on its findings sees it."""

    def remedy(self, plan: Plan, since_iteration: int) -> tuple[str, Finding] | None:
        """The remedy that the records after an iteration ask for, with the plan as it is now."""


class Learner(Protocol[StateT]):
    """A way of learning. The state is a frozen dataclass of arrays; a learner keeps only what can be built again."""

    @property
    def settings(self) -> RunSettings: ...

    def start(self) -> StateT:
        """The state before the first iteration."""

    def iterate(self, state: StateT) -> tuple[StateT, IterationResult]:
        """Collects data and makes the updates of one iteration."""

    def undo(self, state: StateT, before: StateT) -> StateT:
        """The state without the updates of its last iteration, which began at `before`."""

    def rescue(self, state: StateT, reason: str) -> tuple[StateT, str] | None:
        """An earlier state to go on from when undoing was not enough, and a message; None where there is none."""

    def finished(self, state: StateT) -> bool:
        """Whether all planned iterations are done or the target return is reached."""

    def stopped_early(self, state: StateT) -> bool:
        """Whether the run is finished with planned iterations left, because the target return is reached."""

    def record(self, state: StateT, result: IterationResult, iteration_seconds: float) -> Record:
        """One line of the metric record."""

    def evaluate(self, state: StateT) -> Evaluation:
        """Evaluates without changing the training."""

    def before_checkpoint(self, state: StateT) -> StateT:
        """The state to go on from after a scheduled checkpoint; environments that cannot be saved restart here."""

    def adjust(self, state: StateT, at_checkpoint: bool, doctor: Doctor) -> tuple[StateT, str | None]:
        """Applies what the doctor prescribes, where the learner lets it act; returns a message about the change."""

    def save(self, state: StateT, shared_folder: Path, scheduled: bool) -> CheckpointParts:
        """What a checkpoint must hold; large files go to the shared folder."""

    def load(self, state: StateT, saved: SavedCheckpoint) -> StateT:
        """The state of a checkpoint with everything beside it restored; `state` has the arrays of `save`."""

    def checkpoint_template(self, state: StateT) -> StateT:
        """A state with the structure and shapes that `save` writes."""

    def close(self) -> None: ...
