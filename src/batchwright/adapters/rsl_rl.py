"""RSL-RL: rows that do not fill a minibatch are dropped in silence; a plan as its settings."""

from __future__ import annotations

from typing import Any

from batchwright.adapters.batch_check import NAN, Batches, Verdict, floor_split, whole_minibatches
from batchwright.adapters.plan_words import constant_entropy, not_carried, refuse_other_plans, yaml_lines
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
    adaptive = plan["learning_rate_schedule"] == "kl-adaptive"
    return {
        "num_envs": plan["num_envs"],
        "num_steps_per_env": plan["rollout_steps"],
        "max_iterations": plan["iterations"],
        "algorithm": {
            "num_learning_epochs": plan["epochs"],
            "num_mini_batches": plan["minibatches"],
            "learning_rate": plan["learning_rate"],
            "schedule": "adaptive" if adaptive else "fixed",
            **({"desired_kl": plan["kl_target"]} if adaptive else {}),
            "gamma": plan["gamma"],
            "lam": plan["gae_lambda"],
            "clip_param": plan["clip_range"],
            "entropy_coef": plan["entropy_start"],
            "value_loss_coef": plan["value_weight"],
            "use_clipped_value_loss": bool(plan["value_clip"]),
            "max_grad_norm": plan["max_grad_norm"],
        },
    }


def limits(plan: Plan) -> list[str]:
    found = constant_entropy(plan, "entropy_coef")
    if plan["value_clip"]:
        found.append(f"values are clipped by clip_param there; in the plan by {plan['value_clip']} x the return's std.")
    carried = {"value_clip", *(["learning_rate_schedule"] if plan["learning_rate_schedule"] == "kl-adaptive" else [])}
    return found + not_carried(plan, carried, "rollout", adam_eps=1e-8)


def text(plan: Plan) -> str:
    return yaml_lines(settings(plan), limits(plan))


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "rsl_rl", "config": settings(plan), "limits": limits(plan)}
