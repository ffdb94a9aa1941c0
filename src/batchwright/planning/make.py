"""Makes the plan of any regime from settings, machine and task."""

from __future__ import annotations

from dataclasses import replace

from batchwright.config.load import Resolved
from batchwright.config.schema import DATASET, ON_POLICY, ON_POLICY_ALGOS, RECORDED, flag_of
from batchwright.core.errors import UserError
from batchwright.core.machine import Machine, with_overrides
from batchwright.planning.agent_plan import refuse_agent_contradictions
from batchwright.planning.dataset_plan import plan_dataset
from batchwright.planning.on_policy_plan import plan_on_policy
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.replay_plan import plan_replay


def make_plan(
    resolved: Resolved,
    machine: Machine,
    task: TaskFacts | None = None,
    *,
    divide_exactly: bool = False,
    measured: dict[str, str] | None = None,
) -> Plan:
    """The plan of a run; `task` describes the environment, `measured` holds reasons of measured settings."""
    config = resolved.config
    hardware = config.hardware
    machine = with_overrides(machine, hardware.cores, hardware.ram_gb, hardware.gpu_memory_gb)
    facts = _facts(resolved, task)
    refuse_agent_contradictions(resolved, facts)
    if config.regime == RECORDED:
        raise UserError(
            f"{config.recorded.data} is recorded data: a reward model is planned and trained by another command.",
            [f"batchwright rrd {config.recorded.data}"],
        )
    if config.regime == DATASET:
        if config.task.env is not None:
            raise UserError(
                f"--policy {config.task.policy} learns from recorded data, not from {config.task.env}.",
                ["leave out the environment", "--algo ppo"],
            )
        return plan_dataset(resolved, machine)
    if config.replay.redistribute and config.task.algo in ON_POLICY_ALGOS:
        raise UserError(
            f"--redistribute {config.replay.redistribute} learns from a replay buffer; {config.task.algo} has none.",
            ["--algo sac", "--algo dqn", "leave out --redistribute"],
        )
    if config.regime == ON_POLICY:
        return plan_on_policy(resolved, facts, machine, divide_exactly=divide_exactly, measured=measured)
    return plan_replay(resolved, facts, machine, measured=measured)


def _facts(resolved: Resolved, task: TaskFacts | None) -> TaskFacts:
    """Facts of the environment, else those the user stated; stating what the environment defines is refused."""
    stated = resolved.config.task
    if task is None:
        discrete = None if stated.action_kind is None else stated.action_kind == "discrete"
        return TaskFacts(
            discrete=discrete,
            action_size=stated.action_size,
            obs_shape=stated.obs_shape,
            obs_dtype=stated.obs_dtype,
            episode_steps=stated.episode_steps,
        )
    defined = {"obs_shape": stated.obs_shape, "action_size": stated.action_size, "action_kind": stated.action_kind}
    for name, value in defined.items():
        if value is not None:
            raise UserError(f"{flag_of(name)} is defined by {task.name} itself.", [f"leave out {flag_of(name)}"])
    return replace(task, episode_steps=stated.episode_steps or task.episode_steps)
