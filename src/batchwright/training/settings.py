"""From a plan's facts to what the learner takes: shapes that are compiled in, and numbers per iteration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from batchwright.envs.engines import Engine
from batchwright.nets.policy import NetworkMaker, Policy, make_policy
from batchwright.planning.quantity import Plan
from batchwright.training.update import Hyper, UpdateShape

KIND_WEIGHTS = ("entropy_weight_discrete", "entropy_weight_continuous")
KIND_FLOORS = ("entropy_floor_discrete", "entropy_floor_continuous")
NO_FLOOR_NATS = -1e9


def component_names(plan: Plan) -> tuple[str, ...]:
    """The reward components that a plan trains on; empty where the reward is one number."""
    told = plan.get("components")
    return tuple(told.split(",")) if told and told != "none" else ()


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
        components=component_names(plan),
        learned_weighting=plan.get("component_weighting") == "learned",
        entropy_by_kind=any(plan.get(name, 1.0) != 1.0 for name in KIND_WEIGHTS)
        or any(plan.get(name) is not None for name in KIND_FLOORS),
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
        self,
        done: float,
        reward_scale: float,
        return_std: float,
        value_mean: float = 0.0,
        value_std: float = 1.0,
        episodes: int = 0,
    ) -> Hyper:
        """All hyper-parameters when a share `done` of the run and so many episodes are behind us."""
        plan = self.plan
        numbers = Hyper(
            learning_rate=plan["learning_rate"] * self._rate(done),
            gamma=plan["gamma"],
            trace=plan["gae_lambda"],
            clip=plan.get("clip_range", 0.2) * (1.0 - done if plan.get("clip_schedule") == "linear" else 1.0),
            entropy=self.entropy(done, episodes),
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
            entropy_discrete=plan.get("entropy_weight_discrete", 1.0),
            entropy_continuous=plan.get("entropy_weight_continuous", 1.0),
            floor_discrete=plan.get("entropy_floor_discrete", NO_FLOOR_NATS),
            floor_continuous=plan.get("entropy_floor_continuous", NO_FLOOR_NATS),
            floor_weight=plan.get("entropy_floor_weight", 0.0),
        )
        # NumPy scalars: the compiled call takes them as they are, JAX ones cost a dispatch each.
        return Hyper(*(np.float32(number) for number in numbers[:-1]))

    def _rate(self, done: float) -> float:
        schedule = self.plan["learning_rate_schedule"]
        if schedule == "linear":
            return 1.0 - done
        return 0.5 * (1.0 + math.cos(math.pi * done)) if schedule == "cosine" else 1.0

    def entropy(self, done: float, episodes: int = 0) -> float:
        """The bonus: at its start value, then in a line to its end over the last `entropy_anneal` of the run.

        With `entropy_episodes` the line begins at once and goes by finished episodes.
        """
        start, end = self.plan["entropy_start"], self.plan["entropy_end"]
        if self.plan.get("entropy_episodes") is not None:
            return float(start + (end - start) * min(1.0, episodes / self.plan["entropy_episodes"]))
        share = self.plan["entropy_anneal"]
        if share <= 0:
            return float(start)
        along = min(1.0, max(0.0, (done - (1.0 - share)) / share))
        return float(start + (end - start) * along)
