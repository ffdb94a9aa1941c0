"""What a run directory says of itself, before any of its code runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from batchwright.config.load import Resolved
from batchwright.config.run_config import read_run_config
from batchwright.config.schema import RECORDED
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import checked_path, explain_refusal


def settings_of(run: RunDir) -> Resolved:
    """The settings of a run, without its plan."""
    with explain_refusal(run.config_path, "read", f"make {run.config_path} readable"):
        return read_run_config(run)


def is_reward_run(run: str | Path) -> bool:
    """Whether a directory is the run of a reward model."""
    found = RunDir(checked_path(run))
    return found.is_run and settings_of(found).config.regime == RECORDED


def names_strange_code(run: str | Path) -> str | None:
    """The code that a run names and that this user has not agreed to run; None where there is none."""
    from batchwright.core.trust import is_trusted

    found = RunDir.open(run)
    env = settings_of(found).config.task.env
    return None if is_trusted(found, env) else env


def pass_again(run: str | Path, env: Any) -> None:
    """Gives a run the environment that it was trained on, where that was passed as an object."""
    if env is None:
        return
    from batchwright.envs.passed_envs import pass_for

    pass_for(str(settings_of(RunDir.open(run)).config.task.env), env)
