"""Runs on a chosen device; a second one is forced from the CPU's cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from run_batchwright import refusal

PROGRAM = """
import json, sys, tempfile
from pathlib import Path
import jax
import batchwright
from batchwright.api import prepare, train_prepared
from batchwright.runs.devices import use_device

small = dict(num_envs=2, rollout_steps=16, hidden="8", total_steps=128, eval_every=0, eval_episodes=1, preset="none")
cases = {"ppo": dict(env="CartPole-v1", engine="jax", epochs=1, minibatches=1), "host": dict(env="CartPole-v1",
         engine="gymnasium-sync", epochs=1, minibatches=1),
         "sac": dict(env="Pendulum-v1", algo="sac", engine="jax", warmup_steps=32, replay_transitions=256)}
found = {}
for device in ("cpu:0", "cpu:1"):
    use_device(device)
    moved = []
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases.items():
            run = prepare(run_dir=Path(folder) / name, quiet=True, **small | case)
            train_prepared(run, quiet=True)
            last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
            policy = batchwright.load(run)
            found[f"{name} {device}"] = last["parameters_digest"], policy([0.0] * (3 if name == "sac" else 4)).tolist()
            alive = {str(place) for array in jax.live_arrays() for place in array.devices()}
            found[f"places {name} {device}"] = sorted(alive)
print(json.dumps(found))
"""


def test_a_run_on_the_second_device_equals_one_on_the_first_and_stays_there() -> None:
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=os.environ | flags,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for case in ("ppo", "host", "sac"):
        assert found[f"{case} cpu:0"] == found[f"{case} cpu:1"]
    on_second = {
        place for name, places in found.items() if name.startswith("places") and "cpu:1" in name for place in places
    }
    assert "TFRT_CPU_1" in on_second or "cpu:1" in on_second, on_second


def test_a_device_that_is_not_there_is_refused_with_those_that_are() -> None:
    for name in ("cpu:7", "tpu", "cpu:x"):
        told = refusal(f"train CartPole-v1 --device {name}").err
        assert f"there is no device '{name}' here" in told
        assert "--device cpu:0" in told


def test_seeds_side_by_side_take_the_devices_of_their_processes() -> None:
    assert "--device" in refusal("train CartPole-v1 --seeds 2 --workers 2 --device cpu").err
