"""What the package offers in Python; the command line is a thin layer over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.config.load import Resolved, resolve
from batchwright.config.schema import DATASET, REPLAY, TRAINERS
from batchwright.core.errors import unknown
from batchwright.core.machine import Machine, probe_machine
from batchwright.planning.make import make_plan
from batchwright.planning.quantity import Plan, TaskFacts

if TYPE_CHECKING:
    from batchwright.envs.catalog import TaskSpec


def plan(
    env: str | None = None,
    *,
    preset: str | None = None,
    config: str | Path | None = None,
    machine: Machine | None = None,
    trainer: str | None = None,
    **wishes: Any,
) -> Plan:
    """Every batch-like number for a task, an algorithm and a machine, without training.

    `wishes` are the flags of `batchwright plan` with underscores (`num_envs=1000`); `trainer` is "rl_games", "sb3"
    or "lerobot" where another trainer's demands must be met. Raises `UserError` for wishes that contradict.
    """
    resolved = resolve({"env": env, **wishes}, preset, config)
    return plan_resolved(resolved, machine or probe_machine(), trainer)


def plan_resolved(resolved: Resolved, machine: Machine, trainer: str | None = None) -> Plan:
    """The plan of merged wishes; looks the environment up where one is named."""
    if trainer is not None and trainer not in TRAINERS:
        raise unknown("trainer", trainer, TRAINERS, "--for")
    name = resolved.config.task.env
    task = None
    if name is not None and resolved.config.regime != DATASET:
        from batchwright.envs.catalog import describe

        task = task_facts(describe(name))
    return make_plan(resolved, machine, task, divide_exactly=_divides_exactly(resolved, trainer))


def _divides_exactly(resolved: Resolved, trainer: str | None) -> bool:
    """rl_games refuses a remainder; Stable-Baselines3 makes a short minibatch of it, which a free choice avoids."""
    experience = resolved.config.experience
    if resolved.config.regime == REPLAY or experience.rollout_episodes is not None:
        return False
    free = experience.minibatch_transitions is None and experience.minibatches is None
    return trainer == "rl_games" or (trainer == "sb3" and free and resolved.config.algo == "ppo")


def task_facts(spec: TaskSpec) -> TaskFacts:
    """What the planner needs of an environment."""
    from batchwright.envs import spaces

    found = spaces.leaves(spec.observation)
    if len(found) == 1:
        shape, dtype = spaces.leaf_shape(found[0][1]) or (1,), spaces.stored_dtype(found[0][1]).name
    else:  # a tree of arrays: its bytes are what a plan counts
        shape, dtype = (spaces.observation_bytes(spec.observation),), "uint8"
    return TaskFacts(
        name=spec.name,
        discrete=spaces.is_discrete(spec.action),
        action_size=spaces.action_size(spec.action),
        obs_shape=shape,
        obs_dtype=dtype,
        episode_steps=spec.max_episode_steps,
    )
