"""A Ray cluster that runs already, and the room that it has. Ray is an extra, imported here alone."""

from __future__ import annotations

import os
import socket
from typing import Any

from batchwright.core.errors import UserError

MAKE_CLUSTER = "ray start --head"
KNOCK_SECONDS = 10.0


def load_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UserError(
            "--on ray needs Ray, which is not installed.", ["pip install 'batchwright[ray]'", "--on local"]
        ) from None
    return ray


def join_cluster(address: str | None) -> Any:
    """Ray, connected to a cluster that runs; none is started, because what Ray starts listens to the network."""
    ray = load_ray()
    where = address or os.environ.get("RAY_ADDRESS") or "auto"
    try:
        _knock(where)
        ray.init(address=where, log_to_driver=False, logging_level="ERROR", namespace="batchwright")
    except (OSError, RuntimeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"no Ray cluster answers at {where}: {reason}", [MAKE_CLUSTER, "--address HOST:6379", "--on local"]
        ) from None
    return ray


def in_bundle(group: Any, number: int) -> Any:
    """The place of an actor that belongs into a bundle of a placement group."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)


def _knock(where: str) -> None:
    """Raises where nothing listens at HOST:PORT: Ray itself would try for many minutes."""
    host, colon, port = where.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
