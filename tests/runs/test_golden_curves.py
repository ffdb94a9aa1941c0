"""Twenty iterations of every way of training against curves on file: a change of structure must not move one bit.

BATCHWRIGHT_WRITE_GOLDENS=1 writes them anew; a changed golden has a line in the changelog that says why.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from batchwright.runs.env_evidence import NAMES
from small_runs import record

GOLDEN = Path(__file__).parents[1] / "golden"
GAUGES = ("memory", "accelerator")
ROUNDING_ITERATIONS = 10
"""Another processor rounds otherwise, and updates multiply that: from about here on curves part (docs/log.md)."""
# Everything that matters is stated in a file, so that no tuned preset takes part.
COMMON = {"engine": "jax", "seed": 3, "eval_every": 0, "eval_episodes": 2, "hidden": "8,8"}
RAW = {"normalize_obs": False, "normalize_rewards": False}
ON_POLICY = (
    COMMON
    | RAW
    | {
        "env": "CartPole-v1",
        "num_envs": 4,
        "rollout_steps": 16,
        "total_steps": 1280,
        "gamma": 0.98,
        "learning_rate": 0.003,
        "entropy_start": 0.01,
    }
)
EPISODES = (
    COMMON
    | RAW
    | {
        "env": "CartPole-v1",
        "algo": "ppo",
        "num_envs": 2,
        "rollout_episodes": 2,
        "minibatch_transitions": 24,
        "epochs": 2,
        "total_episodes": 40,
    }
)
REPLAY = COMMON | {
    "num_envs": 2,
    "rollout_steps": 8,
    "total_steps": 320,
    "warmup_steps": 48,
    "updates_per_iteration": 4,
    "transitions_per_update": 16,
    "replay_transitions": 256,
}
RRD = {"redistribute": "rrd", "rrd_timesteps_per_update": 16, "subsequence_timesteps": 8}
CASES: dict[str, dict[str, Any]] = {
    "ppo": ON_POLICY | {"algo": "ppo", "minibatches": 3, "epochs": 2},
    "a2c": ON_POLICY | {"algo": "a2c"},
    "reinforce": ON_POLICY | {"algo": "reinforce"},
    "ppo-normalised": ON_POLICY
    | {
        "env": "Pendulum-v1",
        "algo": "ppo",
        "minibatches": 2,
        "epochs": 2,
        "normalize_obs": True,
        "normalize_rewards": True,
        "kl_stop": 0.02,
    },
    "ppo-popart": ON_POLICY | {"algo": "ppo", "minibatches": 2, "epochs": 2, "popart": True, "value_clip": 0.5},
    "episodes": EPISODES,
    "components": ON_POLICY | {"env": "TwoObjectives-v0", "algo": "ppo", "minibatches": 2, "epochs": 2},
    "components-learned": ON_POLICY
    | {
        "env": "TwoObjectives-v0",
        "algo": "ppo",
        "minibatches": 2,
        "epochs": 2,
        "component_weighting": "learned",
    },
    "sac": REPLAY | {"env": "IdentityContinuous-v0", "algo": "sac"},
    "sac-rrd": REPLAY | {"env": "IdentityContinuous-v0", "algo": "sac"} | RRD,
    "td3": REPLAY | {"env": "IdentityContinuous-v0", "algo": "td3"},
    "dqn": REPLAY | {"env": "CartPole-v1", "algo": "dqn"},
}


def machine() -> dict[str, str]:
    """What rounding depends on: compared to the bit where it is the same, elsewhere as long as rounding is small."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    first = (
        dict(line.replace("\t", "").split(": ", 1) for line in lines[: lines.index("")] if ": " in line)
        if lines
        else {}
    )
    # Virtual machines give processors of several generations one name; XLA compiles for what each of them has.
    named = [first.get(key, "") for key in ("model name", "cpu family", "model")]
    vectors = sorted(flag for flag in first.get("flags", "").split() if flag.startswith(("avx", "fma", "amx", "sse")))
    processor = "/".join([*named, *vectors]) if first else platform.processor()
    return {"processor": processor, "jaxlib": version("jaxlib"), "numpy": version("numpy")}


def show(lines: list[dict[str, Any]]) -> str:
    body = ",\n".join(json.dumps(line) for line in lines)
    return f'{{"machine": {json.dumps(machine())},\n"iterations": [\n{body}\n]}}\n'


def without_evidence(line: dict[str, Any]) -> dict[str, Any]:
    """A record without what the host measures of the environment: no parameter depends on it."""
    return {name: value for name, value in line.items() if name not in NAMES}


@pytest.mark.parametrize("name", CASES)
def test_the_curve_is_the_one_on_file(name: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in CASES[name].items()))
    train = [sys.executable, "-m", "batchwright.cli", "train", CASES[name]["env"], "--quiet"]
    # A process of its own: it compiles as users do.
    subprocess.run([*train, "--config", str(config), "--run-dir", str(tmp_path / "run")], check=True)
    found = [without_evidence(line) for line in record(tmp_path / "run", leave_out=GAUGES)]
    assert len(found) == 20
    path = GOLDEN / f"curve-{name}.json"
    if os.environ.get("BATCHWRIGHT_WRITE_GOLDENS"):
        path.write_text(show(found))
    golden = json.loads(path.read_text())
    golden["iterations"] = [without_evidence(line) for line in golden["iterations"]]
    if golden["machine"] == machine():
        assert found == golden["iterations"]
        return
    for iteration, (line, wanted) in enumerate(zip(found, golden["iterations"], strict=True)):
        if iteration == ROUNDING_ITERATIONS:
            return
        assert line.keys() == wanted.keys()
        numbers = {key: value for key, value in wanted.items() if key != "parameters_digest"}
        assert {key: line[key] for key in numbers} == pytest.approx(numbers, rel=1e-3, abs=1e-4), f"{iteration}"
