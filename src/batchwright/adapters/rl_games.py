"""rl_games and Isaac Lab: a plan as their settings, and `fit`, which makes any number of environments work.

`python -m batchwright.adapters.rl_games train.py ...` runs a training script with `fit` inside.
"""

from __future__ import annotations

import sys
from typing import Any

from batchwright.adapters.plan_words import yaml_scalar
from batchwright.adapters.rl_games_check import HOOK, KNOBS, PACKAGE, TITLE, TRIED, WORDS, check
from batchwright.adapters.rl_games_fit import DEFAULT_SEQ_LENGTH, Fit, fit
from batchwright.core.errors import UserError
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
        "gamma": plan["gamma"],
        "entropy_coef": plan["entropy_start"],
        "grad_norm": plan["max_grad_norm"],
        "truncate_grads": True,  # without it rl_games ignores grad_norm
    }
    if plan.get("seq_length"):
        config["seq_length"] = plan["seq_length"]
    elif plan["rollout_transitions"] % DEFAULT_SEQ_LENGTH:
        config["seq_length"] = 1  # rl_games checks its default of 4 for networks without memory too
    return config


def yaml_fragment(plan: Plan) -> str:
    """The part of a YAML file that the plan sets."""
    lines = [f"    {name}: {yaml_scalar(value)}" for name, value in settings(plan).items()]
    return "\n".join(["params:", "  config:", *lines])


def overrides(plan: Plan) -> list[str]:
    """Hydra-style overrides for Isaac Lab; the number of environments belongs to the scene there."""
    config = settings(plan)
    envs = config.pop("num_actors")
    return [
        f"env.scene.num_envs={envs}",
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
    return [f"rl_games keeps entropy_coef at {start}; the plan anneals it to {end}."] if start != end else []


def text(plan: Plan) -> str:
    """Everything to paste."""
    return "\n\n".join(
        [
            batch_block(plan),
            *(f"# note: {line}" for line in limits(plan)),
            "# YAML\n" + yaml_fragment(plan),
            "# Hydra overrides (Isaac Lab)\n" + " \\\n  ".join(overrides(plan)),
        ]
    )


def to_dict(plan: Plan) -> dict[str, Any]:
    return {
        "trainer": "rl_games",
        "config": settings(plan),
        "yaml": yaml_fragment(plan),
        "overrides": overrides(plan),
        "limits": limits(plan),
    }


if __name__ == "__main__":
    from batchwright.adapters.rl_games_wrapper import main

    sys.exit(main(sys.argv[1:]))
