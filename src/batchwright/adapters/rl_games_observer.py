"""Observers of rl_games: what each epoch logged as one record, and the doctor beside a training.

    from batchwright.adapters.rl_games_observer import DoctorObserver
    Runner(DoctorObserver()).load(config)

Needs rl_games and NumPy; JAX is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from batchwright.core.errors import UserError
from batchwright.doctor.finding import Finding
from batchwright.doctor.live import LiveDoctor
from batchwright.doctor.logs.names import in_trainer_settings, translated
from batchwright.doctor.run_history import Facts
from batchwright.doctor.text import one_line

try:
    from rl_games.common.algo_observer import DefaultAlgoObserver
except ImportError as error:  # the one place that needs it
    raise UserError("rl_games is not installed here.", ["pip install rl-games"]) from error

FIRST_OF_EPOCH = "performance/step_inference_rl_update_fps"
"""The first scalar that rl_games writes for an epoch; episode returns come last, after its own hook."""


class RecordObserver(DefaultAlgoObserver):  # type: ignore[misc]
    """Calls `on_record` once per epoch, when the next one begins or `flush` is called."""

    def __init__(self, on_record: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._on_record = on_record
        self._scalars: dict[str, float] = {}
        self._episodes = 0
        self._steps_per_epoch = 0

    def after_init(self, algo: Any) -> None:
        super().after_init(algo)
        self._steps_per_epoch = algo.batch_size // algo.num_agents
        add_scalar = algo.writer.add_scalar

        def adding(tag: str, value: Any, step: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._take(tag, value)
            return add_scalar(tag, value, step, *args, **kwargs)

        algo.writer.add_scalar = adding

    def process_infos(self, infos: Any, done_indices: Any) -> None:
        self._episodes += len(done_indices)
        super().process_infos(infos, done_indices)

    def _take(self, tag: str, value: Any) -> None:
        if tag == FIRST_OF_EPOCH:
            self.flush()
        self._scalars[tag] = float(value)

    def flush(self) -> None:
        """Hands on the record of the epoch that was being gathered."""
        scalars, self._scalars = self._scalars, {}
        if FIRST_OF_EPOCH not in scalars:
            return
        # Steps are counted by epochs: the frame of a scalar is that before or after its epoch, by algorithm.
        epoch = int(scalars.get("info/epochs", 1))  # counted from 1
        record: dict[str, Any] = {"iteration": epoch - 1, "env_steps": epoch * self._steps_per_epoch}
        record["episodes"], self._episodes = self._episodes, 0
        for tag, value in scalars.items():
            found = translated("rl_games", tag, value)
            record |= {} if found is None or found[0] == "iteration" else {found[0]: found[1]}
        self._on_record(record)


class DoctorObserver(RecordObserver):
    """Reports new findings during a training, in rl_games' own settings; `findings` keeps all of them."""

    def __init__(self, say: Callable[[str], None] = print) -> None:
        super().__init__(self._check)
        self.findings: list[Finding] = []
        self._say = say
        self._doctor: LiveDoctor | None = None
        self._facts = Facts({})

    def after_init(self, algo: Any) -> None:
        super().after_init(algo)
        self._facts = facts_of_config(algo.config, algo.num_agents)
        self._doctor = LiveDoctor(self._facts)

    def _check(self, record: dict[str, Any]) -> None:
        if self._doctor is not None:
            self._report(self._doctor.check(record))

    def finish(self) -> list[Finding]:
        """Call it after `runner.run`: the last epoch and the last findings."""
        self.flush()
        if self._doctor is not None:
            self._report(self._doctor.final_check()[0])
        return self.findings

    def _report(self, findings: list[Finding]) -> None:
        for finding in findings:
            self.findings.append(in_trainer_settings("rl_games", finding))
            self._say(f"doctor: {one_line(self.findings[-1])}")


def facts_of_config(config: Mapping[str, Any], num_agents: int = 1) -> Facts:
    """The settings of a config of rl_games, as the doctor needs them."""
    rollout = config["horizon_length"] * config["num_actors"] * num_agents
    minibatch = config.get("minibatch_size") or config["num_actors"] * config["minibatch_size_per_env"]
    epochs = config["mini_epochs"]
    limit = config.get("max_epochs", -1)
    return Facts(
        {
            "algo": "ppo",
            "regime": "on-policy",
            "num_envs": config["num_actors"],
            "rollout_steps": config["horizon_length"],
            "rollout_transitions": rollout,
            "minibatch_transitions": minibatch,
            "minibatches": rollout // minibatch,
            "epochs": epochs,
            "updates_per_iteration": epochs * (rollout // minibatch),
            "learning_rate": float(config["learning_rate"]),
            "gamma": config["gamma"],
            "clip_range": config.get("e_clip"),
            "entropy_start": config.get("entropy_coef"),
            "value_weight": config.get("critic_coef"),
            "max_grad_norm": config.get("grad_norm") if config.get("truncate_grads") else None,
            "normalize_obs": bool(config.get("normalize_input")),
            "normalize_rewards": bool(config.get("normalize_value")),
            "iterations": limit if isinstance(limit, int) and limit > 0 else None,
        },
        trainer="rl_games",
    )
