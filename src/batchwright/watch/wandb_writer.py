"""Weights & Biases, offline unless WANDB_MODE is set. The only file that imports wandb."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchwright.core.errors import missing_package
from batchwright.watch.json_lines import numbers_of
from batchwright.watch.metric_groups import grouped


class WandbWriter:
    """Logs all metrics over environment steps; `wandb sync` of the folder uploads them later.

    Nothing but metrics is saved: the console is not captured, which would break the progress line, nor is code.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise missing_package("wandb", "wandb") from error
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "batchwright"),
            name=folder.resolve().name,
            dir=str(folder),
            mode=mode,
            config=dict(settings),
            settings=wandb.Settings(console="off", silent=True, save_code=False, disable_git=True),
        )
        self._run.define_metric("*", step_metric="env_steps")

    def write(self, record: Mapping[str, Any]) -> None:
        self._run.log(grouped(numbers_of(record)))

    def close(self) -> None:
        self._run.finish()
