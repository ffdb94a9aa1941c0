"""Masks and unused boxes: nothing forbidden is sampled, and what is not decided adds nothing. Figures by hand."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.envs.masks import flat_mask, mask_size, refuse_empty
from batchwright.envs.spaces import DictSpace, Discrete, MultiBinary, MultiDiscrete, TupleSpace, box
from batchwright.nets.head_layout import make_heads
from batchwright.on_policy.entropy_loss import freedom

SPEC = DictSpace(
    (
        ("move", Discrete(3)),
        ("keys", MultiDiscrete((2, 3))),
        ("bits", MultiBinary(3)),
        ("push", box(-1.0, 1.0, (2,))),
    )
)
ACTIVITY = {"push": ("move", (0, 2))}
MASK = {
    "move": np.array([1, 0, 1], np.int8),
    "keys": (np.array([0, 1], np.int8), np.array([1, 1, 1], np.int8)),
    "bits": np.array([0, 1, 2], np.int8),
    "push": None,
}
HALF = 0.5 * math.log(2 * math.pi)


def row() -> Any:
    return jnp.asarray(flat_mask(SPEC, MASK, "here"))


def params() -> dict[str, Any]:
    return {"log_std": jnp.zeros(2)}


def test_a_mask_is_one_row_in_the_order_of_the_leaves() -> None:
    # move 1 0 1; keys 0 1 and 1 1 1; bits may be 0: yes no yes, may be 1: no yes yes.
    assert flat_mask(SPEC, MASK, "here").astype(int).tolist() == [1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1]
    assert mask_size(SPEC) == 14
    assert flat_mask(SPEC, {"move": MASK["move"]}, "here")[3:].all()


def test_the_joint_log_prob_is_the_sum_over_what_was_decided() -> None:
    heads = make_heads(SPEC, ACTIVITY)
    # move: exp 1, 5, 3 with the second forbidden -> 1/4 and 3/4; keys: one left, then even thirds; bits: sigmoid(0).
    raw = jnp.float32([0, math.log(5), math.log(3), 9, -9, 0, 0, 0, 4, -4, 0, 0.5, -0.5])
    action = jnp.float32([2, 1, 0, 0, 1, 1, 0.5, 0.5])
    found = heads.log_prob(params(), raw, action, row())
    # push: means 0.5 and -0.5 at 0.5 and 0.5: -0.5 (0 + 1) - ln(2 pi).
    wanted = [math.log(3 / 4), 0.0, math.log(1 / 3), math.log(1 / 2), -0.5 - 2 * HALF]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    entropy = heads.entropy(params(), raw, action, row())
    coin = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    np.testing.assert_allclose(entropy, [coin, 0, math.log(3), math.log(2), 1 + 2 * HALF], atol=1e-5)


def test_an_unused_box_adds_nothing_to_log_prob_entropy_and_gradient() -> None:
    heads = make_heads(SPEC, ACTIVITY)
    raw = jnp.float32(np.arange(13) / 10)

    def total(raw: Any, log_std: Any, move: float) -> Any:
        action = jnp.float32([move, 1, 0, 0, 1, 1, 0.3, -0.9])
        own = {"log_std": log_std}
        return (heads.log_prob(own, raw, action) + heads.entropy(own, raw, action)).sum()

    unused = jax.grad(total, argnums=(0, 1))(raw, jnp.zeros(2), 1.0)
    used = jax.grad(total, argnums=(0, 1))(raw, jnp.zeros(2), 0.0)
    assert not unused[0][11:].any() and not unused[1].any()
    assert used[0][11:].all() and used[1].all()
    np.testing.assert_array_equal(heads.log_prob(params(), raw, jnp.float32([1, 1, 0, 0, 1, 1, 3, 3]))[-1], 0.0)


def test_forced_parts_have_no_gradient() -> None:
    heads = make_heads(SPEC, ACTIVITY)

    def total(raw: Any) -> Any:
        action = jnp.float32([0, 1, 2, 0, 1, 0, 0, 0])
        log_prob = heads.log_prob(params(), raw, action, row())
        return (log_prob + heads.entropy(params(), raw, action, row())).sum()

    slope = jax.grad(total)(jnp.float32(np.arange(13) / 10))
    assert np.isfinite(slope).all()
    # The forbidden move, both values of a choice with one left, both forced bits.
    assert np.flatnonzero(slope == 0).tolist() == [1, 3, 4, 8, 9]


def test_rows_of_a_box_follow_their_own_choice() -> None:
    spec = TupleSpace((MultiDiscrete((3, 3)), box(-1.0, 1.0, (2, 2))))
    heads = make_heads(spec, {"1": ("0", (2,))})
    raw = jnp.zeros(10)
    # The second choice is 2: the second row of the box, two numbers at mean 0, is used.
    log_prob = heads.log_prob({"log_std": jnp.zeros(4)}, raw, jnp.float32([0, 2, 5, 5, 0, 1]))
    assert float(log_prob[-1]) == pytest.approx(-0.5 - 2 * HALF, rel=1e-5)
    free = freedom(heads, jnp.float32([0, 2, 5, 5, 0, 1]))
    np.testing.assert_allclose(free, [1, 1, 0.5])


@pytest.mark.parametrize("greedy", [True, False])
def test_what_a_mask_forbids_is_never_sampled(greedy: bool) -> None:
    heads = make_heads(SPEC, ACTIVITY)
    draws = 2000
    # The raw outputs ask for exactly what is forbidden.
    raw = jnp.tile(jnp.float32([0, 50, 0, 50, 0, 0, 0, 0, 50, -50, 0, 0, 0]), (draws, 1))
    noise = heads.no_noise((draws,)) if greedy else heads.noise(3, (draws,))
    action = np.asarray(heads.sample(params(), raw, noise, jnp.tile(row(), (draws, 1))))
    assert not (action[:, 0] == 1).any() and (action[:, 1] == 1).all()
    assert (action[:, 3] == 0).all() and (action[:, 4] == 1).all()


@pytest.mark.parametrize(
    ("mask", "word"),
    [
        ({"move": np.ones(2, np.int8)}, "(3,)"),
        ({"move": np.ones(3, np.float32)}, "float32"),
        ({"keys": (np.ones(2, np.int8),)}, "2 choices"),
        ({"bits": np.array([0, 3, 1], np.int8)}, "0, 1 or 2"),
        ({"push": np.ones(2, np.int8)}, "Box"),
        ({"jump": np.ones(3, np.int8)}, "jump"),
        (np.ones(3, np.int8), "dict"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused_by_its_part(mask: Any, word: str) -> None:
    with pytest.raises(UserError, match=r"action mask") as refused:
        flat_mask(SPEC, mask, "here")
    assert word in str(refused.value)


def test_a_mask_that_leaves_nothing_is_refused_by_its_choice() -> None:
    empty = flat_mask(SPEC, {"keys": (np.ones(2, bool), np.zeros(3, bool))}, "here")
    with pytest.raises(UserError, match=r"every value of 'keys\[1\]'"):
        refuse_empty(SPEC, empty, "here")


@pytest.mark.parametrize(
    "activity",
    [
        {"pull": ("move", (0,))},
        {"push": ("push", (0,))},
        {"push": ("move", (3,))},
        {"push": ("move", ())},
        {"push": ("bits", (1,))},
    ],
)
def test_an_activity_that_names_nothing_is_refused(activity: Any) -> None:
    with pytest.raises(UserError):
        make_heads(SPEC, activity)
