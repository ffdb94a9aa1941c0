"""Runs whose observations stack frames: each frame is stored once, and the numbers are those of whole observations."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import pytest
from gymnasium.wrappers import FrameStackObservation, TimeLimit, TransformObservation
from test_replay_runs import SMALL

import batchwright
from batchwright.envs.gymnasium_source import stacked_frames
from batchwright.replay.replay_learner import make_replay_learner
from run_batchwright import plan, refusal
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


def test_a_run_is_the_same_to_the_bit_as_with_whole_observations(env: str, tmp_path: Path) -> None:
    wishes = SMALL | {"env": env, "engine": "gymnasium-sync"}
    once, whole, on_host = (
        batchwright.train(run_dir=tmp_path / str(n), quiet=True, **wishes, **flags).run_dir
        for n, flags in enumerate(({}, {"stacked_frames": 1}, {"replay_on": "host"}))
    )
    assert record(once) == record(whole) == record(on_host)
    made = plan(**wishes)
    assert made["stacked_frames"] == 4
    # 4 x 3 numbers of 4 bytes, a quarter of them stored, and their age; 4 + 5 bytes of action, reward, end.
    assert (plan(**wishes, stacked_frames=1)["transition_bytes"], made["transition_bytes"]) == (48 + 9, 12 + 1 + 9)


def test_the_buffer_of_stacks_takes_the_bytes_of_the_plan() -> None:
    made = plan(env="Pong-v5", algo="dqn", preset="none", engine="envpool", replay_transitions=2000)
    assert made["transition_bytes"] == 84 * 84 + 1 + 4 + 5
    learner = make_replay_learner(made, "Pong-v5")
    assert learner.buffer.nbytes == pytest.approx(made["buffer_bytes"], rel=0.02)
    learner.close()


def test_numbers_that_contradict_a_stack_are_refused() -> None:
    line = "plan Pong-v5 --algo dqn --preset none --stacked-frames"
    assert "--stacked-frames 4" in refusal(f"{line} 3").err
    assert "leave out --store-next-obs" in refusal(f"{line} 4 --store-next-obs").err
    assert plan(env="Pong-v5", algo="dqn", preset="none", store_next_obs=True)["stacked_frames"] == 1


def test_a_stack_counts_only_where_nothing_outside_of_it_changes_observations() -> None:
    stack = FrameStackObservation(gymnasium.make("Pendulum-v1"), 4)
    assert stacked_frames(TimeLimit(stack, 20)) == 4
    assert stacked_frames(TransformObservation(stack, lambda obs: 2 * obs, stack.observation_space)) == 1
    assert stacked_frames(gymnasium.make("Pendulum-v1")) == 1
