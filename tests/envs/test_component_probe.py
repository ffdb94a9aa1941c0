"""Components by random actions: their scales, and what they leave out of the reward."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchwright.envs.component_probe import PROBE_STEPS, probe_components

FILE = str(Path(__file__).with_name("special_envs.py"))


def test_keys_that_leave_out_a_part_of_the_reward_have_a_rest() -> None:
    # The reward is 1 + steps: `alive` is 1, so that steps are left out. Returns of `alive` without discount: 1, 2, 3.
    found = probe_components(f"{FILE}:numbered", ("alive",), 1.0)
    assert found is not None
    assert found.names == ("alive", "rest") and found.steps == PROBE_STEPS
    # Of 1, 2, 3 the standard deviation is 0.816; of 1, 3, 6 it is 2.055.
    assert found.spreads == pytest.approx((0.816, 2.055), rel=0.01)


def test_keys_that_are_the_whole_reward_and_entries_of_a_vector_have_none() -> None:
    whole = probe_components("CartPole-v1", None, 0.9)
    assert whole is not None and whole.names == ()
    vector = probe_components(f"{FILE}:Masked", None, 1.0)
    assert vector is not None
    assert vector.names == ("alive", "steps") and vector.spreads == pytest.approx((0.816, 2.055), rel=0.01)


def test_what_cannot_be_tried_is_left_to_training() -> None:
    assert probe_components(f"{FILE}:numbered", ("no such key",), 0.99) is None
    assert probe_components("NoSuchTask-v0", ("a",), 0.99) is None
