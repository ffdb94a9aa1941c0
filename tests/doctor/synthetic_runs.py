"""Records of a healthy run of PPO, and changes to them."""

from __future__ import annotations

from typing import Any

from batchwright.doctor.run_history import Facts, RunHistory

HEALTHY_FACTS: dict[str, Any] = {
    "algo": "ppo",
    "regime": "on-policy",
    "discrete": True,
    "action_size": 1,
    "episode_steps": 500,
    "num_envs": 8,
    "rollout_steps": 256,
    "rollout_transitions": 2048,
    "minibatch_transitions": 64,
    "minibatches": 32,
    "epochs": 10,
    "updates_per_iteration": 320,
    "iterations": 40,
    "learning_rate": 3e-4,
    "gamma": 0.99,
    "clip_range": 0.2,
    "entropy_start": 0.01,
    "value_weight": 0.5,
    "max_grad_norm": 0.5,
    "normalize_obs": False,
    "normalize_rewards": False,
    "log_std_start": 0.0,
}


def healthy(iteration: int) -> dict[str, Any]:
    """Iteration k of 40: the return rises from 20 to 215, everything else lies in its reference range."""
    return {
        "iteration": iteration,
        "env_steps": 2048 * (iteration + 1),
        "episodes": 20,
        "episode_return": 20.0 + 5.0 * iteration,
        "episode_return_std": 10.0,
        "episode_length": 20.0 + 5.0 * iteration,
        "policy_loss": -0.01,
        "value_loss": 5.0,
        "loss": 2.5,
        "entropy": 0.69 - 0.01 * iteration,
        "entropy_coef": 0.01,
        "kl": 0.008,
        "clip_fraction": 0.1,
        "gradient_norm": 0.8,
        "policy_gradient_signal": 0.01 + 0.001 * (iteration % 3),
        "policy_gradient_noise": 5.0,
        "explained_variance": 0.8,
        "first_ratio_error": 1e-6,
        "learning_rate": 3e-4,
        "target_std": 10.0,
        "reward_abs_mean": 1.0,
        "reward_std": 0.1,
        "obs_abs_max": 3.0,
        "obs_std_min": 0.1,
        "obs_std_max": 1.0,
        "collect_seconds": 0.05,
        "update_seconds": 0.05,
    }


def history(facts: dict[str, Any] | None = None, events: tuple[dict[str, Any], ...] = (), **metrics: Any) -> RunHistory:
    """A healthy run with changed facts and metrics: a value, or a function of the iteration; None removes a metric."""
    records = []
    for iteration in range(40):
        record = healthy(iteration)
        for name, value in metrics.items():
            record |= {name.replace("__", "/"): value(iteration) if callable(value) else value}
        records.append({name: value for name, value in record.items() if value is not None})
    return RunHistory(records, Facts(HEALTHY_FACTS | (facts or {})), events)
