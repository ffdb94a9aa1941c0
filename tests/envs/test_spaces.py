"""Claims about the spec tree: what is read from Gymnasium, and the sizes a plan takes from it."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.envs import spaces

NESTED = gymnasium.spaces.Dict(
    {
        "camera": gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8),
        "arm": gymnasium.spaces.Tuple((gymnasium.spaces.Box(-1, 1, (6,)), gymnasium.spaces.Discrete(3, start=2))),
        "bits": gymnasium.spaces.MultiBinary(4),
        "dials": gymnasium.spaces.MultiDiscrete([2, 5]),
    }
)


def test_a_nested_space_becomes_leaves_with_paths() -> None:
    spec = spaces.from_gymnasium(NESTED)
    assert [path for path, _ in spaces.leaves(spec)] == [
        ("arm", 0),
        ("arm", 1),
        ("bits",),
        ("camera",),
        ("dials",),
    ]
    assert dict(spaces.leaves(spec))[("arm", 1)] == spaces.Discrete(3, start=2)


def test_action_size_counts_every_number_of_an_action() -> None:
    # 64 * 64 * 3 + 6 + 1 + 4 + 2
    assert spaces.action_size(spaces.from_gymnasium(NESTED)) == 12301


def test_observation_bytes_are_those_of_the_stored_dtype() -> None:
    assert spaces.observation_bytes(spaces.box(-np.inf, np.inf, (17,), np.float64)) == 17 * 4
    assert spaces.observation_bytes(spaces.box(0, 255, (4, 84, 84), np.uint8)) == 4 * 84 * 84
    assert spaces.observation_bytes(spaces.Discrete(500)) == 4


def test_unflatten_is_the_inverse_of_leaves() -> None:
    spec = spaces.from_gymnasium(NESTED)
    tree = spaces.unflatten(spec, list(range(5)))
    assert [spaces.value_at(tree, path) for path, _ in spaces.leaves(spec)] == [0, 1, 2, 3, 4]


def test_only_uint8_of_rank_three_is_an_image() -> None:
    assert spaces.is_image(spaces.box(0, 255, (84, 84, 3), np.uint8))
    assert not spaces.is_image(spaces.box(0, 1, (84, 84, 3)))
    assert not spaces.is_image(spaces.box(0, 255, (84, 84), np.uint8))


def test_numbers_of_a_scale_are_no_images_bits_or_choices() -> None:
    text, codes = spaces.box(0, 255, (96,), np.uint8), spaces.box(0, 10, (5,), np.int64)
    reals, image = spaces.box(-1, 1, (3,)), spaces.box(0, 255, (7, 7, 3), np.uint8)
    bits, unbounded = spaces.box(0, 1, (4,), np.bool_), spaces.box(-(2**31), 2**31 - 1, (2,), np.int32)
    boxes = (text, codes, reals, unbounded, image, bits, spaces.Discrete(500), spaces.MultiBinary(3))
    assert [spaces.is_numeric(leaf) for leaf in boxes] == [True] * 4 + [False] * 4
    assert [spaces.is_wide(leaf) for leaf in boxes] == [True, False, False, True] + [False] * 4


def test_a_hybrid_action_is_not_discrete() -> None:
    hybrid = spaces.TupleSpace((spaces.Discrete(3), spaces.box(-1, 1, (2,))))
    assert not spaces.is_discrete(hybrid)
    assert spaces.is_discrete(spaces.TupleSpace((spaces.Discrete(3), spaces.MultiBinary(2))))


def test_bounds_at_the_largest_float_are_none() -> None:
    largest = np.finfo(np.float32).max
    spec = spaces.from_gymnasium(gymnasium.spaces.Box(-largest, np.array([largest, 2.0], np.float32)))
    assert spec == spaces.box(-np.inf, np.array([np.inf, 2.0]), (2,))


def test_boxes_are_equal_when_their_bounds_are() -> None:
    assert spaces.box(-1, 1, (3,)) == spaces.box(-np.ones(3), np.ones(3))
    assert spaces.box(-1, 1, (3,)) != spaces.box(-1, 2, (3,))


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Text(5),
        gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)),
        gymnasium.spaces.Graph(gymnasium.spaces.Discrete(2), None),
        gymnasium.spaces.MultiBinary((2, 2)),
        gymnasium.spaces.MultiDiscrete([[2, 2], [3, 3]]),
    ],
)
def test_an_unsupported_space_is_named_with_what_is_supported(space: gymnasium.Space) -> None:
    tree = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2), "b": space})
    with pytest.raises(UserError, match=type(space).__name__) as refused:
        spaces.from_gymnasium(tree, "X-v0's observation")
    assert "X-v0's observation['b']" in str(refused.value) and "MultiDiscrete" in str(refused.value)
