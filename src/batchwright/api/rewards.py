"""Reward models, learned from recorded episodes or in an environment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.api.jax_setup import keep_programs, set_up_jax
from batchwright.api.reports import leave_report
from batchwright.api.trainings import prepare
from batchwright.config.load import resolve
from batchwright.config.presets import PresetNames
from batchwright.config.schema import FIELDS
from batchwright.planning.plan import Plan

if TYPE_CHECKING:
    from batchwright.reward.learned_reward import LearnedReward
    from batchwright.reward.reward_run import RewardResult


def learn_reward(
    data: str | Path,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> RewardResult:
    """Learns the rewards of single steps from the returns of recorded episodes; returns where the run lies and its fit.

    `settings` are the flags of `batchwright rrd` with underscores.
    """
    run = prepare_reward(data, preset=preset, config=config, run_dir=run_dir, **settings)
    return resume_reward(run, quiet=quiet)


def prepare_reward(
    data: str | Path | None,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    **settings: Any,
) -> Path:
    """A run directory of a reward model with its plan, nothing trained yet; `on_plan` is shown the plan first."""
    set_up_jax()
    from batchwright.reward.reward_run import prepare_reward as prepare_run

    flags = {"data": None if data is None else str(data), **settings}
    return prepare_run(flags, preset, config, run_dir, on_plan)


def prepare_online_reward(env: str, **settings: Any) -> Path:
    """A run directory that learns rewards in an environment without updating a policy; nothing trained yet.

    `settings` are those of `prepare`. The algorithm only says how actions are drawn: by default that of the collecting
    run, else sac or dqn by the kind of actions.
    """
    keep_programs()
    from batchwright.envs import spaces
    from batchwright.envs.catalog import describe
    from batchwright.runs.launch import open_run

    stated = resolve({name: value for name, value in settings.items() if name in FIELDS}, settings.get("preset"))
    chosen: dict[str, Any] = {"reward_only": True}
    if stated.origin("redistribute") is None:
        chosen["redistribute"] = "rrd"
    collecting = settings.get("collecting_run")
    if collecting is not None:
        plan = open_run(collecting)[2]
        settings["collecting_run"] = str(Path(collecting).expanduser().absolute())
        chosen |= {"algo": plan.algo, "hidden": plan["hidden"], "normalize_obs": plan["normalize_obs"]}
    elif settings.get("algo") is None:
        chosen["algo"] = "dqn" if spaces.is_discrete(describe(env).action) else "sac"
    given = {name: value for name, value in settings.items() if value is not None}
    return prepare(env, **(chosen | given))


def resume_reward(run: str | Path, *, quiet: bool = False, from_start: bool = False) -> RewardResult:
    """Goes on with the run of a reward model from its last good checkpoint; equal to never having stopped.

    `from_start` starts a run anew that lost its checkpoints; its record is kept beside.
    """
    set_up_jax()
    from batchwright.reward.reward_run import continue_reward

    result = continue_reward(run, quiet=quiet, from_start=from_start)
    leave_report(run, sys.stdout)
    return result


def load_reward(run: str | Path, trust: bool = False) -> LearnedReward:
    """The reward model of a run: call it with (obs, action, next_obs) arrays, get one reward per step.

    `trust` lets code run that the run of somebody else names as its environment.
    """
    set_up_jax()
    from batchwright.reward.learned_reward import load_reward as load_model

    return load_model(run, trust)
