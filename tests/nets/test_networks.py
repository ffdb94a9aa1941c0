"""What networks see of observations, the shapes they give, and which parameters belong to the critic alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.envs.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, Spec, TupleSpace, box
from batchwright.nets.convolutions import conv_layers, convolve
from batchwright.nets.networks import Inputs, Network
from batchwright.nets.param_roles import param_name, param_roles, value_only_params
from batchwright.nets.policy import ObsStats, Policy
from batchwright.nets.policy_factory import make_policy
from batchwright.planning.network_plan import conv_layers_for

MIXED = DictSpace(
    (
        ("camera", Box((3, 40, 36), np.dtype(np.uint8), np.zeros((3, 40, 36)), np.full((3, 40, 36), 255))),
        ("gear", Discrete(3)),
        ("joints", TupleSpace((box(-1.0, 1.0, (2, 2)), MultiBinary(2), MultiDiscrete((2, 3))))),
    )
)


def image(*shape: int) -> Box:
    return Box(shape, np.dtype(np.uint8), np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8))


def plain(size: int) -> ObsStats:
    return ObsStats(jnp.zeros(size), jnp.ones(size))


def mixed_obs(*lead: int) -> Any:
    draw = np.random.default_rng(0)
    return {
        "camera": draw.integers(0, 256, (*lead, 3, 40, 36)).astype(np.uint8),
        "gear": np.full(lead, 2, np.int32),
        "joints": (
            np.arange(4 * int(np.prod(lead)), dtype=np.float32).reshape(*lead, 2, 2),
            np.ones((*lead, 2), np.int32),
            np.tile(np.int32([1, 0]), (*lead, 1)),
        ),
    }


def test_numbers_become_one_vector_with_choices_one_hot() -> None:
    inputs = Inputs(MIXED)
    assert inputs.vector_size == 3 + 4 + 2 + 5
    rows = np.asarray(inputs.vector(mixed_obs(2)))
    assert rows[0].tolist() == [0, 0, 1, 0, 1, 2, 3, 1, 1, 0, 1, 1, 0, 0]
    assert rows[1].tolist() == [0, 0, 1, 4, 5, 6, 7, 1, 1, 0, 1, 1, 0, 0]
    assert inputs.vector(mixed_obs(4, 2)).shape == (4, 2, 14)


def test_images_come_channels_last_between_0_and_1_and_numbers_are_normalised() -> None:
    obs = mixed_obs(2)
    inputs = Inputs(MIXED)(obs, lambda rows: rows + 100)
    assert inputs["images"][0].shape == (2, 40, 36, 3)
    np.testing.assert_allclose(inputs["images"][0], np.moveaxis(obs["camera"], 1, -1) / 255, rtol=1e-5)
    assert float(inputs["vector"][0, 0]) == 100.0
    last = Inputs(image(40, 36, 3))(np.moveaxis(obs["camera"], 1, -1), lambda rows: rows)
    np.testing.assert_allclose(last["images"][0], inputs["images"][0], rtol=1e-6)
    assert "vector" not in last


@pytest.mark.parametrize(
    ("spec", "obs"),
    [
        (box(-1.0, 1.0, (5,)), np.ones((3, 2, 5), np.float32)),
        (Discrete(4), np.ones((3, 2), np.int32)),
        (image(4, 36, 36), np.ones((3, 2, 4, 36, 36), np.uint8)),
        (MIXED, mixed_obs(3, 2)),
    ],
    ids=["vector", "choice", "image", "mixed"],
)
def test_networks_give_raw_outputs_and_values_for_any_leading_axes(spec: Spec, obs: Any) -> None:
    policy = make_policy(spec, Discrete(6), num_values=2, hidden=(8,))
    flat, stats = policy.init(jax.random.key(1)), plain(policy.inputs.vector_size)
    outputs = jax.jit(lambda obs: policy.outputs(flat, policy.preprocess(obs, stats)))
    out = outputs(obs)
    assert (out.raw.shape, out.value.shape) == ((3, 2, 6), (3, 2, 2))
    one = jax.tree.map(lambda x: x[1, 1][None], obs)
    alone = outputs(one)
    np.testing.assert_allclose(alone.raw[0], out.raw[1, 1], rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(alone.value[0], out.value[1, 1], rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(("activation", "wanted"), [("tanh", np.tanh(2)), ("relu", 2.0), ("elu", 2.0)])
def test_an_mlp_is_what_its_parameters_say(activation: str, wanted: float) -> None:
    """All weights 1, biases 0, one input 2, one hidden unit each: raw and value are the activation of 2."""
    policy = make_policy(box(-9.0, 9.0, (1,)), Discrete(2), hidden=(1,), activation=activation)
    tree = policy.unravel(policy.init(jax.random.key(0)))
    net = jax.tree.map(jnp.ones_like, tree["net"])
    for layer in (net["first"], *net["actor"], *net["critic"]):
        layer["b"] = jnp.zeros_like(layer["b"])
    flat = policy.ravel({**tree, "net": net})
    out = policy.outputs(flat, jnp.float32([[2.0]]))
    np.testing.assert_allclose(out.raw, [[wanted, wanted]], rtol=1e-6)
    np.testing.assert_allclose(out.value, [[wanted]], rtol=1e-6)


def test_the_first_policy_is_nearly_uniform_and_depends_on_the_key() -> None:
    policy = make_policy(box(-1.0, 1.0, (4,)), Discrete(3))
    one, other = (policy.init(jax.random.key(k)) for k in (0, 1))
    assert not np.array_equal(one, other)
    raw = policy.outputs(one, jax.random.normal(jax.random.key(2), (50, 4))).raw
    assert float(jnp.abs(raw).max()) < 0.1


def moved(policy: Policy, flat: jax.Array, mask: np.ndarray, inputs: Any) -> tuple[bool, bool]:
    """Whether raw outputs and values change when the masked parameters do."""
    before = policy.outputs(flat, inputs)
    after = policy.outputs(jnp.where(mask, flat + 0.1, flat), inputs)
    return bool((before.raw != after.raw).any()), bool((before.value != after.value).any())


@pytest.mark.parametrize("hidden", [(8,), (16, 8)])
def test_value_only_marks_the_critic_and_nothing_of_the_actor(hidden: tuple[int, ...]) -> None:
    policy = make_policy(box(-1.0, 1.0, (4,)), box(-1.0, 1.0, (2,)), hidden=hidden, activation="relu")
    mask = value_only_params(policy, jax.random.key(0))
    flat = policy.init(jax.random.key(5))
    inputs = jax.random.normal(jax.random.key(1), (30, 4))
    assert moved(policy, flat, mask, inputs) == (False, True)
    # Separate towers of equal shape: first-layer half, hidden layers, output, and the affine map on the value.
    sizes = (4, *hidden)
    tower = sum(a * b + b for a, b in zip(sizes, hidden, strict=False))
    assert mask.sum() == tower + hidden[-1] + 1 + 2
    others = policy.unravel(jnp.asarray(~mask, jnp.float32))
    assert others["heads"]["log_std"].tolist() == [1, 1]
    assert all(leaf.all() for leaf in jax.tree.leaves(others["net"]["actor"]))
    assert not any(leaf.any() for leaf in jax.tree.leaves(others["net"]["critic"]))


def test_roles_of_parameters_are_told_by_what_they_move() -> None:
    policy = make_policy(box(-1.0, 1.0, (4,)), box(-1.0, 1.0, (2,)), hidden=(16, 8), activation="relu")
    flat, inputs = policy.init(jax.random.key(5)), jax.random.normal(jax.random.key(1), (30, 4))
    masks = []
    for ranges in param_roles(policy):
        mask = np.zeros(flat.shape, bool)
        for begin, end in ranges:
            mask[begin:end] = True
        masks.append(mask)
    assert [moved(policy, flat, mask, inputs) for mask in masks] == [(True, False), (False, True)]
    # The actor's layers after the first, which it shares with the critic in one array, and its standard deviations.
    assert masks[0].sum() == 16 * 8 + 8 + 8 * 2 + 2 + 2
    assert masks[1].sum() == 16 * 8 + 8 + 8 + 1 + 2


def test_roles_of_a_shared_trunk_are_the_last_layers() -> None:
    policy = make_policy(image(36, 36, 1), Discrete(2))
    sizes = [sum(end - begin for begin, end in ranges) for ranges in param_roles(policy)]
    assert sizes == [512 * 2 + 2, 512 + 1 + 2]


def test_value_only_of_a_shared_trunk_is_the_last_layer() -> None:
    policy = make_policy(image(36, 36, 1), Discrete(2))
    mask = policy.unravel(jnp.asarray(value_only_params(policy, jax.random.key(0)), jnp.float32))
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves((mask["net"]["trunk"], mask["net"]["actor"])))
    assert np.asarray(mask["net"]["critic"]["b"]).all()


def test_a_parameter_is_named_by_its_path() -> None:
    policy = make_policy(box(-1.0, 1.0, (4,)), box(-1.0, 1.0, (2,)), hidden=(8,))
    flat = np.asarray(policy.init(jax.random.key(0)))
    assert param_name(policy, flat, 0) == "['heads']['log_std']"
    assert param_name(policy, flat, len(flat) - 1) == "['value']['shift']"


def test_images_too_small_for_the_convolutions_are_refused() -> None:
    with pytest.raises(UserError, match="4 x 9") as refused:
        make_policy(image(4, 9, 3), Discrete(2))
    assert refused.value.fixes


@pytest.mark.parametrize("side", [5, 7, 9, 10, 15, 16, 35])
def test_small_images_have_convolutions_that_leave_something_of_them(side: int) -> None:
    policy = make_policy(image(side, side + 2, 3), Discrete(2))
    for shape in ((2, side, side + 2, 3), (2, 3, side, side + 2)):
        spec = image(*shape[1:])
        inputs = Inputs(spec)(np.full(shape, 255, np.uint8), lambda rows: rows)
        out = policy.outputs(policy.init(jax.random.key(0)), inputs)
        assert (out.raw.shape, out.value.shape) == ((2, 2), (2, 1)) and np.isfinite(out.raw).all()
    layers = conv_layers(np.random.default_rng(0), (side, side + 2, 3))[0]
    x = np.random.default_rng(1).random((1, side, side + 2, 3)).astype(np.float32)
    filters = conv_layers_for(side, side + 2)
    assert filters is not None
    expected = x
    for layer, (_, width, stride) in zip(layers, filters, strict=True):
        kernel = layer["w"].reshape(width, width, expected.shape[-1], -1)
        layout = ("NHWC", "HWIO", "NHWC")
        found = jax.lax.conv_general_dilated(expected, kernel, (stride, stride), "VALID", dimension_numbers=layout)
        expected = np.maximum(np.asarray(found) + layer["b"], 0)
    np.testing.assert_allclose(convolve(layers, x), expected.reshape(1, -1), rtol=1e-4, atol=1e-5)


def test_a_network_of_ones_own_is_two_functions() -> None:
    def linear(inputs: Inputs, raw_size: int, num_values: int) -> Network:
        def init(key: jax.Array) -> Any:
            return {"w": jax.random.normal(key, (inputs.vector_size, raw_size + num_values))}

        def apply(params: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            out = x @ params["w"]
            return out[..., :raw_size], out[..., raw_size:]

        return Network(init, apply)

    policy = make_policy(box(-1.0, 1.0, (4,)), Discrete(3), network=linear)
    out = policy.outputs(policy.init(jax.random.key(0)), jnp.ones((7, 4)))
    assert (out.raw.shape, out.value.shape) == ((7, 3), (7, 1))
