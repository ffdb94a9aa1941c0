"""The doctor as a callback of Stable-Baselines3: `model.learn(..., callback=DoctorCallback())`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.doctor.finding import Finding
from batchwright.doctor.live import LiveDoctor
from batchwright.doctor.logs.names import in_trainer_settings, translated
from batchwright.doctor.run_history import Facts
from batchwright.doctor.text import one_line

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError as error:  # the one place that needs it
    raise UserError("Stable-Baselines3 is not installed here.", ["pip install stable-baselines3"]) from error


class DoctorCallback(BaseCallback):  # type: ignore[misc]
    """Reports new findings after each rollout; `findings` keeps all of them.

    It reads the model's settings and its logger, changes nothing, and works with PPO and A2C.
    """

    def __init__(self, say: Callable[[str], None] = print) -> None:
        super().__init__()
        self.findings: list[Finding] = []
        self._say = say
        self._doctor: LiveDoctor | None = None
        self._iteration = 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        """Diagnoses the update before this rollout, which the logger holds, with the returns since."""
        logged = self.logger.name_to_value
        if "train/loss" not in logged and "train/policy_loss" not in logged:
            return
        if self._doctor is None:
            self._doctor = LiveDoctor(facts_of_model(self.model, self.locals.get("total_timesteps")))
        record: dict[str, Any] = {"iteration": self._iteration, "env_steps": self.num_timesteps}
        for name, value in logged.items():
            found = translated("sb3", name, float(value)) if isinstance(value, int | float | np.number) else None
            record |= {} if found is None else {found[0]: found[1]}
        episodes = self.model.ep_info_buffer or ()
        if episodes:
            record["episode_return"] = float(np.mean([episode["r"] for episode in episodes]))
            record["episode_length"] = float(np.mean([episode["l"] for episode in episodes]))
        self._iteration += 1
        for finding in self._doctor.check(record):
            self._report(finding)

    def _on_training_end(self) -> None:
        if self._doctor is not None:
            for finding in self._doctor.final_check()[0]:
                self._report(finding)

    def _report(self, finding: Finding) -> None:
        finding = in_trainer_settings("sb3", finding)
        self.findings.append(finding)
        self._say(f"doctor: {one_line(finding)}")


def facts_of_model(model: Any, total_steps: int | None) -> Facts:
    """The settings of a Stable-Baselines3 model, as the doctor needs them."""
    from stable_baselines3.common.vec_env import unwrap_vec_normalize

    normaliser = unwrap_vec_normalize(model.env)
    rollout = model.n_steps * model.n_envs
    minibatch = min(rollout, getattr(model, "batch_size", rollout))
    epochs = getattr(model, "n_epochs", 1)
    space = model.action_space
    clip = getattr(model, "clip_range", None)
    values: Mapping[str, Any] = {
        "algo": type(model).__name__.lower(),
        "regime": "on-policy",
        "discrete": not hasattr(space, "low"),
        "action_size": int(np.prod(space.shape)) or 1,
        "num_envs": model.n_envs,
        "rollout_steps": model.n_steps,
        "rollout_transitions": rollout,
        "minibatch_transitions": minibatch,
        "minibatches": -(-rollout // minibatch),
        "epochs": epochs,
        "updates_per_iteration": epochs * -(-rollout // minibatch),
        "learning_rate": float(model.lr_schedule(1.0)),
        "gamma": model.gamma,
        "clip_range": None if clip is None else float(clip(1.0)),
        "entropy_start": model.ent_coef,
        "value_weight": model.vf_coef,
        "max_grad_norm": model.max_grad_norm,
        "normalize_obs": normaliser is not None and normaliser.norm_obs,
        "normalize_rewards": normaliser is not None and normaliser.norm_reward,
        "iterations": None if not total_steps else -(-total_steps // rollout),
    }
    return Facts(values, trainer="sb3")
