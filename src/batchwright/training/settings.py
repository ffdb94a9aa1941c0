"""From a plan's facts to what the learner takes: shapes that are compiled in, and numbers per iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from batchwright.envs.engines import Engine
from batchwright.nets.policy import NetworkMaker, Policy, make_policy
from batchwright.planning.quantity import Plan
from batchwright.training.update import Hyper, UpdateShape


def update_shape(plan: Plan, minibatches: int) -> UpdateShape:
    """What is compiled into the update."""
    return UpdateShape(
        algo=plan.algo,
        minibatches=minibatches,
        epochs=plan["epochs"],
        advantage_norm=plan["advantage_norm"],
        baseline=plan["baseline"],
        value_clipping=plan["value_clip"] > 0,
        kl_stop=plan["kl_stop"] > 0,
        kl_adaptive=plan["learning_rate_schedule"] == "kl-adaptive",
        adam_beta2=plan["adam_beta2"],
        adam_eps=plan["adam_eps"],
    )


def make_plan_policy(plan: Plan, engine: Engine, network: NetworkMaker | None = None) -> Policy:
    """The policy that a plan describes for an engine's spaces; one value per reward component."""
    hidden = plan["hidden"]
    sizes = tuple(int(units) for units in hidden.split(",")) if hidden[:1].isdigit() else (64, 64)
    return make_policy(
        engine.observation,
        engine.action,
        num_values=max(1, len(engine.reward_names)),
        hidden=sizes,
        activation=plan.get("activation", "tanh"),
        log_std_start=plan["log_std_start"],
        network=network,
        activity=engine.action_activity,
    )


@dataclass(frozen=True)
class Schedules:
    """Numbers that move over the run, by the share of it that is done: planned totals, never a call's own."""

    plan: Plan

    def hyper(
        self, done: float, reward_scale: float, return_std: float, value_mean: float = 0.0, value_std: float = 1.0
    ) -> Hyper:
        """All hyper-parameters when a share `done` of the run is behind us."""
        plan = self.plan
        numbers = Hyper(
            learning_rate=plan["learning_rate"] * self._rate(done),
            gamma=plan["gamma"],
            trace=plan["gae_lambda"],
            clip=plan.get("clip_range", 0.2) * (1.0 - done if plan.get("clip_schedule") == "linear" else 1.0),
            entropy=self.entropy(done),
            value_weight=plan["value_weight"],
            max_grad_norm=plan["max_grad_norm"],
            weight_decay=plan["weight_decay"],
            value_rate_factor=plan["value_rate_factor"],
            kl_limit=plan["kl_stop"],
            kl_target=plan.get("kl_target", 0.0),
            value_clip=plan["value_clip"] * return_std / value_std,
            reward_scale=reward_scale,
            warmup_updates=plan["warmup_updates"],
            value_mean=value_mean,
            value_std=value_std,
        )
        # NumPy scalars: the compiled call takes them as they are, JAX ones cost a dispatch each.
        return Hyper(*(np.float32(number) for number in numbers))

    def _rate(self, done: float) -> float:
        schedule = self.plan["learning_rate_schedule"]
        if schedule == "linear":
            return 1.0 - done
        return 0.5 * (1.0 + math.cos(math.pi * done)) if schedule == "cosine" else 1.0

    def entropy(self, done: float) -> float:
        """The bonus: at its start value, then in a line to its end over the last `entropy_anneal` of the run."""
        start, end, share = (self.plan[name] for name in ("entropy_start", "entropy_end", "entropy_anneal"))
        if share <= 0:
            return float(start)
        along = min(1.0, max(0.0, (done - (1.0 - share)) / share))
        return float(start + (end - start) * along)
