"""PufferLib 3.0: minibatches of whole segments, drawn with replacement; a plan as its settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from batchwright.adapters.batch_check import ACCEPTS, REFUSES, Batches, Verdict, sized_minibatches
from batchwright.adapters.plan_words import constant_entropy, not_carried, refuse_other_plans, yaml_lines
from batchwright.planning.plan import Plan
from batchwright.planning.split import divisors_of_product, nearest_in_ratio

TITLE = "PufferLib"
TRIED = "3.0, read and not run"
PACKAGE = "pufferlib"
WORDS = {
    "num_envs": "num_envs",
    "rollout_steps": "horizon",
    "minibatch_size": "minibatch_size",
    "seq_length": "bptt_horizon",
}
KNOBS = ("minibatch_size", "seq_length", "num_envs", "rollout_steps")
HOOK = "none"


def check(batches: Batches) -> Verdict:
    """`rollout_steps` x agents is its batch_size; `seq_length` its bptt_horizon, the whole rollout where not stated."""
    batches = sized_minibatches(batches, TITLE, "minibatch_size")
    batches = replace(batches, seq_length=batches.seq_length or batches.rollout_steps)
    rows, size, horizon = batches.rows, int(batches.minibatch_size or 1), int(batches.seq_length or 1)
    agents, segments = batches.num_envs * batches.num_agents, rows // horizon
    if agents > segments:  # the message has its comparison the wrong way round
        return Verdict(REFUSES, f"Total agents {agents} <= segments {segments}")
    if rows < size:
        return Verdict(REFUSES, f"batch_size {rows} must be >= minibatch_size {size}")
    if size % horizon:
        return Verdict(REFUSES, f"minibatch_size {size} must be divisible by bptt_horizon {horizon}")
    detail = f"{size // horizon} segments of {horizon} steps in a minibatch, drawn with replacement from {segments}."
    return Verdict(ACCEPTS, detail, 0, (size, size))


def settings(plan: Plan) -> dict[str, Any]:
    """The sections vec and train of its config; a minibatch holds whole rollouts of environments."""
    refuse_other_plans(plan, TITLE)
    envs, steps = plan["num_envs"], plan["rollout_steps"]
    legal = [steps * count for count in divisors_of_product(envs)]
    return {
        "vec": {"num_envs": envs},
        "train": {
            "total_timesteps": plan["total_steps"],
            "batch_size": plan["rollout_transitions"],
            "bptt_horizon": steps,
            "minibatch_size": nearest_in_ratio(legal, plan["minibatch_transitions"]),
            "update_epochs": plan["epochs"],
            "learning_rate": plan["learning_rate"],
            "gamma": plan["gamma"],
            "gae_lambda": plan["gae_lambda"],
            "clip_coef": plan["clip_range"],
            "ent_coef": plan["entropy_start"],
            "vf_coef": 2 * plan["value_weight"],  # PufferLib halves it
            "anneal_lr": plan["learning_rate_schedule"] == "linear",
            "adam_eps": plan["adam_eps"],
            "max_grad_norm": plan["max_grad_norm"],
        },
    }


def limits(plan: Plan) -> list[str]:
    size, planned = settings(plan)["train"]["minibatch_size"], plan["minibatch_transitions"]
    steps = plan["rollout_steps"]
    changed = f"minibatch_size is {size}, the plan has {planned}: it must hold whole segments of {steps} steps."
    linear = plan["learning_rate_schedule"] == "linear"
    left_out = not_carried(plan, ("learning_rate_schedule",) if linear else (), "minibatch")
    return [*([changed] if size != planned else []), *constant_entropy(plan, "ent_coef"), *left_out]


def text(plan: Plan) -> str:
    return yaml_lines(settings(plan), limits(plan))


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "pufferlib", "config": settings(plan), "limits": limits(plan)}
