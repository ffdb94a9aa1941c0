"""A plan as keyword arguments of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan

CLASSES = {"ppo": "PPO", "a2c": "A2C", "sac": "SAC", "dqn": "DQN"}


def arguments(plan: Plan) -> dict[str, Any]:
    """`{"class", "n_envs", "total_timesteps", "kwargs"}` in Stable-Baselines3's own names."""
    if plan.algo not in CLASSES:
        raise UserError(
            f"a plan of {plan.algo} cannot be written for Stable-Baselines3; one of {', '.join(CLASSES)} can.",
            ["--algo ppo", "--algo a2c"],
        )
    if plan.get("rollout_episodes"):
        raise UserError(
            "Stable-Baselines3 rolls out a fixed number of steps, not whole episodes.",
            ["--rollout-steps 256 (without --rollout-episodes)"],
        )
    for name, flag in (("num_agents", "--num-agents"), ("seq_length", "--seq-length")):
        if plan.get(name, 1) > 1:
            raise UserError(f"Stable-Baselines3 has no {name}.", [f"leave out {flag}"])
    if plan.get("redistribute") or plan.get("episodic_reward"):
        flag = "--redistribute" if plan.get("redistribute") else "--episodic-reward"
        raise UserError("Stable-Baselines3 has no delayed rewards and no return decomposition.", [f"leave out {flag}"])
    kwargs: dict[str, Any] = {"learning_rate": plan["learning_rate"], "gamma": plan["gamma"]}
    kwargs |= _on_policy(plan) if plan.algo in ("ppo", "a2c") else _replay(plan)
    return {
        "class": CLASSES[plan.algo],
        "n_envs": plan["num_envs"],
        "total_timesteps": plan["total_steps"],
        "kwargs": kwargs,
    }


def _on_policy(plan: Plan) -> dict[str, Any]:
    kwargs = {
        "n_steps": plan["rollout_steps"],
        "ent_coef": plan["entropy_start"],
        "max_grad_norm": plan["max_grad_norm"],
    }
    if plan.algo == "ppo":
        return kwargs | {"batch_size": plan["minibatch_transitions"], "n_epochs": plan["epochs"]}
    if plan["updates_per_iteration"] != 1:
        raise UserError(
            f"A2C of Stable-Baselines3 makes one update per rollout, not {plan['updates_per_iteration']}.",
            ["--algo ppo", "--epochs 1 --minibatches 1"],
        )
    return kwargs | {"use_rms_prop": False}  # the plan's learning rate goes with Adam


def _replay(plan: Plan) -> dict[str, Any]:
    clip = {} if plan.get("max_grad_norm") is None else {"max_grad_norm": plan["max_grad_norm"]}
    if clip and plan.algo == "sac":
        raise UserError("SAC of Stable-Baselines3 does not clip gradients.", ["leave out --max-grad-norm"])
    return clip | {
        "train_freq": plan["rollout_steps"],
        "gradient_steps": plan["updates_per_iteration"],
        "batch_size": plan["transitions_per_update"],
        "buffer_size": plan["replay_transitions"],
        "learning_starts": plan["warmup_steps"],
    }


def limits(plan: Plan) -> list[str]:
    """Parts of the plan that Stable-Baselines3 does not carry out."""
    start, end = plan.get("entropy_start"), plan.get("entropy_end")
    return [f"ent_coef stays at {start}; the plan anneals it to {end}."] if start != end else []


def text(plan: Plan) -> str:
    """Python to paste."""
    found = arguments(plan)
    kwargs = ",\n".join(f"    {name}={value!r}" for name, value in found["kwargs"].items())
    env = plan.task.name or "YourEnv-v0"
    notes = "".join(f"# note: {line}\n" for line in limits(plan))
    return (
        f"{notes}from stable_baselines3 import {found['class']}\n"
        "from stable_baselines3.common.env_util import make_vec_env\n\n"
        f"env = make_vec_env({env!r}, n_envs={found['n_envs']})\n"
        f'model = {found["class"]}(\n    "MlpPolicy",\n    env,\n{kwargs},\n)\n'
        f"model.learn(total_timesteps={found['total_timesteps']})"
    )


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "sb3", **arguments(plan), "limits": limits(plan)}
