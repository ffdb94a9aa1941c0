"""Networks for images of any size, and what a plan says about pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

import batchwright
from batchwright.planning.network_plan import image_size
from run_batchwright import plan

NASTY = str(Path(__file__).parents[1] / "envs" / "nasty_envs.py")


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_plan_names_the_convolutions_that_fit_the_image(algo: str) -> None:
    sizes = {"84,84,4": "conv 32-64-64, 512", "16,20,3": "conv 32-64-64, 512", "7,7,3": "conv 32-64, 512"}
    for shape, hidden in sizes.items():
        assert plan(algo=algo, obs_shape=shape, obs_dtype="uint8", action_kind="discrete")["hidden"] == hidden


@pytest.mark.parametrize("options", [{"obs_shape": "4,4,3", "obs_dtype": "uint8"}, {"env": f"{NASTY}:TinyGrid"}])
def test_what_no_network_can_take_is_refused_by_the_plan(options: dict[str, str]) -> None:
    with pytest.raises(batchwright.UserError, match="images of 4 x 4 are too small to convolve: a side needs 5 pixels"):
        plan(**options)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((84, 84, 4), (84, 84, 4)),
        ((4, 84, 84), (84, 84, 4)),
        ((7, 7, 3), (7, 7, 3)),
        ((3, 7, 7), (7, 7, 3)),
        ((210, 160, 3), (210, 160, 3)),
        ((3, 20, 12), (20, 12, 3)),
    ],
)
def test_channels_are_found_first_or_last(shape: tuple[int, ...], size: tuple[int, ...]) -> None:
    assert image_size(shape) == size


def test_a_single_picture_is_remarked_upon_where_motion_may_matter() -> None:
    def remarked(shape: str) -> bool:
        found = plan(algo="ppo", obs_shape=shape, obs_dtype="uint8", action_kind="discrete")
        return any("shows no motion" in warning for warning in found.warnings)

    assert remarked("84,84,3") and remarked("84,84,1")
    assert not remarked("84,84,4"), "four channels are a stack already"
    assert not remarked("7,7,3"), "a grid of symbols"
    assert any("FrameStackObservation" in warning for warning in plan(env=f"{NASTY}:Camera").warnings)
