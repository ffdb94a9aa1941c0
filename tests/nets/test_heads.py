"""Log-probs, entropies, samples and bounds of every kind of head, against SciPy-free figures by hand."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.envs.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, Spec, TupleSpace, box
from batchwright.nets.head_layout import make_heads
from batchwright.nets.heads import Heads
from batchwright.nets.policy import make_to_env

NESTED = DictSpace(
    (
        ("gear", Discrete(3)),
        ("arm", TupleSpace((box(np.float32([-2, 0]), np.float32([2, 10])), MultiBinary(2)))),
        ("keys", MultiDiscrete((2, 3))),
    )
)
DRAWS = 40_000


def log_prob(heads: Heads, raw: Any, action: Any, log_std: Any = ()) -> np.ndarray:
    return np.asarray(heads.log_prob({"log_std": jnp.float32(log_std)}, jnp.float32(raw), jnp.float32(action)))


def draws(heads: Heads, raw: Any, log_std: Any = ()) -> np.ndarray:
    noise = heads.noise(0, (DRAWS,))
    rows = jnp.tile(jnp.float32(raw), (DRAWS, 1))
    return np.asarray(heads.sample({"log_std": jnp.float32(log_std)}, rows, noise))


def test_a_choice_has_the_log_prob_and_entropy_of_its_softmax() -> None:
    # exp of the raw outputs: 1, 2, 5 -> probabilities 1/8, 1/4, 5/8
    heads = make_heads(Discrete(3))
    raw = np.log([1, 2, 5])
    for action, p in enumerate((1 / 8, 1 / 4, 5 / 8)):
        assert log_prob(heads, raw, [action])[0] == pytest.approx(math.log(p), rel=1e-5)
    wanted = -sum(p * math.log(p) for p in (1 / 8, 1 / 4, 5 / 8))
    assert float(heads.entropy({}, jnp.float32(raw))[0]) == pytest.approx(wanted, rel=1e-5)


def test_bits_are_independent_coins() -> None:
    # sigmoid(ln 3) = 3/4, sigmoid(0) = 1/2
    heads = make_heads(MultiBinary(2))
    raw = [math.log(3), 0.0]
    assert log_prob(heads, raw, [1, 0])[0] == pytest.approx(math.log(3 / 8), rel=1e-5)
    assert log_prob(heads, raw, [0, 1])[0] == pytest.approx(math.log(1 / 8), rel=1e-5)
    coin = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert float(heads.entropy({}, jnp.float32(raw))[0]) == pytest.approx(coin + math.log(2), rel=1e-5)


def test_a_box_has_the_density_and_entropy_of_a_normal() -> None:
    # Mean 1, std 2, at 2: -0.5 (1/2)^2 - ln 2 - 0.5 ln(2 pi); mean 0, std 1, at 0: -0.5 ln(2 pi)
    heads = make_heads(box(-1.0, 1.0, (2,)))
    half = 0.5 * math.log(2 * math.pi)
    found = log_prob(heads, [1, 0], [2, 0], [math.log(2), 0])
    assert found[0] == pytest.approx(-0.125 - math.log(2) - 2 * half, rel=1e-5)
    entropy = heads.entropy({"log_std": jnp.float32([math.log(2), 0])}, jnp.zeros(2))
    assert float(entropy[0]) == pytest.approx(2 * (0.5 + half) + math.log(2), rel=1e-5)


def test_the_log_prob_uses_the_action_before_clipping() -> None:
    heads = make_heads(box(-1.0, 1.0, (1,)))
    assert log_prob(heads, [0], [5.0], [0])[0] == pytest.approx(-12.5 - 0.5 * math.log(2 * math.pi), rel=1e-5)
    assert np.asarray(make_to_env(heads.spec)(jnp.float32([5.0]))).tolist() == [1.0]


def test_log_std_is_bounded() -> None:
    heads = make_heads(box(-1.0, 1.0, (1,)))
    assert log_prob(heads, [0], [0], [50.0])[0] == log_prob(heads, [0], [0], [2.0])[0]
    assert log_prob(heads, [0], [0], [-50.0])[0] == log_prob(heads, [0], [0], [-5.0])[0]


def test_the_joint_log_prob_of_nested_spaces_is_the_sum_of_the_heads() -> None:
    heads = make_heads(NESTED)
    assert [head.name for head in heads.heads] == ["gear", "arm/0", "arm/1", "keys[0]", "keys[1]"]
    assert (heads.raw_size, heads.action_size, heads.std_size) == (3 + 2 + 2 + 5, 1 + 2 + 2 + 2, 2)
    draw = np.random.default_rng(0)
    raw, std = draw.normal(size=12), [0.3, -0.4]
    action = np.array([2, 0.5, -0.2, 1, 0, 1, 2])
    parts: list[tuple[Spec, Any, Any, Any]] = [
        (Discrete(3), raw[:3], action[:1], ()),
        (box(-1.0, 1.0, (2,)), raw[3:5], action[1:3], std),
        (MultiBinary(2), raw[5:7], action[3:5], ()),
        (Discrete(2), raw[7:9], action[5:6], ()),
        (Discrete(3), raw[9:12], action[6:7], ()),
    ]
    wanted = [float(log_prob(make_heads(spec), r, a, s)[0]) for spec, r, a, s in parts]
    np.testing.assert_allclose(log_prob(heads, raw, action, std), wanted, rtol=1e-5)
    assert heads.entropy({"log_std": jnp.float32(std)}, jnp.float32(raw)).shape == (5,)


def test_samples_have_the_frequencies_of_the_policy() -> None:
    choice = draws(make_heads(Discrete(3)), np.log([1, 2, 5]))[:, 0]
    np.testing.assert_allclose(np.bincount(choice.astype(int)) / DRAWS, [1 / 8, 1 / 4, 5 / 8], atol=0.01)
    bits = draws(make_heads(MultiBinary(2)), [math.log(3), 0])
    np.testing.assert_allclose(bits.mean(0), [0.75, 0.5], atol=0.01)
    normal = draws(make_heads(box(-1.0, 1.0, (2,))), [1, -3], [math.log(2), math.log(0.5)])
    np.testing.assert_allclose(normal.mean(0), [1, -3], atol=0.04)
    np.testing.assert_allclose(normal.std(0), [2, 0.5], rtol=0.02)


def test_the_heads_of_one_action_draw_apart() -> None:
    """One noise for all heads would tie them together."""
    pair = draws(make_heads(MultiDiscrete((2, 2))), [0, 0, 0, 0])
    assert abs(np.corrcoef(pair.T)[0, 1]) < 0.02
    mixed = draws(make_heads(TupleSpace((box(-1.0, 1.0, (1,)), box(-1.0, 1.0, (1,))))), [0, 0], [0, 0])
    assert abs(np.corrcoef(mixed.T)[0, 1]) < 0.02


def test_noise_has_one_array_per_head_with_the_asked_shape_in_front() -> None:
    noise = make_heads(NESTED).noise(0, (5, 7))
    assert [part.shape for part in noise] == [(5, 7, 3), (5, 7, 2), (5, 7, 2), (5, 7, 2), (5, 7, 3)]
    assert all(part.dtype == np.float32 for part in noise)


def test_noise_depends_on_the_stream_and_is_finite() -> None:
    heads = make_heads(NESTED)
    one, same, other = (heads.noise(stream, (2000,)) for stream in (4, 4, 5))
    for head, part in enumerate(one):
        np.testing.assert_array_equal(part, same[head])
        assert not np.array_equal(part, other[head])
        assert np.isfinite(part).all()


def test_without_noise_the_most_likely_action_is_taken() -> None:
    heads = make_heads(NESTED)
    raw = jnp.float32([[0, 3, 1, 0.25, -7, 2, -2, 1, 5, 0, 4, 9]])
    found = heads.sample({"log_std": jnp.zeros(2)}, raw, heads.no_noise((1,)))
    assert np.asarray(found).tolist() == [[1, 0.25, -7, 1, 0, 1, 2]]


def test_to_env_scales_boxes_to_their_bounds_and_gives_whole_numbers_for_choices() -> None:
    tree = make_to_env(NESTED)(jnp.float32([[2, 0.5, -7, 1, 0, 1, 2], [0, -1, 0, 0, 1, 0, 0]]))
    assert set(tree) == {"gear", "arm", "keys"}
    assert (tree["gear"].dtype, np.asarray(tree["gear"]).tolist()) == (jnp.int32, [2, 0])
    # Bounds [-2, 2] and [0, 10]: 0.5 -> 1; -7 is clipped to -1 -> 0; 0 -> 5, the middle.
    assert np.asarray(tree["arm"][0]).tolist() == [[1, 0], [-2, 5]]
    assert (tree["arm"][1].dtype, np.asarray(tree["arm"][1]).tolist()) == (jnp.int32, [[1, 0], [0, 1]])
    assert np.asarray(tree["keys"]).tolist() == [[1, 2], [0, 0]]


def test_to_env_keeps_shapes_and_leaves_unbounded_dimensions_alone() -> None:
    spec = box(np.float32([[-np.inf, -3.0]]), np.float32([[np.inf, 1.0]]))
    found = make_to_env(spec)(jnp.float32([[123.0, 9.0]]))
    assert np.asarray(found).tolist() == [[[123.0, 1.0]]]
    assert make_to_env(box(-1.0, 1.0, ()))(jnp.float32([[0.5]])).shape == (1,)


@pytest.mark.parametrize("bound", [0.1, 0.2, 0.4, 0.7, 1 / 3, 2.9])
def test_actions_stay_inside_float64_bounds_that_float32_cannot_write(bound: float) -> None:
    """float32(0.4) is above 0.4: an environment that checks its action space would refuse it."""
    spec = Box((1,), np.dtype(np.float64), np.array([-bound]), np.array([bound]))
    for raw in (-9.0, -1.0, 0.0, 1.0, 9.0):
        action = np.asarray(make_to_env(spec)(jnp.float32([raw]))).astype(np.float64)
        assert -bound <= action[0] <= bound


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (box(np.float32([0.0]), np.float32([np.inf])), "^the action is bounded on one side only"),
        (box(0, 10, (2,), np.int64), "Box of int64"),
        (DictSpace((("speed", box(np.float32([-np.inf]), np.float32([1.0]))),)), "the action 'speed'"),
    ],
)
def test_boxes_that_cannot_be_sampled_are_refused_by_name(spec: Spec, said: str) -> None:
    with pytest.raises(UserError, match=said) as refused:
        make_heads(spec)
    assert refused.value.fixes
