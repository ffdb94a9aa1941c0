"""What a run learns does not depend on how its buffer lies: the same bits from different programs, as users compile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_replay_runs import SMALL

from run_batchwright import plan
from small_runs import record

STACKED = """
import gymnasium
from gymnasium.wrappers import FrameStackObservation, TimeLimit

def make_env():
    return TimeLimit(FrameStackObservation(gymnasium.make("Pendulum-v1"), 4, padding_type="{padding}"), 23)
"""


@pytest.fixture(params=["reset", "zero"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = tmp_path / "stacked.py"
    path.write_text(STACKED.format(padding=request.param))
    return f"{path}:make_env"


def trained_alone(folder: Path, wishes: dict[str, Any], forms: dict[str, dict[str, Any]]) -> list[Any]:
    """The records of runs in a process of their own, which compiles as users do."""
    program = f"""
import batchwright
for name, flags in {forms!r}.items():
    batchwright.train(run_dir={str(folder)!r} + "/" + name, quiet=True, **{wishes!r}, **flags)
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    return [record(folder / name) for name in forms]


def test_a_run_has_the_same_bits_wherever_its_buffer_lies(tmp_path: Path) -> None:
    device, host = trained_alone(tmp_path, SMALL, {"device": {}, "host": {"replay_on": "host", "store_next_obs": True}})
    assert [line["parameters_digest"] for line in host] == [line["parameters_digest"] for line in device]


def test_a_run_is_the_same_to_the_bit_as_with_whole_observations(env: str, tmp_path: Path) -> None:
    wishes = SMALL | {"env": env, "engine": "gymnasium-sync"}
    forms: dict[str, dict[str, Any]] = {"once": {}, "whole": {"stacked_frames": 1}, "on_host": {"replay_on": "host"}}
    once, whole, on_host = trained_alone(tmp_path, wishes, forms)
    assert once == whole == on_host
    made = plan(**wishes)
    assert made["stacked_frames"] == 4
    # 4 x 3 numbers of 4 bytes, a quarter of them stored, and their age; 4 + 5 bytes of action, reward, end.
    assert (plan(**wishes, stacked_frames=1)["transition_bytes"], made["transition_bytes"]) == (48 + 9, 12 + 1 + 9)
