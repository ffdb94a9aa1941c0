"""rl_games and Isaac Lab: a plan as their settings, and `fit`, which makes any number of environments work.

`python -m batchwright.adapters.rl_games train.py ...` runs a training script with `fit` inside.
"""

from __future__ import annotations

import sys
from typing import Any

from batchwright.adapters.plan_words import not_carried, yaml_lines, yaml_scalar
from batchwright.adapters.rl_games_check import HOOK, KNOBS, PACKAGE, TITLE, TRIED, WORDS, check
from batchwright.adapters.rl_games_fit import DEFAULT_SEQ_LENGTH, Fit, fit
from batchwright.core.errors import UserError
from batchwright.planning.network_plan import hidden_sizes
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import DERIVED

__all__ = [
    "HOOK",
    "KNOBS",
    "PACKAGE",
    "TITLE",
    "TRIED",
    "WORDS",
    "Fit",
    "check",
    "fit",
    "settings",
    "text",
    "to_dict",
]


SCHEDULES = {"linear": "linear", "kl-adaptive": "adaptive"}
"""Every other word is a constant learning rate in rl_games."""
CARRIED = ("learning_rate_schedule", "clip_schedule", "value_clip", "popart", "normalize_obs", "weight_decay")
"""Carried, or with a note of its own in `limits`."""


def settings(plan: Plan) -> dict[str, Any]:
    """The keys of `params.config`, in rl_games' own names."""
    if plan.algo != "ppo":
        raise UserError(f"rl_games trains on-policy with PPO (it calls it a2c), not {plan.algo}.", ["--algo ppo"])
    if plan.get("rollout_episodes"):
        raise UserError(
            "rl_games rolls out a fixed number of steps, not whole episodes.",
            ["--rollout-steps 16 (without --rollout-episodes)"],
        )
    config: dict[str, Any] = {
        "num_actors": plan["num_envs"],
        "horizon_length": plan["rollout_steps"],
        "minibatch_size": plan["minibatch_transitions"],
        "mini_epochs": plan["epochs"],
        "max_epochs": plan["iterations"],
        "learning_rate": plan["learning_rate"],
        "lr_schedule": SCHEDULES.get(plan["learning_rate_schedule"], "constant"),
        **({"kl_threshold": plan["kl_target"]} if plan["learning_rate_schedule"] == "kl-adaptive" else {}),
        "gamma": plan["gamma"],
        "tau": plan["gae_lambda"],
        "e_clip": plan["clip_range"],
        "entropy_coef": plan["entropy_start"],
        "critic_coef": 2 * plan["value_weight"],  # rl_games halves it
        "clip_value": bool(plan["value_clip"]),
        "normalize_advantage": plan["advantage_norm"] != "none",
        "normalize_input": bool(plan["normalize_obs"]),
        "normalize_value": bool(plan["popart"]),
        "weight_decay": plan["weight_decay"],
        "grad_norm": plan["max_grad_norm"],
        "truncate_grads": True,  # without it rl_games ignores grad_norm
    }
    if plan.get("seq_length"):
        config["seq_length"] = plan["seq_length"]
    elif plan["rollout_transitions"] % DEFAULT_SEQ_LENGTH:
        config["seq_length"] = 1  # rl_games checks its default of 4 for networks without memory too
    return config


def network(plan: Plan) -> dict[str, Any]:
    """The keys of `params.network.mlp`; none where the network is a convolutional one."""
    sizes = hidden_sizes(plan)
    return {} if sizes is None else {"units": list(sizes), "activation": plan["activation"]}


def yaml_fragment(plan: Plan) -> str:
    """The part of a YAML file that the plan sets."""
    mlp = network(plan)
    parts = {"seed": plan["seed"], **({"network": {"mlp": mlp}} if mlp else {}), "config": settings(plan)}
    return yaml_lines({"params": parts}, [])


def overrides(plan: Plan) -> list[str]:
    """Hydra-style overrides for Isaac Lab; the number of environments belongs to the scene there."""
    config = settings(plan)
    envs = config.pop("num_actors")
    units = {name: str(value).replace(" ", "") for name, value in network(plan).items()}
    return [
        f"env.scene.num_envs={envs}",
        f"agent.params.seed={plan['seed']}",
        *(f"agent.params.network.mlp.{name}={value}" for name, value in units.items()),
        *(f"agent.params.config.{name}={yaml_scalar(value)}" for name, value in config.items()),
    ]


def batch_block(plan: Plan) -> str:
    """The block with the calculated batch sizes."""
    config = settings(plan)
    auto = " (auto-calculated)" if plan.quantities["minibatch_transitions"].source == DERIVED else ""
    return "\n".join(
        [
            "[INFO]: Batch configuration:",
            f"         num_envs = {config['num_actors']}",
            f"         horizon_length = {config['horizon_length']}",
            *([f"         num_agents = {plan['num_agents']}"] if plan.get("num_agents") else []),
            f"         batch_size = {plan['rollout_transitions']}",
            f"         minibatch_size = {config['minibatch_size']}{auto}",
            f"         mini_epochs = {config['mini_epochs']}",
        ]
    )


def limits(plan: Plan) -> list[str]:
    """Parts of the plan that rl_games does not carry out."""
    start, end = plan["entropy_start"], plan["entropy_end"]
    found = [f"rl_games keeps entropy_coef at {start}; the plan anneals it to {end}."] if start != end else []
    if plan["learning_rate_schedule"] == "cosine":
        found.append(f"rl_games has no cosine schedule: learning_rate stays at {plan['learning_rate']}.")
    if plan["clip_schedule"] != "constant":
        found.append(f"rl_games keeps e_clip at {plan['clip_range']}; the plan's schedule is {plan['clip_schedule']}.")
    if plan["value_clip"]:
        found.append(f"rl_games clips values by e_clip; the plan by {plan['value_clip']} x the return's std.")
    return found + not_carried(plan, CARRIED, "rollout", adam_eps=1e-8)


def text(plan: Plan) -> str:
    """Everything to paste."""
    block = batch_block(plan)  # refuses what rl_games does not train
    notes = "\n".join(f"# note: {line}" for line in limits(plan))
    return "\n\n".join(
        [
            block,
            *([notes] if notes else []),
            "# YAML\n" + yaml_fragment(plan),
            "# Hydra overrides (Isaac Lab)\n" + " \\\n  ".join(overrides(plan)),
        ]
    )


def to_dict(plan: Plan) -> dict[str, Any]:
    return {
        "trainer": "rl_games",
        "seed": plan["seed"],
        "network": {"mlp": network(plan)},
        "config": settings(plan),
        "yaml": yaml_fragment(plan),
        "overrides": overrides(plan),
        "limits": limits(plan),
    }


if __name__ == "__main__":
    from batchwright.adapters.rl_games_wrapper import main

    sys.exit(main(sys.argv[1:]))
