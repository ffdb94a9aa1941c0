"""Trains Stable-Baselines3 and rl_games with what `batchwright plan --for NAME` prints, and reads their settings back.

Run with the interpreter of the peers' environment (README.md), with src on PYTHONPATH:

    PYTHONPATH=src .venv-peers/bin/python benchmarks/printed_settings.py --json benchmarks/results/printed_settings.json

Exits 1 where a trainer holds another number than the plan.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

import batchwright
from batchwright.adapters import rl_games, sb3
from batchwright.adapters.rl_games_child import VECENV, GymnasiumEnvs
from batchwright.planning.plan import Plan

ROOT = Path(__file__).parents[1]
ENV = "CartPole-v1"
RL_GAMES_BASE = ROOT / "docs" / "examples" / "rl_games_cartpole.yaml"
PLANS: dict[str, dict[str, Any]] = {
    "ppo": {"algo": "ppo"},
    "ppo, other numbers": {
        "algo": "ppo",
        "preset": "none",
        "num_envs": 3,
        "rollout_steps": 40,
        "minibatch_transitions": 30,
        "epochs": 2,
        "learning_rate": 0.0007,
        "gamma": 0.93,
        "gae_lambda": 0.7,
        "clip_range": 0.31,
        "entropy_start": 0.02,
        "entropy_end": 0.02,
        "value_weight": 0.9,
        "max_grad_norm": 3.0,
        "normalize_obs": True,
        "hidden": "24,16",
        "activation": "relu",
        "kl_stop": 0.09,
        "seed": 9,
    },
    "a2c": {"algo": "a2c", "preset": "none", "rollout_steps": 16, "epochs": 1, "minibatches": 1, "gae_lambda": 0.9},
    "dqn": {"algo": "dqn", "preset": "none", "warmup_steps": 64},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the result here")
    args = parser.parse_args()
    result: dict[str, Any] = {"versions": {name: metadata.version(name) for name in ("stable-baselines3", "rl-games")}}
    for name, wishes in PLANS.items():
        plan = planned(wishes, "sb3")
        result[f"sb3: {name}"] = compared(trained_sb3(plan), expected_of_sb3(plan))
        if plan.algo == "ppo":
            plan = planned(wishes, "rl_games")
            result[f"rl_games: {name}"] = compared(trained_rl_games(plan), expected_of_rl_games(plan))
    failed = False
    for name, part in result.items():
        if name != "versions":
            failed |= bool(part["different"])
            print(f"{name}: {len(part['equal'])} settings equal, different: {part['different'] or 'none'}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return int(failed)


def planned(wishes: dict[str, Any], trainer: str) -> Plan:
    preset = wishes.get("preset")
    settings = {name: value for name, value in wishes.items() if name != "preset"}
    return batchwright.plan(ENV, preset=preset, trainer=trainer, total_steps=480, **settings)


def compared(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    same = {name: _same(found.get(name), value) for name, value in expected.items()}
    return {
        "equal": [name for name, is_same in same.items() if is_same],
        "different": {name: [found.get(name), expected[name]] for name, is_same in same.items() if not is_same},
    }


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, int | float) and isinstance(two, int | float):
        return math.isclose(one, two, rel_tol=1e-9)
    return bool(one == two)


def trained_sb3(plan: Plan) -> dict[str, Any]:
    """The printed program, run; what the model holds afterwards."""
    scope: dict[str, Any] = {}
    exec(compile(sb3.text(plan), "printed", "exec"), scope)
    model = scope["model"]
    found = {"class": type(model).__name__, "steps": model.num_timesteps, "n_envs": model.n_envs, "seed": model.seed}
    for name in ("gamma", "gae_lambda", "n_steps", "batch_size", "n_epochs", "ent_coef", "vf_coef", "max_grad_norm",
                 "target_kl", "normalize_advantage", "buffer_size", "learning_starts", "tau"):  # fmt: skip
        if hasattr(model, name):
            found[name] = getattr(model, name)
    found["rate at the half"] = model.lr_schedule(0.5)
    if callable(getattr(model, "clip_range", None)):
        found["clip at the half"] = model.clip_range(0.5)
    optimiser = model.policy.optimizer
    found |= {"optimiser": type(optimiser).__name__, "eps": optimiser.defaults["eps"]}
    found["net_arch"] = list(model.policy_kwargs["net_arch"])
    found["activation"] = model.policy_kwargs["activation_fn"].__name__.lower()
    found["norm_obs"] = bool(getattr(model.env, "norm_obs", False))
    return found


def expected_of_sb3(plan: Plan) -> dict[str, Any]:
    rate = plan["learning_rate"] * (0.5 if plan.get("learning_rate_schedule") == "linear" else 1)
    found: dict[str, Any] = {"class": plan.algo.upper(), "n_envs": plan["num_envs"], "seed": plan["seed"]}
    found |= {"gamma": plan["gamma"], "rate at the half": rate, "eps": plan.get("adam_eps", 1e-8), "optimiser": "Adam"}
    found |= {"net_arch": [int(n) for n in str(plan["hidden"]).split(",")], "activation": plan["activation"]}
    found["norm_obs"] = bool(plan.get("normalize_obs"))
    if plan.algo == "dqn":
        return found | {
            "batch_size": plan["transitions_per_update"],
            "buffer_size": plan["replay_transitions"] // plan["num_envs"] * plan["num_envs"],
            "learning_starts": plan["warmup_steps"],
            "tau": plan["polyak"],
        }
    found |= {"n_steps": plan["rollout_steps"], "gae_lambda": plan["gae_lambda"], "ent_coef": plan["entropy_start"]}
    found |= {"vf_coef": plan["value_weight"], "max_grad_norm": plan["max_grad_norm"]}
    if plan.algo == "ppo":
        clip = plan["clip_range"] * (0.5 if plan["clip_schedule"] == "linear" else 1)
        found |= {"batch_size": plan["minibatch_transitions"], "n_epochs": plan["epochs"], "clip at the half": clip}
        found["target_kl"] = plan["kl_stop"] / 1.5 if plan["kl_stop"] else None
        found["normalize_advantage"] = plan["advantage_norm"] != "none"
    return found


def trained_rl_games(plan: Plan) -> dict[str, Any]:
    """The printed YAML over a whole config, trained by rl_games' Runner; what the agent holds afterwards."""
    from rl_games.common import env_configurations, vecenv
    from rl_games.torch_runner import Runner

    whole = yaml.safe_load(RL_GAMES_BASE.read_text(encoding="utf-8"))
    printed = yaml.safe_load(rl_games.yaml_fragment(plan))
    for section, part in printed["params"].items():
        if section == "network":
            whole["params"]["network"]["mlp"] |= part["mlp"]
        elif section == "config":
            whole["params"]["config"] |= part
        else:
            whole["params"][section] = part
    vecenv.register(VECENV, lambda name, actors, **kwargs: GymnasiumEnvs(ENV, actors, plan["seed"]))
    env_configurations.register(VECENV, {"vecenv_type": VECENV, "env_creator": lambda **kwargs: None})
    agents: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        whole["params"]["config"] |= {"env_name": VECENV, "device": "cpu", "torch_compile": False, "train_dir": folder}
        runner = Runner()
        runner.load(whole)
        build = runner.algo_factory.create
        runner.algo_factory.create = lambda *a, **k: agents.append(build(*a, **k)) or agents[-1]
        runner.run({"train": True, "play": False})
    agent = agents[0]
    names = ("num_actors", "horizon_length", "minibatch_size", "mini_epochs_num", "gamma", "tau", "e_clip",
             "entropy_coef", "critic_coef", "clip_value", "normalize_advantage", "normalize_input", "normalize_value",
             "weight_decay", "grad_norm", "truncate_grads", "linear_lr", "is_adaptive_lr", "max_epochs")  # fmt: skip
    found = {name: getattr(agent, name) for name in names}
    layers = [module for module in agent.model.modules() if type(module).__name__ == "Linear"]
    found |= {"first rate": agent.config["learning_rate"], "epochs done": agent.epoch_num}
    found |= {"eps": agent.optimizer.defaults["eps"], "widths": [layer.out_features for layer in layers[:2]]}
    return found | {"seed": whole["params"]["seed"]}


def expected_of_rl_games(plan: Plan) -> dict[str, Any]:
    return {
        "num_actors": plan["num_envs"],
        "horizon_length": plan["rollout_steps"],
        "minibatch_size": plan["minibatch_transitions"],
        "mini_epochs_num": plan["epochs"],
        "max_epochs": plan["iterations"],
        "epochs done": plan["iterations"],
        "first rate": plan["learning_rate"],
        "linear_lr": plan["learning_rate_schedule"] == "linear",
        "is_adaptive_lr": plan["learning_rate_schedule"] == "kl-adaptive",
        "gamma": plan["gamma"],
        "tau": plan["gae_lambda"],
        "e_clip": plan["clip_range"],
        "entropy_coef": plan["entropy_start"],
        "critic_coef": 2 * plan["value_weight"],
        "clip_value": bool(plan["value_clip"]),
        "normalize_advantage": plan["advantage_norm"] != "none",
        "normalize_input": bool(plan["normalize_obs"]),
        "normalize_value": bool(plan["popart"]),
        "weight_decay": plan["weight_decay"],
        "grad_norm": plan["max_grad_norm"],
        "truncate_grads": True,
        "widths": [int(n) for n in str(plan["hidden"]).split(",")],
        "seed": plan["seed"],
    }


if __name__ == "__main__":
    raise SystemExit(main())
