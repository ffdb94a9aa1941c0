"""The sick runs: what is planted, where, and which findings count as naming it. Written before any run was judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SICK = str(Path(__file__).with_name("sick_envs.py"))


@dataclass(frozen=True)
class Base:
    """A setting that is healthy within a short budget."""

    env: str
    settings: dict[str, Any]


BASES = {
    "cartpole": Base("CartPole-v1", {"preset": "ppo-cartpole", "total_steps": 40_000}),
    "acrobot": Base("Acrobot-v1", {"preset": "ppo-acrobot", "total_steps": 50_000, "num_envs": 8}),
    "pendulum": Base("Pendulum-v1", {"preset": "ppo-pendulum", "total_steps": 60_000}),
    "identity": Base(
        "IdentityContinuous-v0",
        {
            "num_envs": 8,
            "rollout_steps": 128,
            "minibatch_transitions": 128,
            "learning_rate": 1e-3,
            "total_steps": 30_000,
        },
    ),
    "choice": Base(
        "IdentityDiscrete-v0",
        {
            "num_envs": 8,
            "rollout_steps": 128,
            "minibatch_transitions": 128,
            "learning_rate": 1e-3,
            "total_steps": 30_000,
        },
    ),
    "deceptive": Base(
        f"{SICK}:deceptive",
        {
            "num_envs": 8,
            "rollout_steps": 64,
            "minibatch_transitions": 128,
            "epochs": 4,
            "learning_rate": 1e-3,
            "entropy_start": 0.2,
            "total_steps": 30_000,
        },
    ),
    "two-choices": Base(
        f"{SICK}:two_choices",
        {
            "num_envs": 8,
            "rollout_steps": 128,
            "minibatch_transitions": 128,
            "learning_rate": 1e-3,
            "total_steps": 30_000,
        },
    ),
    # Rollouts of a quarter of the preset's, so that the short budget holds as many as a whole run has.
    "lander": Base(
        "LunarLander-v3",
        {"preset": "ppo-lunarlander", "total_steps": 60_000, "num_envs": 8, "rollout_steps": 256, "engine": "envpool"},
    ),
    "reinforce": Base("CartPole-v1", {"preset": "reinforce-cartpole", "total_steps": 60_000}),
    "sac": Base(
        "IdentityContinuous-v0",
        {"algo": "sac", "hidden": "64,64", "learning_rate": 1e-3, "gamma": 0.5, "total_steps": 3_000},
    ),
    "rrd": Base(
        "IdentityContinuous-v0",
        {
            "algo": "sac",
            "redistribute": "rrd",
            "episodic_reward": True,
            "hidden": "64,64",
            "learning_rate": 1e-3,
            "gamma": 0.5,
            "total_steps": 3_000,
        },
    ),
    "a2c": Base("CartPole-v1", {"preset": "a2c-cartpole", "total_steps": 60_000}),
}


@dataclass(frozen=True)
class Fault:
    """One planted fault: the change to a base, and the findings that name its cause."""

    name: str
    base: str
    accepted: tuple[str, ...]
    change: dict[str, Any] = field(default_factory=dict)
    env: str | None = None
    """The environment instead of the base's, where the fault lies in it."""
    repairable: bool = True
    """Whether a flag can mend it: an environment's NaN and a frozen head cannot be mended by one."""
    network: str | None = None

    @property
    def key(self) -> str:
        return f"{self.name}@{self.base}"


def _sick(factory: str) -> str:
    return f"{SICK}:{factory}"


LR_HIGH = ("learning-rate-too-high",)
LR_LOW = ("learning-rate-too-low",)
FAULTS = (
    Fault("learning rate x 100", "cartpole", LR_HIGH, {"learning_rate": 0.1}),
    Fault("learning rate x 100", "pendulum", LR_HIGH, {"learning_rate": 0.1}),
    Fault("learning rate x 100", "lander", LR_HIGH, {"learning_rate": 0.03}),
    Fault("learning rate / 100", "cartpole", LR_LOW, {"learning_rate": 1e-5}),
    Fault("learning rate / 100", "acrobot", LR_LOW, {"learning_rate": 1e-5}),
    Fault("learning rate / 100", "identity", LR_LOW, {"learning_rate": 1e-5}),
    Fault("gamma 0.5", "acrobot", ("gamma-too-myopic",), {"gamma": 0.5}),
    Fault("gamma 0.5", "pendulum", ("gamma-too-myopic",), {"gamma": 0.5}),
    Fault("gamma 0.99999", "pendulum", ("gamma-too-long",), {"gamma": 0.99999}),
    Fault("gamma 0.99999", "identity", ("gamma-too-long",), {"gamma": 0.99999}),
    Fault("observations of odd scales", "cartpole", ("observation-scale",), env=_sick("cartpole_odd")),
    Fault(
        "observations of odd scales", "acrobot", ("observation-scale",), {"normalize_obs": False}, _sick("acrobot_odd")
    ),
    Fault("no entropy bonus, deceptive task", "deceptive", ("entropy-collapse",), {"entropy_start": 0.0}),
    Fault(
        "first spread of actions e^-4",
        "pendulum",
        ("entropy-collapse",),
        {"log_std_start": -4.0},
    ),
    Fault("entropy bonus 1", "cartpole", ("entropy-coef-too-high",), {"entropy_start": 1.0, "entropy_end": 1.0}),
    Fault("entropy bonus 1", "pendulum", ("entropy-coef-too-high",), {"entropy_start": 1.0, "entropy_end": 1.0}),
    Fault(
        "20 epochs on a small rollout",
        "acrobot",
        ("too-many-epochs", "overfitting-the-batch", "rollout-too-small"),
        {"num_envs": 4, "rollout_steps": 16, "minibatch_transitions": 32, "epochs": 20},
    ),
    Fault(
        "20 epochs on a small rollout",
        "pendulum",
        ("too-many-epochs", "overfitting-the-batch", "rollout-too-small"),
        {"num_envs": 4, "rollout_steps": 16, "minibatch_transitions": 32, "epochs": 20},
    ),
    Fault("minibatch of 4", "cartpole", ("minibatch-too-small",), {"minibatch_transitions": 4, "epochs": 4}),
    Fault("minibatch of 4", "identity", ("minibatch-too-small",), {"minibatch_transitions": 4, "epochs": 4}),
    Fault("one giant minibatch", "acrobot", ("too-few-minibatches",), {"minibatch_transitions": 999_999}),
    Fault("one giant minibatch", "choice", ("too-few-minibatches",), {"minibatch_transitions": 999_999, "epochs": 1}),
    Fault("rewards x 1e4", "cartpole", ("reward-scale",), env=_sick("cartpole_rewards_up")),
    Fault("rewards x 1e4", "pendulum", ("reward-scale",), env=_sick("pendulum_rewards_up")),
    Fault("rewards x 1e-4", "cartpole", ("reward-scale",), env=_sick("cartpole_rewards_down")),
    Fault("rewards x 1e-4", "pendulum", ("reward-scale",), env=_sick("pendulum_rewards_down")),
    Fault(
        "NaN rewards in one episode of 100",
        "cartpole",
        ("nan-from-environment",),
        env=_sick("cartpole_nan"),
        repairable=False,
    ),
    Fault(
        "infinite observations in one episode of 50",
        "pendulum",
        ("nan-from-environment",),
        env=_sick("pendulum_infinite"),
        repairable=False,
    ),
    Fault("frozen head", "two-choices", ("dead-head",), repairable=False, network="frozen"),
    Fault(
        "a rollout shorter than an episode",
        "reinforce",
        ("too-few-episodes", "rollout-too-small"),
        {"num_envs": 1, "rollout_steps": 32},
    ),
    Fault("gradient norm 1e-7", "cartpole", ("gradient-clip-too-tight",), {"max_grad_norm": 1e-7}),
    Fault("gradient norm 1e-7", "acrobot", ("gradient-clip-too-tight",), {"max_grad_norm": 1e-7}),
    Fault("clip range 10", "cartpole", ("clip-range-too-large",), {"clip_range": 10.0}),
    Fault("clip range 10", "acrobot", ("clip-range-too-large",), {"clip_range": 10.0}),
    Fault("clip range 1e-4", "cartpole", ("clip-range-too-small",), {"clip_range": 1e-4}),
    Fault("clip range 1e-4", "acrobot", ("clip-range-too-small",), {"clip_range": 1e-4}),
    Fault("value weight 0", "pendulum", ("values-not-learned",), {"value_weight": 0.0}),
    Fault("value weight 0", "acrobot", ("values-not-learned",), {"value_weight": 0.0}),
    Fault(
        "rollout of 32",
        "pendulum",
        ("rollout-too-small",),
        {"num_envs": 4, "rollout_steps": 8, "minibatch_transitions": 32},
    ),
    Fault(
        "rollout of 32",
        "acrobot",
        ("rollout-too-small",),
        {"num_envs": 4, "rollout_steps": 8, "minibatch_transitions": 32},
    ),
    Fault(
        "rollout of a third of the run",
        "cartpole",
        ("rollout-too-large",),
        {"num_envs": 8, "rollout_steps": 1664, "minibatch_transitions": 256},
    ),
    Fault("learning rate x 100", "sac", LR_HIGH, {"learning_rate": 0.1}),
    Fault("one update per 100 steps", "sac", ("replay-ratio",), {"updates_per_iteration": 1, "rollout_steps": 100}),
    Fault("constant returns for RRD", "rrd", ("rrd-constant-returns",), env=_sick("constant"), repairable=False),
    Fault("actions far outside their box", "pendulum", ("actions-clipped",), {"log_std_start": 2.0}),
)

# Presets that are shipped, defaults without a preset, and the bases above: none of them is ill.
HEALTHY: dict[str, Base] = {
    "ppo-cartpole": BASES["cartpole"],
    "ppo-cartpole, 100k": Base("CartPole-v1", {"preset": "ppo-cartpole"}),
    "ppo-acrobot": BASES["acrobot"],
    "ppo-pendulum": BASES["pendulum"],
    "ppo-lunarlander, short rollouts": BASES["lander"],
    "a2c-cartpole": BASES["a2c"],
    "reinforce-cartpole": BASES["reinforce"],
    "sac on identity": BASES["sac"],
    "sac with rrd on identity": BASES["rrd"],
    "identity, defaults": BASES["identity"],
    "choice, defaults": BASES["choice"],
    "two choices, defaults": BASES["two-choices"],
    "deceptive, entropy 0.2": BASES["deceptive"],
    "cartpole, defaults": Base("CartPole-v1", {"preset": "none", "total_steps": 60_000}),
    "acrobot, defaults": Base("Acrobot-v1", {"preset": "none", "total_steps": 60_000}),
    "discrete on cartpole": Base("CartPole-v1", {"preset": "discrete", "total_steps": 60_000}),
    "ppo-lunarlandercontinuous, short rollouts": Base(
        "LunarLanderContinuous-v3",
        {
            "preset": "ppo-lunarlandercontinuous",
            "total_steps": 60_000,
            "num_envs": 8,
            "rollout_steps": 256,
            "engine": "envpool",
        },
    ),
    "ppo-hopper": Base("Hopper-v5", {"preset": "ppo-hopper", "total_steps": 40_000, "engine": "envpool"}),
}
