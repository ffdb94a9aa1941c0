"""Stable-Baselines3: a short last minibatch is kept; a plan as its keyword arguments."""

from __future__ import annotations

from typing import Any

from batchwright.adapters.batch_check import ACCEPTS, REFUSES, Batches, Verdict, sized_minibatches
from batchwright.adapters.plan_words import not_carried
from batchwright.core.errors import UserError
from batchwright.planning.network_plan import hidden_sizes
from batchwright.planning.plan import Plan

CLASSES = {"ppo": "PPO", "a2c": "A2C", "sac": "SAC", "dqn": "DQN"}

TITLE = "Stable-Baselines3"
TRIED = "2.9.2"
PACKAGE = "stable-baselines3"
WORDS = {"num_envs": "n_envs", "rollout_steps": "n_steps", "minibatch_size": "batch_size"}
KNOBS = ("minibatch_size", "num_envs", "rollout_steps")
HOOK = "batchwright.adapters.sb3_doctor.DoctorCallback"


def check(batches: Batches) -> Verdict:
    """Its buffer cuts a short last minibatch, of one row too, whose advantages are then not normalised."""
    batches = sized_minibatches(batches, TITLE, "batch_size")
    rows, size = batches.rows, int(batches.minibatch_size or 1)
    if size == 1:
        return Verdict(
            REFUSES,
            "`batch_size` must be greater than 1. See https://github.com/DLR-RM/stable-baselines3/issues/440",
        )
    if rows == 1:
        detail = "`n_steps * n_envs` must be greater than 1. Currently n_steps=1 and n_envs=1"
        return Verdict(REFUSES, detail)
    if size >= rows:
        return Verdict(ACCEPTS, f"1 minibatch of {rows} rows.", 0, (rows, rows))
    short = rows % size
    if short == 0:
        return Verdict(ACCEPTS, f"{rows // size} minibatches of {size} rows.", 0, (size, size))
    detail = f"{rows // size} minibatches of {size} rows, and a last one of {short}, with a warning."
    return Verdict(ACCEPTS, detail, 0, (size, short))


def arguments(plan: Plan) -> dict[str, Any]:
    """`{"class", "n_envs", "total_timesteps", "normalize", "kwargs"}` in Stable-Baselines3's own names."""
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
    kwargs: dict[str, Any] = {"learning_rate": _scheduled(plan, "learning_rate"), "gamma": plan["gamma"]}
    kwargs |= _on_policy(plan) if plan.algo in ("ppo", "a2c") else _replay(plan)
    kwargs |= {"seed": plan["seed"], "policy_kwargs": _policy_kwargs(plan)}
    return {
        "class": CLASSES[plan.algo],
        "n_envs": plan["num_envs"],
        "total_timesteps": plan["total_steps"],
        "normalize": _normalize(plan),
        "kwargs": kwargs,
    }


class Code(str):
    """A piece of Python in the printed program; text in JSON."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _scheduled(plan: Plan, name: str) -> Any:
    """A number, or a function of the remaining progress, 1 to 0."""
    number, schedule = plan[name], plan.get(f"{name.removesuffix('_range')}_schedule")
    if schedule == "linear":
        return Code(f"lambda remaining: {number!r} * remaining")
    if schedule == "cosine":
        return Code(f"lambda remaining: {number!r} * 0.5 * (1 + math.cos(math.pi * (1 - remaining)))")
    return number


def _normalize(plan: Plan) -> dict[str, Any]:
    """Keyword arguments of VecNormalize; empty where nothing is normalised."""
    obs, rewards = bool(plan.get("normalize_obs")), bool(plan.get("normalize_rewards"))
    return {"norm_obs": obs, "norm_reward": rewards, "gamma": plan["gamma"]} if obs or rewards else {}


def _policy_kwargs(plan: Plan) -> dict[str, Any]:
    """The network and Adam; a convolutional network is Stable-Baselines3's own."""
    found: dict[str, Any] = {}
    sizes = hidden_sizes(plan)
    if sizes is not None:
        activation = {"tanh": "Tanh", "relu": "ReLU", "elu": "ELU"}[plan["activation"]]
        found = {"net_arch": list(sizes), "activation_fn": Code(f"nn.{activation}")}
    if plan.get("log_std_start") and not plan.task.discrete:
        found["log_std_init"] = plan["log_std_start"]
    betas = (0.9, plan.get("adam_beta2", 0.999))
    return found | {"optimizer_kwargs": {"eps": plan.get("adam_eps", 1e-8), "betas": betas}}


def _on_policy(plan: Plan) -> dict[str, Any]:
    kwargs = {
        "n_steps": plan["rollout_steps"],
        "gae_lambda": plan["gae_lambda"],
        "ent_coef": plan["entropy_start"],
        "vf_coef": plan["value_weight"],
        "max_grad_norm": plan["max_grad_norm"],
        "normalize_advantage": plan["advantage_norm"] != "none",
    }
    if plan.algo == "ppo":
        stop = plan.get("kl_stop")
        target_kl = {"target_kl": stop / 1.5} if stop else {}  # it stops at 1.5 x target_kl
        return (
            kwargs
            | {
                "batch_size": plan["minibatch_transitions"],
                "n_epochs": plan["epochs"],
                "clip_range": _scheduled(plan, "clip_range"),
            }
            | target_kl
        )
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
    kwargs = clip | {
        "train_freq": plan["rollout_steps"],
        "gradient_steps": plan["updates_per_iteration"],
        "batch_size": plan["transitions_per_update"],
        "buffer_size": plan["replay_transitions"],
        "learning_starts": plan["warmup_steps"],
        "tau": plan["polyak"],
    }
    if plan.algo == "dqn":
        share, start, end = (plan[f"epsilon_{name}"] for name in ("share", "start", "end"))
        epsilon = {"exploration_fraction": share, "exploration_initial_eps": start, "exploration_final_eps": end}
        return kwargs | epsilon | {"target_update_interval": _target_steps(plan)}
    start = plan["temperature_start"]
    size = plan.task.action_size
    target = {} if size is None else {"target_entropy": plan["target_entropy"] * size}
    learned = {"ent_coef": f"auto_{start:g}", **target} if plan["learn_temperature"] else {"ent_coef": start}
    return kwargs | learned | {"target_update_interval": plan["updates_per_target"]}


def _target_steps(plan: Plan) -> int:
    """DQN there counts environment steps between target updates, we count updates."""
    per_iteration: int = plan["rollout_steps"] * plan["num_envs"]
    updates: int = plan["updates_per_iteration"]
    per_target: int = plan["updates_per_target"]
    return max(1, round(per_target * per_iteration / updates))


CARRIED = ("learning_rate_schedule", "clip_schedule", "normalize_obs", "normalize_rewards", "kl_stop")


def limits(plan: Plan) -> list[str]:
    """Parts of the plan that Stable-Baselines3 does not carry out."""
    start, end = plan.get("entropy_start"), plan.get("entropy_end")
    found = [f"ent_coef stays at {start}; the plan anneals it to {end}."] if start != end else []
    if plan.get("learning_rate_schedule") == "kl-adaptive":
        rate, target = plan["learning_rate"], plan["kl_target"]
        found.append(f"learning_rate stays at {rate}; the plan follows a KL target of {target}.")
    return found + not_carried(plan, CARRIED, "minibatch" if plan.algo == "ppo" else "")


def text(plan: Plan) -> str:
    """Python to paste."""
    found = arguments(plan)
    kwargs = ",\n".join(f"    {name}={value!r}" for name, value in found["kwargs"].items())
    env = plan.task.name or "YourEnv-v0"
    policy = "CnnPolicy" if hidden_sizes(plan) is None else "MlpPolicy"
    notes = "".join(f"# note: {line}\n" for line in limits(plan))
    lines = ["import math\n"] if "math." in kwargs else []
    lines.append(f"from stable_baselines3 import {found['class']}")
    lines.append("from stable_baselines3.common.env_util import make_vec_env")
    lines += ["from stable_baselines3.common.vec_env import VecNormalize"] if found["normalize"] else []
    lines += ["from torch import nn"] if "nn." in kwargs else []
    lines += ["", f"env = make_vec_env({env!r}, n_envs={found['n_envs']})"]
    if found["normalize"]:
        lines.append(f"env = VecNormalize(env, {', '.join(f'{k}={v!r}' for k, v in found['normalize'].items())})")
    lines += [f"model = {found['class']}(", f'    "{policy}",', "    env,", f"{kwargs},", ")"]
    lines.append(f"model.learn(total_timesteps={found['total_timesteps']})")
    return notes + "\n".join(lines)


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "sb3", **arguments(plan), "limits": limits(plan)}
