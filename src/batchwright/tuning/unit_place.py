"""Where the units of a tuning are trained: on this machine, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchwright.core.errors import UserError, unknown
from batchwright.tuning.executors import Executor, make_executor

LOCAL_MACHINE, RAY = "local", "ray"
PLACES = (LOCAL_MACHINE, RAY)


@dataclass(frozen=True)
class UnitPlace:
    """No part of what is tuned: a tuning may be resumed in another place."""

    on: str = LOCAL_MACHINE
    address: str | None = None
    """Of the Ray cluster; RAY_ADDRESS or the cluster of this machine when not stated."""
    workers: int | None = None
    """Units side by side: 1 on this machine, all that the cluster has room for on Ray when not stated."""

    def check(self) -> None:
        if self.on not in PLACES:
            raise unknown("place", self.on, PLACES, "--on")
        if self.address is not None and self.on != RAY:
            raise UserError("--address is that of a Ray cluster.", [f"--on ray --address {self.address}"])
        if self.on == RAY:
            from batchwright.runs.ray_cluster import load_ray

            load_ray()

    def executor(self, flags: Mapping[str, Any]) -> Executor:
        """An executor for units with these flags, which say how many cores one needs."""
        if self.on == RAY:
            from batchwright.tuning.ray_executor import RayExecutor

            cores = max(int(flags.get("learner_threads") or 1), int(flags.get("num_threads") or 1))
            return RayExecutor(self.address, self.workers, cores)
        return make_executor(self.workers or 1, trust=True)  # asked before
