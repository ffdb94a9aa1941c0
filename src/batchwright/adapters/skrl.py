"""skrl: rows that do not fill a mini-batch are dropped in silence; a plan as its settings."""

from __future__ import annotations

from typing import Any

from batchwright.adapters.batch_check import (
    ACCEPTS,
    NAN,
    REFUSES,
    Batches,
    Verdict,
    floor_split,
    sizes,
    whole_minibatches,
)
from batchwright.adapters.plan_words import constant_entropy, not_carried, refuse_other_plans, yaml_lines
from batchwright.planning.plan import Plan
from batchwright.planning.split import Split

TITLE = "skrl"
TRIED = "2.1.1"
PACKAGE = "skrl"
WORDS = {
    "num_envs": "num_envs",
    "rollout_steps": "rollouts",
    "minibatches": "mini_batches",
    "seq_length": "sequence_length",
}
KNOBS = ("minibatches", "seq_length", "num_envs", "rollout_steps")
HOOK = "none: its metric names are not read"


def check(batches: Batches) -> Verdict:
    """Its memory cuts `rows // mini_batches` in order; with memory nearly equal parts.

    Models with memory view a mini-batch as sequences of `sequence_length`, as those of its documentation do.
    """
    batches = whole_minibatches(batches, TITLE, "mini_batches")
    parts, rows = int(batches.minibatches or 1), batches.rows
    if rows == 1:
        return Verdict(NAN, "the advantages of 1 row are normalised by their standard deviation, which is NaN.")
    if (batches.seq_length or 1) == 1:
        return floor_split(rows, parts)
    if parts > rows:
        return Verdict(NAN, f"{parts} mini-batches of {rows} rows: some are empty, and the mean of nothing is NaN.")
    split, seq = Split(rows, parts), int(batches.seq_length or 1)
    if split.large % seq or split.small % seq:
        wrong = split.large if split.large % seq else split.small
        return Verdict(REFUSES, f"shape '[-1, {seq}, ...]' is invalid for a mini-batch of {wrong} rows (in the model)")
    return Verdict(ACCEPTS, f"{parts} mini-batches: {split.formula()}.", 0, sizes(split.large, split.small))


def settings(plan: Plan) -> dict[str, Any]:
    """The keys of its PPO agent and trainer, in skrl's own names."""
    refuse_other_plans(plan, TITLE)
    return {
        "num_envs": plan["num_envs"],
        "agent": {
            "rollouts": plan["rollout_steps"],
            "learning_epochs": plan["epochs"],
            "mini_batches": plan["minibatches"],
            "discount_factor": plan["gamma"],
            "lambda": plan["gae_lambda"],
            "learning_rate": plan["learning_rate"],
            "ratio_clip": plan["clip_range"],
            "entropy_loss_scale": plan["entropy_start"],
            "value_loss_scale": plan["value_weight"],
            "kl_threshold": plan["kl_stop"],
            "grad_norm_clip": plan["max_grad_norm"],
        },
        "trainer": {"timesteps": plan["iterations"] * plan["rollout_steps"]},
    }


def limits(plan: Plan) -> list[str]:
    return constant_entropy(plan, "entropy_loss_scale") + not_carried(plan, ("kl_stop",), "rollout", adam_eps=1e-8)


def text(plan: Plan) -> str:
    return yaml_lines(settings(plan), limits(plan))


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "skrl", "config": settings(plan), "limits": limits(plan)}
