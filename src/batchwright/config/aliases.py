"""Names that other trainers and texts use for our settings, and what each maps to.

One table for YAML files, flags and Python: Stable-Baselines3 and the RL Zoo, CleanRL, rl_games, RSL-RL. Names whose
value must be converted too are in `foreign_settings`. "Batch size" has a different meaning in each of them; the regime
decides which of our settings it is.
"""

from __future__ import annotations

from batchwright.config.foreign_settings import CONVERTERS
from batchwright.config.schema import DATASET, FIELDS, ON_POLICY, RECORDED, REPLAY
from batchwright.core.errors import did_you_mean

ALIASES = {
    "lr": "learning_rate",
    "n_timesteps": "total_steps",
    "num_steps": "rollout_steps",
    "num_steps_per_env": "rollout_steps",
    "num_minibatches": "minibatches",
    "num_mini_batches": "minibatches",
    "num_learning_epochs": "epochs",
    "clip_coef": "clip_range",
    "clip_param": "clip_range",
    "e_clip": "clip_range",
    "lam": "gae_lambda",
    "vf_coef": "value_weight",
    "value_loss_coef": "value_weight",
    "target_kl": "kl_stop",
    "desired_kl": "kl_target",
    "kl_threshold": "kl_target",
    "grad_norm": "max_grad_norm",
    "normalize_input": "normalize_obs",
    "normalize_observations": "normalize_obs",
    "normalize_value": "popart",
    "weight_decay_l2": "weight_decay",
    "units": "hidden",
    "hidden_dims": "hidden",
    "actor_hidden_dims": "hidden",
    "net_arch": "hidden",
    "learning_starts": "warmup_steps",
    "target_update_interval": "updates_per_target",
    "exploration_fraction": "epsilon_share",
    "exploration_initial_eps": "epsilon_start",
    "exploration_final_eps": "epsilon_end",
    "noise_std": "exploration_noise",
    "eval_freq": "eval_every",
    "n_eval_episodes": "eval_episodes",
    "env_id": "env",
    "rollout_batch_size": "rollout_episodes",
    "update_epochs": "epochs",
    "mini_epochs": "epochs",
    "n_epochs": "epochs",
    "minibatch_size": "minibatch_transitions",
    "minibatch": "minibatch_transitions",
    "n_envs": "num_envs",
    "num_actors": "num_envs",
    "n_steps": "rollout_steps",
    "horizon_length": "rollout_steps",
    "total_timesteps": "total_steps",
    "train_batches": "updates_per_iteration",
    "rrd_batch_size": "rrd_timesteps_per_update",
    "rrd_sample_size": "subsequence_timesteps",
    "buffer_size": "replay_transitions",
    "num_workers": "workers",
    "gradient_accumulation_steps": "accumulation",
}

BATCH_SIZE_BY_REGIME = {
    ON_POLICY: "minibatch_transitions",
    REPLAY: "transitions_per_update",
    DATASET: "samples_per_step",
    RECORDED: "rrd_timesteps_per_update",
}

# Sections in which other trainers keep these names; they only group, and add no meaning.
FOREIGN_SECTIONS = ("trainer", "training")

# What decides the meaning of "batch_size" in a file that names neither algorithm nor policy.
REPLAY_MARKS = frozenset({"train_batches", "rrd_batch_size", "rrd_sample_size"})
DATASET_MARKS = frozenset({"num_workers", "gradient_accumulation_steps"})


def canonical(key: str, regime: str) -> str | None:
    """Our name for a key as written (any case), or None where it is unknown."""
    folded = key.lower()
    if folded in FIELDS:
        return folded
    if folded == "batch_size":
        return BATCH_SIZE_BY_REGIME[regime]
    return ALIASES.get(folded)


def known_keys() -> list[str]:
    """Every key that may be written in a file."""
    return [*FIELDS, *ALIASES, *CONVERTERS, "batch_size", "preset"]


def our_names(key: str) -> list[str]:
    """Our names nearest to an unknown key; the nearest may be another library's word for one of ours."""
    close = did_you_mean(key, known_keys())
    named = [ALIASES.get(word, word) for word in close]
    return list(dict.fromkeys(named))
