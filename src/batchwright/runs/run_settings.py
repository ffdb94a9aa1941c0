"""Numbers of a plan that the training loop needs, typed."""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.planning.agent_plan import group_patterns
from batchwright.planning.on_policy_learning import EVAL_MAX_STEPS, STEP_TIMEOUT_SECONDS
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
    eval_max_steps: int
    """Steps after which an evaluated episode is cut."""
    eval_threshold: float | None
    """No evaluation before the moving average of training returns reaches it."""
    checkpoint_every: int
    stop_return: float | None
    """The run ends when the mean return of recent episodes reaches it."""
    step_timeout: float
    """Seconds that a worker's environment may take for one step; 0 for no limit."""
    doctor: str
    """`off`, `say` or `act`."""
    log_info: tuple[str, ...]
    """Keys of info that are logged."""
    agent_groups: tuple[str, ...]
    """Names or patterns of the agents that share a policy; none for those of equal spaces."""

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
            eval_max_steps=plan.get("eval_max_steps") or EVAL_MAX_STEPS,
            eval_threshold=plan.get("eval_threshold"),
            checkpoint_every=plan["checkpoint_every"],
            stop_return=plan.get("stop_return"),
            step_timeout=plan.get("step_timeout", STEP_TIMEOUT_SECONDS),
            doctor=plan.get("doctor") or "off",
            log_info=tuple(filter(None, str(plan.get("log_info") or "").split(","))),
            agent_groups=group_patterns(plan.get("agent_groups")),
        )
