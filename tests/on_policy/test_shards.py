"""Rollouts spread over devices: the same minibatches, the same updates as on one device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from batchwright.on_policy.shards import shard_layouts
from batchwright.store.minibatches import layout

TWO_DEVICES = Path(__file__).with_name("two_devices.py")


def test_larger_parts_go_round_so_that_minibatches_differ_by_one_row() -> None:
    position, inside = shard_layouts(rows=7, parts=3, shards=2)  # 7 = 3 + 2 + 2, of the second shard 2 + 3 + 2
    assert inside.sum(2).tolist() == [[3, 2, 2], [2, 3, 2]]
    assert inside.sum((0, 2)).tolist() == layout(14, 3)[1].sum(1).tolist() == [5, 5, 4]
    for shard in range(2):
        assert sorted(position[shard][inside[shard] > 0].tolist()) == list(range(7))


@pytest.mark.parametrize(("rows", "parts", "shards"), [(33, 4, 2), (5, 5, 3), (2, 4, 3), (64, 7, 5)])
def test_shards_make_the_minibatch_sizes_of_one_device(rows: int, parts: int, shards: int) -> None:
    _, inside = shard_layouts(rows, parts, shards)
    np.testing.assert_array_equal(inside.sum((0, 2)), layout(rows * shards, parts)[1].sum(1))


@pytest.mark.parametrize("case", ["uneven minibatches", "one update", "hybrid", "components", "memory"])
def test_two_devices_make_the_updates_of_one(case: str) -> None:
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, str(TWO_DEVICES), case], check=False, capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr[-2000:]
    apart = json.loads(done.stdout.splitlines()[-1])
    assert max(apart.values()) < 1e-5, apart
