"""Text that people and programs rely on, word for word. BATCHWRIGHT_WRITE_GOLDENS=1 writes it anew."""

import difflib
import os
import re
from pathlib import Path

import pytest

from batchwright.adapters import lerobot, rl_games, sb3
from run_batchwright import plan, run

GOLDEN = Path(__file__).parent.parent / "golden"

RRD_ON_VECTORS = {
    "algo": "sac",
    "redistribute": "rrd",
    "obs_shape": "17",
    "action_size": 6,
    "updates_per_iteration": 100,
}
ACT_ON_12_GB = {"policy": "act", "gpu_memory_gb": 12, "cameras": 3, "image_size": 224, "cores": 32}
PLANS = {
    "on-policy": {},
    "on-policy-1000x24": {"num_envs": 1000, "rollout_steps": 24},
    "on-policy-uneven": {"num_envs": 7, "rollout_steps": 143, "minibatch_transitions": 64},
    "on-policy-agents-sequences": {"num_envs": 6, "rollout_steps": 64, "num_agents": 3, "seq_length": 16},
    "on-policy-episodes": {"preset": "balanced", "episode_steps": 500},
    "on-policy-episodes-unknown": {"preset": "balanced"},
    "on-policy-held": {"num_envs": 64, "hold": "transitions-per-update"},
    "replay-rrd": RRD_ON_VECTORS,
    "replay-td3": {"algo": "td3", "obs_shape": "17", "action_size": 6},
    "replay-images": {"preset": "libero", "obs_shape": "256,256,3", "action_size": 7},
    "dataset-act": ACT_ON_12_GB,
    "dataset-fallback": {"preset": "lerobot-fallback", "gpu_memory_gb": 12, "cores": 32},
}
ADAPTED = {
    "rl_games": (rl_games, {"preset": "isaac-2048", "trainer": "rl_games"}),
    "sb3-ppo": (sb3, {"trainer": "sb3"}),
    "sb3-dqn": (sb3, {"trainer": "sb3", "algo": "dqn"}),
    "lerobot": (lerobot, ACT_ON_12_GB | {"trainer": "lerobot"}),
}


def compare(name: str, text: str) -> None:
    """Fails with a diff where the text is not the golden's."""
    path, text = GOLDEN / name, text.rstrip("\n") + "\n"
    if os.environ.get("BATCHWRIGHT_WRITE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    diff = difflib.unified_diff(before.splitlines(), text.splitlines(), f"golden/{name}", "now", lineterm="")
    assert text == before, "\n".join(["BATCHWRIGHT_WRITE_GOLDENS=1 accepts this:", *diff])


@pytest.mark.parametrize("name", PLANS)
def test_the_table_and_the_picture_of_a_plan(name: str) -> None:
    found = plan(**PLANS[name])
    compare(f"plan-{name}.txt", f"{found.explain()}\n\n{found.diagram()}")


@pytest.mark.parametrize("name", ["on-policy", "replay-rrd", "dataset-act"])
def test_the_json_of_a_plan(name: str) -> None:
    compare(f"plan-{name}.json", plan(**PLANS[name]).to_json())


@pytest.mark.parametrize("name", ADAPTED)
def test_the_text_for_another_trainer(name: str) -> None:
    adapter, options = ADAPTED[name]
    compare(f"for-{name}.txt", adapter.text(plan(**options)))


def test_the_flags_of_every_command() -> None:
    commands = re.findall(r"^  (\w[\w-]*) ", run("--help").out, re.MULTILINE)
    lines = []
    for command in commands:
        flags = sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z0-9_-]*", run(command, "--help").out)))
        lines += [f"{command} {flag}" for flag in flags]
    compare("flags.txt", "\n".join(lines))
