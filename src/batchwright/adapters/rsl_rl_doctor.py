"""The doctor beside a training with RSL-RL: `DoctorLogger(runner)`, then `runner.learn(...)`. Needs NumPy, not JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from batchwright.doctor.finding import Finding
from batchwright.doctor.live import LiveDoctor
from batchwright.doctor.logs.names import as_trainer_settings, translated
from batchwright.doctor.run_history import Facts
from batchwright.doctor.text import one_line


class DoctorLogger:
    """Wraps the `log` of a runner's logger; reports new findings, `findings` keeps all of them."""

    def __init__(self, runner: Any, say: Callable[[str], None] = print) -> None:
        self.findings: list[Finding] = []
        self._say, self._runner = say, runner
        self._facts = facts_of_runner(runner)
        self._doctor: LiveDoctor | None = None
        self._log = runner.logger.log
        runner.logger.log = self._logging

    def _logging(self, *args: Any, **kwargs: Any) -> Any:
        answer = self._log(*args, **kwargs)
        if self._doctor is None:
            self._doctor = LiveDoctor(
                replace(self._facts, values={**self._facts.values, "iterations": kwargs["total_it"]})
            )
        self._report(self._doctor.check(self._record(kwargs)))
        return answer

    def _record(self, given: dict[str, Any]) -> dict[str, Any]:
        logger = self._runner.logger
        tags = {f"Loss/{name}": value for name, value in given["loss_dict"].items()}
        tags |= {"Loss/learning_rate": given["learning_rate"], "Policy/mean_std": given["action_std"].mean().item()}
        tags |= {"Perf/collection_time": given["collect_time"], "Perf/learning_time": given["learn_time"]}
        for tag, values in (("Train/mean_reward", logger.rewbuffer), ("Train/mean_episode_length", logger.lenbuffer)):
            tags |= {tag: sum(values) / len(values)} if len(values) else {}
        rollout = self._facts.values["rollout_transitions"]
        record: dict[str, Any] = {"iteration": given["it"], "env_steps": (given["it"] + 1) * rollout}
        for tag, value in tags.items():
            found = translated("rsl_rl", tag, float(value))
            record |= {} if found is None else {found[0]: found[1]}
        return record

    def finish(self) -> list[Finding]:
        """Call it after `runner.learn`: the last findings."""
        if self._doctor is not None:
            self._report(self._doctor.final_check()[0])
        return self.findings

    def _report(self, findings: list[Finding]) -> None:
        for finding in findings:
            flags = tuple(words for flags in finding.flags if (words := as_trainer_settings("rsl_rl", flags)))
            self.findings.append(replace(finding, flags=flags))
            self._say(f"doctor: {one_line(self.findings[-1])}")


def facts_of_runner(runner: Any) -> Facts:
    """The settings of an OnPolicyRunner, as the doctor needs them; rows that RSL-RL drops are not counted."""
    envs, steps, algorithm = runner.env.num_envs, runner.cfg["num_steps_per_env"], runner.alg
    parts = algorithm.num_mini_batches
    return Facts(
        {
            "algo": "ppo",
            "regime": "on-policy",
            "discrete": False,
            "num_envs": envs,
            "rollout_steps": steps,
            "rollout_transitions": envs * steps,
            "minibatch_transitions": envs * steps // parts,
            "minibatches": parts,
            "epochs": algorithm.num_learning_epochs,
            "updates_per_iteration": algorithm.num_learning_epochs * parts,
            "learning_rate": algorithm.learning_rate,
            "gamma": algorithm.gamma,
            "gae_lambda": algorithm.lam,
            "clip_range": algorithm.clip_param,
            "entropy_start": algorithm.entropy_coef,
            "value_weight": algorithm.value_loss_coef,
            "max_grad_norm": algorithm.max_grad_norm,
        },
        trainer="rsl_rl",
    )
