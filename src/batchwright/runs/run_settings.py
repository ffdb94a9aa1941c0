"""Numbers of a plan that the training loop needs, typed."""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.planning.plan import Plan


@dataclass(frozen=True)
class RunSettings:
    """How long a run lasts, and how often it evaluates and saves."""

    algo: str
    seed: int
    iterations: int | None
    """None where only whole episodes spend steps; then `total_steps` ends the run."""
    total_steps: int
    actual_steps: int
    """Steps of all planned iterations together."""
    eval_every: int
    eval_episodes: int
    eval_threshold: float | None
    """No evaluation before the moving average of training returns reaches it."""
    checkpoint_every: int
    stop_return: float | None
    """The run ends when the mean return of recent episodes reaches it."""
    doctor: str
    """`off`, `say` or `act`."""

    @classmethod
    def from_plan(cls, plan: Plan) -> RunSettings:
        total_steps = plan.get("total_steps") or 0
        return cls(
            algo=plan.algo,
            seed=plan["seed"],
            iterations=plan["iterations"],
            total_steps=total_steps,
            actual_steps=plan.get("actual_steps") or total_steps,
            eval_every=plan["eval_every"],
            eval_episodes=plan.get("eval_episodes") or 0,
            eval_threshold=plan.get("eval_threshold"),
            checkpoint_every=plan["checkpoint_every"],
            stop_return=plan.get("stop_return"),
            doctor=plan.get("doctor") or "off",
        )
