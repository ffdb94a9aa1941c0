"""The reward network sees [s, a, s - s'] and nothing else; convolutions by patches are convolutions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.envs.spaces import DictSpace, Discrete, box
from batchwright.nets.convolutions import conv_layers, convolve, patches
from batchwright.nets.initial_weights import host_rng
from batchwright.nets.replay_nets import make_reward_network
from batchwright.planning.network_plan import CONV_LAYERS
from batchwright.reward.reward_model import RewardModel
from batchwright.reward.reward_spec import ModelSpec

KEY = jax.random.key(0)


def test_the_input_is_s_a_and_s_minus_next_s() -> None:
    network = make_reward_network(box(-1.0, 1.0, (2,)), box(-1.0, 1.0, (1,)), hidden=())
    params = {"tower": [{"w": jnp.asarray([[1.0], [10.0], [100.0], [1e3], [1e4]]), "b": jnp.zeros(1)}]}
    found = network.apply(params, jnp.asarray([[1.0, 2.0]]), jnp.asarray([[3.0]]), jnp.asarray([[0.0, 1.0]]))
    assert found.tolist() == [1 + 20 + 300 + 1e3 + 1e4]


def test_choices_are_one_hot() -> None:
    network = make_reward_network(box(-1.0, 1.0, (1,)), Discrete(3), hidden=())
    params = {"tower": [{"w": jnp.asarray([[0.0], [1.0], [2.0], [4.0], [0.0]]), "b": jnp.zeros(1)}]}
    found = network.apply(params, jnp.zeros((3, 1)), jnp.asarray([[0.0], [1.0], [2.0]]), jnp.zeros((3, 1)))
    assert found.tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("shape", [(40, 44, 3), (3, 40, 44)])
def test_images_and_numbers_beside_them_all_move_the_reward(shape: tuple[int, ...]) -> None:
    spec = DictSpace((("eye", box(0, 255, shape, np.uint8)), ("arm", box(-1.0, 1.0, (2,)))))
    network = make_reward_network(spec, box(-1.0, 1.0, (2,)))
    params = network.init(KEY)
    draw = np.random.default_rng(0)
    obs = {"eye": draw.integers(0, 255, (2, *shape), np.uint8), "arm": np.zeros((2, 2), np.float32)}
    other = {"eye": draw.integers(0, 255, (2, *shape), np.uint8), "arm": np.ones((2, 2), np.float32)}
    action = jnp.zeros((2, 2))
    base = network.apply(params, obs, action, obs)
    assert base.shape == (2,)
    assert not np.allclose(base, network.apply(params, obs, action + 1, obs))
    for part in ("eye", "arm"):
        assert not np.allclose(base, network.apply(params, obs, action, obs | {part: other[part]}))


def test_convolution_by_patches_is_the_convolution() -> None:
    rng = host_rng(KEY)
    layers, width = conv_layers(rng, (44, 40, 2))
    image = jnp.asarray(rng.standard_normal((3, 44, 40, 2)), jnp.float32)
    x = image
    for layer, (filters, side, stride) in zip(layers, CONV_LAYERS[0][1], strict=True):
        kernel = layer["w"].reshape(side, side, -1, filters)
        x = jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + layer["b"])
    found = convolve(layers, image)
    assert found.shape == (3, width)
    assert np.allclose(found, x.reshape(3, -1), atol=1e-5)


def test_patches_are_the_squares_of_an_image_in_reading_order() -> None:
    found = patches(jnp.arange(16.0).reshape(1, 4, 4, 1), 2, 2)
    assert found[0, 0, 0].tolist() == [0, 1, 4, 5]
    assert found[0, 1, 1].tolist() == [10, 11, 14, 15]


def test_small_images_are_refused() -> None:
    with pytest.raises(UserError, match="too small to convolve"):
        make_reward_network(box(0, 255, (4, 40, 3), np.uint8), Discrete(2)).init(KEY)


def test_a_reward_model_names_the_key_of_images_that_are_too_small() -> None:
    with pytest.raises(UserError, match="camera: images of 4 x 40 are too small") as refused:
        RewardModel(ModelSpec({"camera": box(0, 255, (4, 40, 3), np.uint8)}, {"act": Discrete(2)}, ()))
    assert refused.value.fixes == ("--obs-keys without it",)
