"""Actors, critics and the heads of replay learning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.envs.spaces import DictSpace, Discrete, MultiDiscrete, box
from batchwright.nets.networks import Inputs
from batchwright.nets.policy import ObsStats, make_to_env
from batchwright.nets.replay_nets import make_actor, make_squashed_heads, make_twin_critics, sample_with_log_prob
from batchwright.replay.dqn import make_greedy_heads, make_q_policy

PLAIN = ObsStats(jnp.zeros(3), jnp.ones(3))
OBS, ACTION = box(-1.0, 1.0, (3,)), box(np.asarray([-2.0, 0.0]), np.asarray([2.0, 1.0]))


def test_the_log_prob_of_a_squashed_action_is_that_of_the_change_of_variables() -> None:
    raw = jnp.asarray([[0.3, -0.2, -0.5, 0.1]])
    action, log_prob = sample_with_log_prob(raw, jnp.asarray([[0.7, -1.1]]))
    u = np.array([0.3 + np.exp(-0.5) * 0.7, -0.2 - np.exp(0.1) * 1.1])
    density = np.exp(-0.5 * np.array([0.7, -1.1]) ** 2) / np.sqrt(2 * np.pi) / np.exp([-0.5, 0.1])
    assert np.allclose(action, np.tanh(u), atol=1e-6)
    assert float(log_prob[0]) == pytest.approx(float(np.log(density / (1 - np.tanh(u) ** 2)).sum()), abs=1e-4)


def test_probabilities_of_squashed_actions_add_up_to_one() -> None:
    grid = np.linspace(-0.9999, 0.9999, 20_001)
    raw = jnp.broadcast_to(jnp.asarray([0.4, -0.3]), (len(grid), 2))
    normal = (np.arctanh(grid) - 0.4) / np.exp(-0.3)
    _, log_prob = sample_with_log_prob(raw, jnp.asarray(normal[:, None], jnp.float32))
    assert float(np.trapezoid(np.exp(log_prob), grid)) == pytest.approx(1.0, abs=2e-3)


def test_a_saturated_action_has_a_finite_log_prob_and_gradient() -> None:
    def log_prob(mean: jax.Array) -> jax.Array:
        return sample_with_log_prob(jnp.stack([mean, jnp.float32(0.0)])[None], jnp.zeros((1, 1)))[1].sum()

    assert np.isfinite(log_prob(jnp.float32(50.0)))
    assert np.isfinite(jax.grad(log_prob)(jnp.float32(50.0)))


def test_warm_up_is_uniform_in_the_box_and_evaluation_is_the_mean() -> None:
    heads = make_squashed_heads(ACTION)
    raw = jnp.broadcast_to(jnp.asarray([0.5, -0.5, 1.0, 1.0]), (4000, 4))
    warm = np.asarray(make_to_env(ACTION)(heads.sample({}, raw, heads.random(0, (4000,)))))
    assert warm.min(0) == pytest.approx([-2.0, 0.0], abs=0.01)
    assert warm.mean(0) == pytest.approx([0.0, 0.5], abs=0.06)
    calm = heads.sample({}, raw[:1], heads.no_noise((1,)))
    assert np.allclose(calm, np.tanh([[0.5, -0.5]]), atol=1e-6)


def test_exploration_is_random_with_its_chance_and_greedy_otherwise() -> None:
    heads = make_greedy_heads(Discrete(4), 0.1)
    values = jnp.broadcast_to(jnp.asarray([0.0, 3.0, 1.0, 2.0]), (8000, 4))
    taken = np.asarray(heads.sample({}, values, heads.explore(1, (8000,), 0.4))[:, 0], int)
    assert np.bincount(taken) / 8000 == pytest.approx([0.1, 0.7, 0.1, 0.1], abs=0.02)
    assert (heads.sample({}, values, heads.no_noise((8000,))) == 1).all()


def test_the_twins_differ_and_each_sees_the_action() -> None:
    critics = make_twin_critics(Inputs(OBS), 2, (8, 8), "relu")
    flat, inputs = critics.init(jax.random.key(0)), jnp.ones((5, 3))
    pair = critics.unravel(flat)
    assert (critics.ravel(pair) == flat).all()
    low, high = (critics.values(pair, inputs, jnp.full((5, 2), a)) for a in (-1.0, 1.0))
    assert low.shape == (2, 5)
    assert not np.allclose(low[0], low[1])
    assert not np.any(np.isclose(low, high))


@pytest.mark.parametrize("hidden", [(8,), (8, 8), (8, 4, 6)])
def test_joined_first_layers_give_the_values_and_gradients_of_two_critics_apart(hidden: tuple[int, ...]) -> None:
    critics = make_twin_critics(Inputs(OBS), 2, hidden, "tanh")
    flat = critics.init(jax.random.key(0))
    rng = np.random.default_rng(1)
    inputs, action = jnp.asarray(rng.normal(size=(5, 3))), jnp.asarray(rng.normal(size=(5, 2)))

    def together(flat: jax.Array, action: jax.Array) -> jax.Array:
        return critics.values(critics.unravel(flat), inputs, action)

    def apart(flat: jax.Array, action: jax.Array) -> jax.Array:
        both = critics.unravel_both(flat)
        trees = [jax.tree.map(lambda leaf, which=which: leaf[which], both) for which in range(2)]
        return jnp.stack([critics.net.apply(tree, inputs, action)[..., 0] for tree in trees])

    assert (critics.ravel(critics.unravel(flat)) == flat).all()
    assert np.allclose(together(flat, action), apart(flat, action), atol=1e-6)
    one, other = (jax.jit(jax.jacobian(values, (0, 1)))(flat, action) for values in (together, apart))
    for by in (0, 1):
        assert np.allclose(one[by], other[by], atol=1e-6)


@pytest.mark.parametrize("kind", ["actor", "q"])
def test_images_and_numbers_reach_the_policy(kind: str) -> None:
    spec = DictSpace((("eye", box(0, 255, (40, 40, 1), np.uint8)), ("arm", box(-1.0, 1.0, (3,)))))
    make = make_actor if kind == "actor" else make_q_policy
    policy = make(spec, box(-1.0, 1.0, (2,)) if kind == "actor" else Discrete(4), (8,), "relu")
    flat = policy.init(jax.random.key(1))
    obs = {"eye": np.zeros((2, 40, 40, 1), np.uint8), "arm": np.zeros((2, 3), np.float32)}
    base = policy.outputs(flat, policy.preprocess(obs, PLAIN)).raw
    assert base.shape == (2, 4)
    for part in ("eye", "arm"):
        other = policy.outputs(flat, policy.preprocess(obs | {part: obs[part] + 1}, PLAIN)).raw
        assert not np.allclose(base, other)


def test_spaces_that_do_not_fit_are_refused_with_the_algorithm_that_does() -> None:
    with pytest.raises(UserError, match="sac is for continuous") as refused:
        make_squashed_heads(Discrete(2))
    assert refused.value.fixes == ("--algo dqn", "--algo ppo")
    with pytest.raises(UserError, match="has none") as refused:
        make_squashed_heads(box(-np.inf, np.inf, (2,)))
    assert "--algo ppo" in refused.value.fixes
    with pytest.raises(UserError, match="dqn values one choice") as refused:
        make_greedy_heads(ACTION, 0.1)
    assert refused.value.fixes[0] == "--algo sac"
    with pytest.raises(UserError, match="MultiDiscrete") as refused:
        make_greedy_heads(MultiDiscrete((2, 3)), 0.1)
    assert refused.value.fixes == ("--algo ppo",)
