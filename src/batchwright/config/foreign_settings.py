"""Settings as other libraries write them: what each of their values is in ours, and which form a file has.

Names that are only other words for ours are in `aliases`; here are those whose value must be converted too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from batchwright.config.schema import ON_POLICY, REPLAY

SB3, RL_GAMES, RSL_RL = "Stable-Baselines3", "rl_games", "RSL-RL"
SB3_KEYWORDS = "keyword arguments of Stable-Baselines3"
"""A flat file, in which an unknown key is taken for a mistyped one of ours."""
Converted = dict[str, Any]
LINEAR = re.compile(r"lin_([0-9.eE+-]+)")
SB3_KL_FACTOR = 1.5
"""Stable-Baselines3 stops the epochs of a rollout when the KL exceeds 1.5 x target_kl."""


class NotCarried(Exception):  # noqa: N818 - a kind of answer, not an error
    """A setting of another library that has no place in ours; its text says why."""


def convert(key: str, value: Any, regime: str, form: str | None = None) -> Converted | None:
    """Our settings for one of theirs; None where the name is not known here. `form` is the library, if it is known."""
    folded = key.lower()
    if folded in NOT_CARRIED and form is not None and str(value).lower() in ("false", "-1"):
        return {}  # it is off there, too
    if folded in NOT_CARRIED:
        raise NotCarried(NOT_CARRIED[folded])
    if form is not None and folded in NO_MEANING:
        return {}
    if form in (SB3, SB3_KEYWORDS) and folded in SB3_ONLY:
        return SB3_ONLY[folded](value, regime)
    if form == RL_GAMES and folded == "normalize_advantage":
        return _rollout_advantages(value, regime)
    converter = CONVERTERS.get(folded)
    return None if converter is None else converter(value, regime)


def _entropy(value: Any, regime: str) -> Converted:
    if regime != REPLAY:
        return {"entropy_start": value, "entropy_end": value}
    text = str(value)
    if text.startswith("auto"):
        start = text.partition("_")[2]
        return {"learn_temperature": True, **({"temperature_start": start} if start else {})}
    return {"learn_temperature": False, "temperature_start": value}


def _rate(value: Any, regime: str) -> Converted:
    """A number, or `lin_NUMBER` of the RL Zoo: a constant rate, or one that falls to 0."""
    number, schedule = _scheduled(value)
    return {"learning_rate": number, "learning_rate_schedule": schedule}


def _clip(value: Any, regime: str) -> Converted:
    number, schedule = _scheduled(value)
    return {"clip_range": number, "clip_schedule": schedule}


def _scheduled(value: Any) -> tuple[Any, str]:
    found = LINEAR.fullmatch(str(value).strip())
    return (found.group(1), "linear") if found else (value, "constant")


def _normalize(value: Any, regime: str) -> Converted:
    """`true`, or the RL Zoo's text of keyword arguments of VecNormalize."""
    text = str(value).lower()
    obs, reward = (not re.search(rf"{name}\W+false", text) for name in ("norm_obs", "norm_reward"))
    if text in ("false", "no", "0"):
        obs = reward = False
    return {"normalize_obs": obs, **({"normalize_rewards": reward} if regime == ON_POLICY else {})}


def _rollout_advantages(value: Any, regime: str) -> Converted:
    return {"advantage_norm": "rollout" if _true(value) else "none"}


def _advantage_norm(value: Any, regime: str) -> Converted:
    return {"advantage_norm": "minibatch" if _true(value) else "none"}


def _true(value: Any) -> bool:
    return str(value).lower() in ("true", "yes", "on", "1")


def _anneal(value: Any, regime: str) -> Converted:
    return {"learning_rate_schedule": "linear" if _true(value) else "constant"}


def _value_clip(value: Any, regime: str) -> Converted:
    if _true(value):
        raise NotCarried("value clipping is in units of the return's std here; --value-clip 1 is near it")
    return {"value_clip": 0}


def _schedule(value: Any, regime: str) -> Converted:
    known = {"adaptive": "kl-adaptive", "linear": "linear"}
    return {"learning_rate_schedule": known.get(str(value).lower(), "constant")}


def _critic_coef(value: Any, regime: str) -> Converted:
    return {"value_weight": 0.5 * float(value)}  # rl_games halves it: loss = actor + 0.5 x critic x critic_coef


def _noise_std(value: Any, regime: str) -> Converted:
    return {"log_std_start": math.log(float(value))}


def _architecture(value: Any, regime: str) -> Converted:
    """`policy_kwargs` as the RL Zoo writes them: a text of Python, read for what we know and never run."""
    text, found = str(value), {}
    layers = set(re.findall(r"\[([0-9, ]+)\]", text))
    if "net_arch" in text and len(layers) == 1:
        found["hidden"] = layers.pop().replace(" ", "").strip(",")
    elif "net_arch" in text:
        raise NotCarried("actor and critic have one shape here: --hidden 64,64")
    activation = re.search(r"activation_fn\W+(?:nn\.|torch\.nn\.)?(ReLU|Tanh|ELU)", text)
    start = re.search(r"log_std_init\W*[=:]\s*(-?[0-9.]+)", text)
    found |= {"activation": activation.group(1).lower()} if activation else {}
    found |= {"log_std_start": start.group(1)} if start and regime == ON_POLICY else {}
    if not found:
        raise NotCarried("no part of it is known here")
    return found


def _tau(value: Any, regime: str) -> Converted:
    return {"polyak" if regime == REPLAY else "gae_lambda": value}


def _frequency(value: Any, regime: str) -> Converted:
    if isinstance(value, (list, tuple)) and len(value) == 2 and value[1] == "step":
        value = value[0]
    if not str(value).isdigit():
        raise NotCarried("updates after whole episodes; here after --rollout-steps N")
    return {"rollout_steps": value}


def _gradient_steps(value: Any, regime: str) -> Converted:
    if str(value) == "-1":
        raise NotCarried("as many updates as steps: that is the default here")
    return {"updates_per_iteration": value}


CONVERTERS: dict[str, Callable[[Any, str], Converted]] = {
    "ent_coef": _entropy,
    "entropy_coef": _entropy,
    "entropy_coeff": _entropy,
    "normalize": _normalize,
    "norm_adv": _advantage_norm,
    "normalize_advantage": _advantage_norm,
    "anneal_lr": _anneal,
    "clip_vloss": _value_clip,
    "clip_value": _value_clip,
    "use_clipped_value_loss": _value_clip,
    "lr_schedule": _schedule,
    "schedule": _schedule,
    "critic_coef": _critic_coef,
    "init_noise_std": _noise_std,
    "policy_kwargs": _architecture,
    "tau": _tau,
    "train_freq": _frequency,
    "gradient_steps": _gradient_steps,
}
"""By their name, whichever library it is of."""

SB3_ONLY: dict[str, Callable[[Any, str], Converted]] = {
    "learning_rate": _rate,
    "clip_range": _clip,
    "target_kl": lambda value, regime: {"kl_stop": SB3_KL_FACTOR * float(value)},
}
"""Names that mean something else in other libraries, or that are ours and constant in Stable-Baselines3."""

NO_MEANING = ("name", "env_name", "truncate_grads", "class_name", "verbose", "tensorboard_log", "save_interval")
"""Keys of other files that change nothing of the learning."""
NOT_CARRIED = {
    "use_sde": "state-dependent exploration is not built in",
    "sde_sample_freq": "state-dependent exploration is not built in",
    "env_wrapper": "wrap the environment in a factory: train file.py:make_env",
    "callback": "pass callback= in Python",
    "optimize_memory_usage": "neighbours share frames here always",
    "replay_buffer_class": "there is one replay buffer here",
    "replay_buffer_kwargs": "there is one replay buffer here",
    "reward_shaper": "scale rewards in a wrapper; --normalize-rewards divides them by their return's std",
    "bounds_loss_coef": "actions are clipped to their bounds, without a loss",
    "mixed_precision": "updates are float32",
    "torch_deterministic": "runs always repeat",
    "cuda": "JAX chooses its device",
    "device": "JAX chooses its device",
    "track": "--writers wandb",
    "capture_video": "batchwright eval RUN --video",
}
"""What has no place here, with what takes it."""

ZOO_MARKS = frozenset({"n_timesteps", "policy"})
SB3_MARKS = frozenset({"n_steps", "ent_coef", "vf_coef", "n_epochs", "learning_starts", "train_freq", "n_timesteps"})


def zoo_entry(keys: Mapping[str, Mapping[str, Any]], env: str | None) -> str | None:
    """The key of the RL Zoo's entry for an environment; None where a file is no such list."""
    entries = [key for key, content in keys.items() if ZOO_MARKS & set(content)]
    if not entries:
        return None
    if env in entries:
        return env
    return entries[0] if len(entries) == 1 else ""
