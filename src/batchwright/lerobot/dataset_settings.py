"""Numbers of a plan that training on recorded data needs, typed; and the words for LeRobot's own command line."""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.planning.memory_ladder import Rung
from batchwright.planning.plan import Plan


@dataclass(frozen=True)
class DatasetSettings:
    """How a policy of LeRobot is trained."""

    policy: str
    seed: int
    samples_per_update: int
    rung: Rung
    """Where the ladder begins."""
    workers: int
    prefetch_factor: int
    processes: int
    total_updates: int
    updates_per_iteration: int
    """Updates per line of the metric record."""
    checkpoint_every: int
    """Iterations between checkpoints."""
    learning_rate: float | None
    max_grad_norm: float | None
    grows: bool
    """Whether the micro-batch grows while memory allows."""

    @classmethod
    def from_plan(cls, plan: Plan) -> DatasetSettings:
        return cls(
            policy=plan.algo,
            seed=plan["seed"],
            samples_per_update=plan["samples_per_update"],
            rung=Rung(plan["samples_per_step"], plan["gradient_checkpointing"], plan["precision"]),
            workers=plan["workers"],
            prefetch_factor=plan["prefetch_factor"],
            processes=plan["processes"],
            total_updates=plan["total_updates"],
            updates_per_iteration=plan["updates_per_iteration"],
            checkpoint_every=plan["checkpoint_every"],
            learning_rate=plan.get("learning_rate"),
            max_grad_norm=plan.get("max_grad_norm"),
            grows=bool(plan.get("grow")),
        )

    @property
    def updates_per_checkpoint(self) -> int:
        return self.checkpoint_every * self.updates_per_iteration

    @property
    def largest_share(self) -> int:
        """Samples of one update that one process takes, at most."""
        return -(-self.samples_per_update // self.processes)
