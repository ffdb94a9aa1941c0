"""Programs that run on all devices of a training at once: the update, the moments of observations, a timed sum."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from batchwright.data.rollout import Rollout
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy
from batchwright.on_policy.normalisation import BatchMoments
from batchwright.on_policy.on_policy_state import Hyper, TrainState
from batchwright.on_policy.on_policy_update import PackedMetrics, Update
from batchwright.on_policy.shards import AXIS, Shards
from batchwright.runs.process_group import ProcessGroup

BY_STEPS = PartitionSpec(None, AXIS)  # type: ignore[no-untyped-call]
"""Arrays [T, N, ...]: environments are their second dimension."""
BY_ENVS = PartitionSpec(AXIS)  # type: ignore[no-untyped-call]
SAME = PartitionSpec()  # type: ignore[no-untyped-call]


def rollout_specs() -> Any:
    """How each array of a rollout is spread."""
    specs: Any = [BY_ENVS if name == "memory" else BY_STEPS for name in Rollout._fields]
    return Rollout(*specs)


def spread_rollout(rollout: Rollout, group: ProcessGroup) -> Rollout:
    """A rollout of this process's environments as a part of that of all."""
    spread: Rollout = group.spread(rollout._replace(memory=None), dim=1)
    return spread._replace(memory=group.spread(rollout.memory, dim=0))


def sharded_update(update: Update, group: ProcessGroup, shards: Shards) -> Update:
    """The update of all devices as a function of this process's rollout; its order has one part per device."""

    def shard_update(train: Any, rollout: Any, stats: Any, hyper: Any, order: Any) -> Any:
        train, packed = update(train, rollout, stats, hyper, order[0])
        # All metrics are those of all shards already, but the largest ratio, which is largest in one of them.
        return train, PackedMetrics(shards.largest(packed.values), packed.names)

    specs = (SAME, rollout_specs(), SAME, SAME, BY_ENVS)
    program = jax.jit(jax.shard_map(shard_update, mesh=group.mesh, in_specs=specs, out_specs=SAME, check_vma=False))

    def run(
        train: TrainState, rollout: Rollout, stats: ObsStats, hyper: Hyper, order: Any
    ) -> tuple[TrainState, PackedMetrics]:
        same = group.replicate((train, stats, hyper))
        spread = spread_rollout(rollout, group)
        out = program(same[0], spread, same[1], same[2], group.spread(order, dim=0))
        moved: tuple[TrainState, PackedMetrics] = group.local(out)
        return moved

    return run


def sharded_obs_moments(policy: Policy, group: ProcessGroup, shards: Shards) -> Callable[[Rollout], BatchMoments]:
    """Moments of the observations of all environments, as a function of this process's rollout."""

    def measure(obs: Any, valid: jax.Array) -> BatchMoments:
        acted = jax.tree.map(lambda x: x[:-1], obs)
        rows = policy.inputs.vector(acted).reshape(-1, policy.inputs.vector_size)
        return shards.moments(rows, valid.reshape(-1).astype(jnp.float32))

    program = jax.jit(
        jax.shard_map(measure, mesh=group.mesh, in_specs=(BY_STEPS, BY_STEPS), out_specs=SAME, check_vma=False)
    )

    def run(rollout: Rollout) -> BatchMoments:
        found: BatchMoments = group.local(program(*group.spread((rollout.obs, rollout.valid), dim=1)))
        return found

    return run


class TimedReduce:
    """Times a sum of as many numbers as the gradient has over all devices: what an update waits for."""

    def __init__(self, group: ProcessGroup, numbers: int) -> None:
        self._vector = group.spread(np.zeros((group.devices, numbers), np.float32), dim=0)
        add = jax.shard_map(
            lambda x: Shards(group.shards).total(x[0]),
            mesh=group.mesh,
            in_specs=BY_ENVS,
            out_specs=SAME,
            check_vma=False,
        )
        self._sum = jax.jit(add)
        self._sum(self._vector).block_until_ready()

    def seconds(self) -> float:
        """Of one sum; all processes have just finished the same update."""
        start = time.perf_counter()
        self._sum(self._vector).block_until_ready()
        return time.perf_counter() - start
