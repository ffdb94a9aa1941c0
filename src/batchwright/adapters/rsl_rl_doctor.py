"""The doctor beside a training with RSL-RL: `DoctorLogger(runner)`, then `runner.learn(...)`. Needs NumPy, not JAX.

RSL-RL logs neither KL nor clip fraction nor explained variance, and no returns without a `log_dir`. They are measured
here from what its update has worked out already: no network is called and no random number drawn, so the training is
the same with and without the doctor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from batchwright.doctor.finding import Finding
from batchwright.doctor.live import LiveDoctor
from batchwright.doctor.logs.names import in_trainer_settings, translated
from batchwright.doctor.run_history import Facts
from batchwright.doctor.text import one_line


class DoctorLogger:
    """Wraps the `log` of a runner's logger; reports new findings, `findings` keeps all of them."""

    def __init__(self, runner: Any, say: Callable[[str], None] = print) -> None:
        self.findings: list[Finding] = []
        self._say, self._runner = say, runner
        self._facts = facts_of_runner(runner)
        self._doctor: LiveDoctor | None = None
        self._steps = UpdateMeter(runner.alg) if can_measure(runner.alg) else None
        if self._steps is None:
            say("doctor: this version of RSL-RL is not known (5.5.1 is): KL and clip fraction are not measured.")
        self._episodes = EpisodeMeter(runner.logger)
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
        tags = {f"Loss/{name}": value for name, value in given["loss_dict"].items()}
        tags |= {"Loss/learning_rate": given["learning_rate"], "Policy/mean_std": given["action_std"].mean().item()}
        tags |= {"Perf/collection_time": given["collect_time"], "Perf/learning_time": given["learn_time"]}
        tags |= self._episodes.means()
        rollout = self._facts.values["rollout_transitions"]
        record: dict[str, Any] = {"iteration": given["it"], "env_steps": (given["it"] + 1) * rollout}
        for tag, value in tags.items():
            found = translated("rsl_rl", tag, float(value))
            record |= {} if found is None else {found[0]: found[1]}
        return record | ({} if self._steps is None else self._steps.take())

    def finish(self) -> list[Finding]:
        """Call it after `runner.learn`: the last findings."""
        if self._doctor is not None:
            self._report(self._doctor.final_check()[0])
        return self.findings

    def _report(self, findings: list[Finding]) -> None:
        for finding in findings:
            self.findings.append(in_trainer_settings("rsl_rl", finding))
            self._say(f"doctor: {one_line(self.findings[-1])}")


def can_measure(algorithm: Any) -> bool:
    """Whether the algorithm has the parts of 5.5.1 that `UpdateMeter` reads."""
    actor, storage = getattr(algorithm, "actor", None), getattr(algorithm, "storage", None)
    return hasattr(actor, "get_kl_divergence") and hasattr(storage, "mini_batch_generator")


class UpdateMeter:
    """Measures each update of RSL-RL's PPO between its minibatches.

    When the algorithm asks for the next minibatch, its actor still holds the distribution of the last one, as it was
    before that optimiser step. KL is the mean over the last epoch, the clip fraction that over all of them.
    """

    def __init__(self, algorithm: Any) -> None:
        self._algorithm = algorithm
        self._kl: deque[float] = deque(maxlen=algorithm.num_mini_batches)
        self._clipped: list[float] = []
        storage = algorithm.storage
        for name in ("mini_batch_generator", "recurrent_mini_batch_generator"):
            if hasattr(storage, name):
                setattr(storage, name, self._measuring(getattr(storage, name)))

    def _measuring(self, minibatches: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def generate(*args: Any, **kwargs: Any) -> Iterator[Any]:
            for minibatch in minibatches(*args, **kwargs):
                yield minibatch
                self._measure(minibatch)

        return generate

    def _measure(self, minibatch: Any) -> None:
        actor, old = self._algorithm.actor, minibatch.old_distribution_params
        held = zip(actor.output_distribution_params, old, strict=True)
        new = tuple(params[: len(before)].detach() for params, before in held)  # rows of mirrored copies come after
        self._kl.append(actor.get_kl_divergence(old, new).mean().item())
        before = minibatch.old_actions_log_prob.squeeze()
        ratio = (actor.get_output_log_prob(minibatch.actions).detach().squeeze() - before).exp()
        self._clipped.append(((ratio - 1).abs() > self._algorithm.clip_param).float().mean().item())

    def take(self) -> dict[str, float]:
        """The metrics of the last update; empty where there was none."""
        if not self._kl:
            return {}
        kl, clipped = sum(self._kl) / len(self._kl), sum(self._clipped) / len(self._clipped)
        self._kl.clear()
        self._clipped.clear()
        storage = self._algorithm.storage
        spread = storage.returns.var()
        explained = {} if spread == 0 else {"explained_variance": 1 - (storage.returns - storage.values).var() / spread}
        return {"kl": kl, "clip_fraction": clipped} | {name: float(value) for name, value in explained.items()}


class EpisodeMeter:
    """Returns and lengths of the last 100 episodes: the logger's, or counted here where it has no writer."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._sums: Any = None
        self._returns: deque[float] = deque(maxlen=100)
        self._lengths: deque[float] = deque(maxlen=100)
        self._process = logger.process_env_step
        logger.process_env_step = self._processing

    def _processing(self, rewards: Any, dones: Any, *args: Any, **kwargs: Any) -> Any:
        if self._logger.writer is None:
            if self._sums is None:
                self._sums = rewards.new_zeros((2, *rewards.shape))  # return and length of the running episodes
            self._sums[0] += rewards
            self._sums[1] += 1
            ended = dones > 0
            self._returns.extend(self._sums[0][ended].tolist())
            self._lengths.extend(self._sums[1][ended].tolist())
            self._sums[:, ended] = 0
        return self._process(rewards, dones, *args, **kwargs)

    def means(self) -> dict[str, float]:
        """The means in RSL-RL's own names; empty before the first episode ended."""
        silent = self._logger.writer is None
        returns = self._returns if silent else self._logger.rewbuffer
        lengths = self._lengths if silent else self._logger.lenbuffer
        pairs = (("Train/mean_reward", returns), ("Train/mean_episode_length", lengths))
        return {tag: sum(values) / len(values) for tag, values in pairs if len(values)}


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
