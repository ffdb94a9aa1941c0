"""CleanRL and ManiSkill's ppo.py: a remainder makes one more, short minibatch; a plan as their flags."""

from __future__ import annotations

from typing import Any

from batchwright.adapters.batch_check import ACCEPTS, NAN, REFUSES, Batches, Verdict, sizes, whole_minibatches
from batchwright.adapters.plan_words import constant_entropy, flag_words, not_carried, refuse_other_plans
from batchwright.planning.plan import Plan

TITLE = "CleanRL"
TRIED = "the formula of ppo.py and ppo_atari_lstm.py"
PACKAGE = None
WORDS = {"num_envs": "num_envs", "rollout_steps": "num_steps", "minibatches": "num_minibatches"}
KNOBS = ("minibatches", "num_envs", "rollout_steps")
HOOK = "batchwright doctor --follow LOG, on its TensorBoard file"


def check(batches: Batches) -> Verdict:
    """`minibatch_size = int(batch_size // num_minibatches)`, then `range(0, batch_size, minibatch_size)`."""
    batches = whole_minibatches(batches, TITLE, "num_minibatches")
    parts, rows = int(batches.minibatches or 1), batches.rows
    if batches.recurrent:
        if batches.num_envs % parts:
            return Verdict(REFUSES, "AssertionError: assert args.num_envs % args.num_minibatches == 0")
        size = batches.num_envs // parts * batches.rollout_steps
        return _one_row(size, parts) or Verdict(ACCEPTS, f"{parts} minibatches of {size} rows.", 0, (size, size))
    size = rows // parts
    if size == 0:
        return Verdict(REFUSES, "ValueError: range() arg 3 must not be zero")
    short = rows % size
    count = rows // size + bool(short)
    if found := _one_row(short or size, count):
        return found
    if short:
        detail = f"{count} minibatches, {parts} asked for: {rows // size} of {size} rows and a last one of {short}."
        return Verdict(ACCEPTS, detail, 0, sizes(size, short))
    return Verdict(ACCEPTS, f"{count} minibatches of {size} rows.", 0, (size, size))


def _one_row(smallest: int, count: int) -> Verdict | None:
    if smallest > 1:
        return None
    detail = f"the last of {count} minibatches has 1 row: the standard deviation of its advantages is NaN."
    return Verdict(NAN, detail, 0, (1,))


def settings(plan: Plan) -> dict[str, Any]:
    """Flags of ppo.py, with underscores."""
    refuse_other_plans(plan, TITLE)
    return {
        "total_timesteps": plan["total_steps"],
        "num_envs": plan["num_envs"],
        "num_steps": plan["rollout_steps"],
        "num_minibatches": plan["minibatches"],
        "update_epochs": plan["epochs"],
        "learning_rate": plan["learning_rate"],
        "gamma": plan["gamma"],
        "gae_lambda": plan["gae_lambda"],
        "clip_coef": plan["clip_range"],
        "ent_coef": plan["entropy_start"],
        "vf_coef": 2 * plan["value_weight"],  # CleanRL halves it
        "clip_vloss": False,
        "norm_adv": plan["advantage_norm"] != "none",
        "anneal_lr": plan["learning_rate_schedule"] == "linear",
        "max_grad_norm": plan["max_grad_norm"],
        **({"target_kl": plan["kl_stop"]} if plan["kl_stop"] else {}),
        "seed": plan["seed"],
    }


def limits(plan: Plan) -> list[str]:
    found = constant_entropy(plan, "ent_coef")
    linear = plan["learning_rate_schedule"] == "linear"
    carried = {"kl_stop", *(["learning_rate_schedule"] if linear else [])}
    return found + not_carried(plan, carried, "minibatch", adam_eps=1e-5)


def text(plan: Plan) -> str:
    env, flags = f" --env-id {plan.task.name}" if plan.task.name else "", flag_words(settings(plan))
    notes = "".join(f"# note: {note}\n" for note in limits(plan))
    return f"{notes}python ppo.py{env} \\\n{flags}"


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "cleanrl", "config": settings(plan), "limits": limits(plan)}
