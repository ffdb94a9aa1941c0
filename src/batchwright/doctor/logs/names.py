"""Names of metrics and settings in other trainers, and ours for them."""

from __future__ import annotations

from dataclasses import replace

from batchwright.doctor.finding import Finding

# Their name -> ours. SB3: logger keys of PPO, A2C, SAC, DQN. CleanRL: tags of its single files. rl_games: a2c_common.
# RSL-RL: tags of its logger.
SB3 = {
    "rollout/ep_rew_mean": "episode_return",
    "rollout/ep_len_mean": "episode_length",
    "rollout/success_rate": "success_rate",
    "eval/mean_reward": "eval_mean",
    "eval/mean_ep_length": "eval_length_mean",
    "time/total_timesteps": "env_steps",
    "time/fps": "steps_per_second",
    "time/iterations": "iteration",
    "train/approx_kl": "kl",
    "train/clip_fraction": "clip_fraction",
    "train/clip_range": "clip_range",
    "train/entropy_loss": "-entropy",
    "train/explained_variance": "explained_variance",
    "train/learning_rate": "learning_rate",
    "train/loss": "loss",
    "train/n_updates": "epochs_total",
    "train/policy_gradient_loss": "policy_loss",
    "train/policy_loss": "policy_loss",
    "train/value_loss": "value_loss",
    "train/std": "action_std",
    "train/actor_loss": "actor_loss",
    "train/critic_loss": "critic_loss",
    "train/ent_coef": "temperature",
}
CLEANRL = {
    "charts/episodic_return": "episode_return",
    "charts/episodic_length": "episode_length",
    "charts/SPS": "steps_per_second",
    "charts/learning_rate": "learning_rate",
    "losses/approx_kl": "kl",
    "losses/old_approx_kl": "kl_first_order",
    "losses/clipfrac": "clip_fraction",
    "losses/entropy": "entropy",
    "losses/explained_variance": "explained_variance",
    "losses/policy_loss": "policy_loss",
    "losses/value_loss": "value_loss",
    "losses/actor_loss": "actor_loss",
    "losses/qf_loss": "critic_loss",
    "losses/qf1_values": "q_mean",
    "losses/q_values": "q_mean",
    "losses/td_loss": "critic_loss",
    "losses/alpha": "temperature",
    "global_step": "env_steps",
}
RL_GAMES = {
    "rewards/step": "episode_return",
    "episode_lengths/step": "episode_length",
    "losses/a_loss": "policy_loss",
    "losses/c_loss": "value_loss",
    "losses/entropy": "entropy",
    "losses/bounds_loss": "bounds_loss",
    "info/kl": "kl",
    "info/last_lr": "learning_rate",
    "info/e_clip": "clip_range",
    "info/epochs": "iteration",
    "diagnostics/clip_frac/0": "clip_fraction",
    "diagnostics/exp_var": "explained_variance",
    "performance/step_inference_rl_update_fps": "steps_per_second",
    "performance/rl_update_time": "update_seconds",
    "performance/step_inference_time": "collect_seconds",
}
RSL_RL = {
    "Train/mean_reward": "episode_return",
    "Train/mean_episode_length": "episode_length",
    "Loss/surrogate": "policy_loss",
    "Loss/value": "value_loss",
    "Loss/value_function": "value_loss",
    "Loss/entropy": "entropy",
    "Loss/learning_rate": "learning_rate",
    "Policy/mean_std": "action_std",
    "Policy/mean_noise_std": "action_std",
    "Perf/total_fps": "steps_per_second",
    "Perf/collection_time": "collect_seconds",
    "Perf/learning_time": "update_seconds",
}
TRAINERS: dict[str, dict[str, str]] = {"sb3": SB3, "cleanrl": CLEANRL, "rl_games": RL_GAMES, "rsl_rl": RSL_RL}


def recognise(names: set[str]) -> str | None:
    """The trainer that shares the most metric names with a log; None where none is shared."""
    hits = {trainer: len(names & set(table)) for trainer, table in TRAINERS.items()}
    best = max(hits, key=lambda trainer: hits[trainer])
    return best if hits[best] else None


def translated(trainer: str, name: str, value: float) -> tuple[str, float] | None:
    """Our name and value of a metric; None for one that is not used. A leading minus in the table flips the sign."""
    ours = TRAINERS[trainer].get(name)
    if ours is None:
        return None
    return (ours[1:], -value) if ours.startswith("-") else (ours, value)


# Our flag -> the setting of the other trainer; {} is replaced by the value.
SETTINGS: dict[str, dict[str, str]] = {
    "sb3": {
        "--learning-rate": "learning_rate={}",
        "--rollout-steps": "n_steps={}",
        "--num-envs": "make_vec_env(..., n_envs={})",
        "--minibatch-transitions": "batch_size={}",
        "--epochs": "n_epochs={}",
        "--gamma": "gamma={}",
        "--clip-range": "clip_range={}",
        "--entropy-start": "ent_coef={}",
        "--value-weight": "vf_coef={}",
        "--max-grad-norm": "max_grad_norm={}",
        "--kl-stop": "target_kl={}",
        "--normalize-obs": "VecNormalize(norm_obs=True)",
        "--normalize-rewards": "VecNormalize(norm_reward=True)",
        "--updates-per-iteration": "gradient_steps={}",
        "--log-std-start": 'policy_kwargs={{"log_std_init": {}}}',
    },
    "cleanrl": {
        "--learning-rate": "--learning-rate {}",
        "--rollout-steps": "--num-steps {}",
        "--num-envs": "--num-envs {}",
        "--epochs": "--update-epochs {}",
        "--gamma": "--gamma {}",
        "--clip-range": "--clip-coef {}",
        "--entropy-start": "--ent-coef {}",
        "--value-weight": "--vf-coef {}",
        "--max-grad-norm": "--max-grad-norm {}",
        "--kl-stop": "--target-kl {}",
        "--normalize-obs": "gym.wrappers.NormalizeObservation",
        "--normalize-rewards": "gym.wrappers.NormalizeReward",
    },
    "rl_games": {
        "--learning-rate": "learning_rate: {}",
        "--rollout-steps": "horizon_length: {}",
        "--num-envs": "num_actors: {}",
        "--minibatch-transitions": "minibatch_size: {}",
        "--epochs": "mini_epochs: {}",
        "--gamma": "gamma: {}",
        "--clip-range": "e_clip: {}",
        "--entropy-start": "entropy_coef: {}",
        "--value-weight": "critic_coef: {}",
        "--max-grad-norm": "grad_norm: {}",
        "--kl-stop": "kl_threshold: {}",
        "--normalize-obs": "normalize_input: True",
        "--normalize-rewards": "normalize_value: True",
    },
    "rsl_rl": {
        "--learning-rate": "learning_rate: {}",
        "--rollout-steps": "num_steps_per_env: {}",
        "--num-envs": "num_envs: {}",
        "--minibatches": "num_mini_batches: {}",
        "--epochs": "num_learning_epochs: {}",
        "--gamma": "gamma: {}",
        "--gae-lambda": "lam: {}",
        "--clip-range": "clip_param: {}",
        "--entropy-start": "entropy_coef: {}",
        "--value-weight": "value_loss_coef: {}",
        "--max-grad-norm": "max_grad_norm: {}",
        "--kl-stop": "desired_kl: {}",
        "--normalize-obs": "obs_normalization: true",
    },
}


def as_trainer_settings(trainer: str, flags: str) -> str:
    """Our flags as settings of the other trainer; flags without an equivalent are left out."""
    words, settings = flags.split(), []
    while words:
        name = words.pop(0)
        value = words.pop(0) if words and not words[0].startswith("--") else ""
        pattern = SETTINGS[trainer].get(name)
        settings += [pattern.format(value)] if pattern is not None else []
    return {"sb3": ", ", "cleanrl": " ", "rl_games": "; ", "rsl_rl": "; "}[trainer].join(settings)


def in_trainer_settings(trainer: str, finding: Finding) -> Finding:
    """The finding with its flags as settings of the other trainer."""
    settings = (as_trainer_settings(trainer, flags) for flags in finding.flags)
    return replace(finding, flags=tuple(dict.fromkeys(text for text in settings if text)))
