"""brax and MuJoCo Playground: whole unrolls must fill the minibatches; a plan as arguments of ppo.train."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from batchwright.adapters.batch_check import ACCEPTS, REFUSES, Batches, Verdict, smallest_repeat
from batchwright.adapters.plan_words import constant_entropy, not_carried, refuse_other_plans
from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan

TITLE = "brax"
TRIED = "0.14.2"
PACKAGE = "brax"
WORDS = {
    "num_envs": "num_envs",
    "rollout_steps": "unroll_length",
    "minibatch_size": "batch_size",
    "minibatches": "num_minibatches",
}
KNOBS = ("minibatch_size", "minibatches", "num_envs")
HOOK = "its progress_fn; batchwright doctor reads no log of it"


def check(batches: Batches) -> Verdict:
    """`batch_size` counts unrolls, not rows. Both asserts come without a message."""
    if batches.minibatches is None and batches.minibatch_size is None:
        raise UserError("brax needs batch_size and num_minibatches.", ["--minibatch-size 1024 --minibatches 32"])
    batches = _complete(batches)
    unrolls = int(batches.minibatch_size or 1) * int(batches.minibatches or 1)
    if unrolls % batches.num_envs:
        return Verdict(REFUSES, "AssertionError: assert batch_size * num_minibatches % num_envs == 0")
    if batches.num_envs % batches.devices:
        return Verdict(REFUSES, "AssertionError: assert num_envs % device_count == 0")
    rows = int(batches.minibatch_size or 1) * batches.rollout_steps
    repeats = unrolls // batches.num_envs
    detail = f"{batches.minibatches} minibatches of {rows} rows, from {repeats} unrolls of every environment."
    return Verdict(ACCEPTS, detail, 0, (rows, rows))


def _complete(batches: Batches) -> Batches:
    """One of the two numbers may be left out where it follows from one unroll of every environment."""
    for stated, other in (("minibatches", "minibatch_size"), ("minibatch_size", "minibatches")):
        number = getattr(batches, stated)
        if getattr(batches, other) is None:
            if batches.num_envs % number:
                reason = f"{WORDS[stated]} {number} does not divide {batches.num_envs} environments"
                raise UserError(f"{reason}; state {WORDS[other]} too.", ["--minibatch-size 256 --minibatches 4"])
            return replace(batches, **{other: batches.num_envs // number})
    return batches


def settings(plan: Plan) -> dict[str, Any]:
    """Arguments of ppo.train. An iteration of ours is `repeats` unrolls of brax."""
    refuse_other_plans(plan, TITLE)
    repeats = smallest_repeat(plan["num_envs"], plan["minibatches"])
    return {
        "num_timesteps": plan["total_steps"],
        "num_envs": plan["num_envs"],
        "unroll_length": plan["rollout_steps"] // repeats,
        "batch_size": plan["num_envs"] * repeats // plan["minibatches"],
        "num_minibatches": plan["minibatches"],
        "num_updates_per_batch": plan["epochs"],
        "learning_rate": plan["learning_rate"],
        "discounting": plan["gamma"],
        "gae_lambda": plan["gae_lambda"],
        "clipping_epsilon": plan["clip_range"],
        "entropy_cost": plan["entropy_start"],
        "vf_loss_coefficient": 2 * plan["value_weight"],  # brax halves it
        "normalize_observations": bool(plan["normalize_obs"]),
        "normalize_advantage": plan["advantage_norm"] != "none",
        "seed": plan["seed"],
        "max_grad_norm": plan["max_grad_norm"],
    }


def limits(plan: Plan) -> list[str]:
    return constant_entropy(plan, "entropy_cost") + not_carried(plan, ("normalize_obs",), "minibatch", adam_eps=1e-8)


def text(plan: Plan) -> str:
    arguments = "".join(f"    {name}={value!r},\n" for name, value in settings(plan).items())
    notes = "".join(f"# note: {note}\n" for note in limits(plan))
    return f"{notes}from brax.training.agents.ppo import train as ppo\n\nppo.train(\n    environment,\n{arguments})"


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "brax", "config": settings(plan), "limits": limits(plan)}
