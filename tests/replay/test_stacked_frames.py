"""Runs whose observations stack frames: each frame is stored once, and the numbers are those of whole observations."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium.wrappers import FrameStackObservation, TimeLimit, TransformObservation

from batchwright.envs.gymnasium_source import stacked_frames
from batchwright.replay.replay_learner import make_replay_learner
from run_batchwright import plan, refusal


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
