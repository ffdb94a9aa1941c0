"""RSL-RL: rows that do not fill a minibatch are dropped in silence; a plan as its settings."""

from __future__ import annotations

from typing import Any

from batchwright.adapters.batch_check import NAN, Batches, Verdict, floor_split, whole_minibatches
from batchwright.adapters.plan_words import constant_entropy, refuse_other_plans, yaml_lines
from batchwright.planning.plan import Plan

TITLE = "RSL-RL"
TRIED = "5.5.1"
PACKAGE = "rsl-rl-lib"
WORDS = {"num_envs": "num_envs", "rollout_steps": "num_steps_per_env", "minibatches": "num_mini_batches"}
KNOBS = ("minibatches", "num_envs", "rollout_steps")
HOOK = "batchwright.adapters.rsl_rl_doctor.DoctorLogger"


def check(batches: Batches) -> Verdict:
    """Its generators cut `rows // num_mini_batches`; with memory they cut whole environments."""
    batches = whole_minibatches(batches, TITLE, "num_mini_batches")
    parts = int(batches.minibatches or 1)
    if batches.rows == 1:
        return Verdict(NAN, "the advantages of 1 row are normalised by their standard deviation, which is NaN.")
    if not batches.recurrent:
        return floor_split(batches.rows, parts)
    found = floor_split(batches.num_envs, parts, "environments")
    steps = batches.rollout_steps
    rows = tuple(envs * steps for envs in found.minibatch_rows)
    return Verdict(found.outcome, found.detail, found.dropped_rows * steps, rows)


def settings(plan: Plan) -> dict[str, Any]:
    """The runner's and the algorithm's keys, in RSL-RL's own names."""
    refuse_other_plans(plan, TITLE)
    return {
        "num_envs": plan["num_envs"],
        "num_steps_per_env": plan["rollout_steps"],
        "max_iterations": plan["iterations"],
        "algorithm": {
            "num_learning_epochs": plan["epochs"],
            "num_mini_batches": plan["minibatches"],
            "learning_rate": plan["learning_rate"],
            "gamma": plan["gamma"],
            "lam": plan["gae_lambda"],
            "clip_param": plan["clip_range"],
            "entropy_coef": plan["entropy_start"],
            "max_grad_norm": plan["max_grad_norm"],
        },
    }


def limits(plan: Plan) -> list[str]:
    return constant_entropy(plan, "entropy_coef")


def text(plan: Plan) -> str:
    return yaml_lines(settings(plan), limits(plan))


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "rsl_rl", "config": settings(plan), "limits": limits(plan)}
