"""One compiled update: what it is a gradient of, what it leaves out, when it stops, what each number changes."""

# T steps, N environments, B = T x N rows, M minibatches.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.data.rollout import Rollout
from batchwright.envs.spaces import Discrete as Choice
from batchwright.envs.spaces import TupleSpace, box
from batchwright.nets.normalise import ObsStats, RunningMoments
from batchwright.nets.param_roles import value_only_params
from batchwright.nets.policy import Policy
from batchwright.nets.policy_factory import make_policy
from batchwright.on_policy import on_policy_update
from batchwright.on_policy.initial_train_state import start_train_state
from batchwright.on_policy.normalisation import keep_outputs
from batchwright.on_policy.on_policy_settings import UpdateSettings
from batchwright.on_policy.on_policy_state import Hyper, TrainState, TransitionRows
from batchwright.on_policy.on_policy_update import make_update, prepare_rollout
from batchwright.store.minibatches import shuffled_orders

T, N = 6, 5
B = T * N
PARTS, EPOCHS = 4, 2  # 30 rows in parts of 8, 8, 7, 7
STATS = ObsStats(np.float32([0.1, -0.2, 0.0]), np.float32([1.5, 0.5, 1.0]))
ORDERS = shuffled_orders(7, B, EPOCHS)
NO_LIMIT = 1e9
BASE = Hyper(
    learning_rate=1e-2,
    gamma=0.9,
    gae_lambda=0.8,
    clip_range=0.2,
    entropy_coef=0.0,
    value_weight=0.5,
    max_grad_norm=NO_LIMIT,
    weight_decay=0.0,
    value_rate_factor=1.0,
    kl_stop=NO_LIMIT,
    kl_target=0.0,
    value_clip=0.0,
    reward_scale=1.0,
    warmup_updates=0.0,
    value_mean=0.0,
    value_std=1.0,
)


class Case(NamedTuple):
    """A policy, a rollout that it made, and compiled updates to give it."""

    policy: Policy
    params: jax.Array
    rollout: Rollout
    one: Callable[..., Any]
    """One minibatch, one epoch."""
    many: Callable[..., Any]
    """Four uneven minibatches, two epochs, with KL stop and the KL-adaptive rate."""


@pytest.fixture(scope="module")
def case() -> Case:
    policy = make_policy(box(-1.0, 1.0, (3,)), TupleSpace((Choice(3), box(-1.0, 1.0, (2,)))), hidden=(6,))
    params = policy.init(jax.random.key(0))
    params = params + 0.3 * jax.random.normal(jax.random.key(1), params.shape)
    value_only = value_only_params(policy, jax.random.key(0))
    one = make_update(policy, UpdateSettings("ppo", 1, 1), B, value_only)
    settings = UpdateSettings("ppo", PARTS, EPOCHS, kl_stop=True, kl_adaptive=True)
    return Case(
        policy,
        params,
        make_rollout(policy, params),
        jax.jit(one),
        jax.jit(make_update(policy, settings, B, value_only)),
    )


def make_rollout(policy: Policy, params: jax.Array) -> Rollout:
    """Random observations and rewards, actions of the policy; episodes end and the row after is a reset."""
    draw = np.random.default_rng(0)
    obs = draw.normal(size=(T + 1, N, 3)).astype(np.float32)
    terminated, truncated = np.zeros((T, N), bool), np.zeros((T, N), bool)
    terminated[1, 0] = terminated[4, 2] = truncated[2, 1] = truncated[5, 3] = True
    valid = np.ones((T, N), bool)
    valid[1:] = ~(terminated | truncated)[:-1]
    out = policy.outputs(params, policy.preprocess(obs[:T], STATS))
    action = policy.heads.sample(out.params, out.raw, policy.heads.noise(2, (T, N)))
    reward = np.where(valid, draw.normal(size=(T, N)), 0.0).astype(np.float32)
    return Rollout(obs, action, reward[..., None], terminated, truncated, valid)


def after(update: Callable[..., Any], case: Case, rollout: Rollout | None = None, **changes: float) -> Any:
    """(train, metrics) after one iteration with some numbers changed."""
    hyper = floats(BASE._replace(**changes))
    start = start_train_state(case.params, UpdateSettings("ppo", 1, 1))
    orders = ORDERS[: 1 if update is case.one else EPOCHS]
    train, metrics = update(start, rollout if rollout is not None else case.rollout, STATS, hyper, orders)
    return train, metrics.to_floats()


def floats(hyper: Hyper) -> Hyper:
    return Hyper(*(np.float32(number) for number in hyper[:-1]))


def prepared_rows(case: Case, settings: UpdateSettings, rollout: Rollout, hyper: Hyper) -> TransitionRows:
    train = start_train_state(case.params, settings)
    return prepare_rollout(case.policy, settings, train, rollout, STATS, hyper).rows


def moved(case: Case, train: TrainState) -> np.ndarray:
    return np.asarray(train.params - case.params)


def test_the_ratio_is_1_in_the_first_minibatch(case: Case) -> None:
    for update in (case.one, case.many):
        metrics = after(update, case)[1]
        assert float(metrics["first_ratio_error"]) < 1e-6
    assert float(after(case.one, case)[1]["kl"]) < 1e-6
    assert float(after(case.one, case)[1]["clip_fraction"]) == 0.0


def test_reset_rows_add_nothing_whatever_they_hold(case: Case) -> None:
    """An engine in next-step form ignores the action of a reset row: so must the train."""
    reset = ~case.rollout.valid
    assert reset.sum() == 3
    action = jnp.where(reset[..., None], jnp.float32([2, 5, -5]), case.rollout.action)
    reward = np.where(reset[..., None], 1000.0, case.rollout.reward).astype(np.float32)
    changed = case.rollout._replace(action=action, reward=reward)
    for update in (case.one, case.many):
        plain, other = after(update, case), after(update, case, changed)
        np.testing.assert_array_equal(plain[0].params, other[0].params)
        assert {k: float(v) for k, v in plain[1].items()} == {k: float(v) for k, v in other[1].items()}


def hand_loss(policy: Policy, flat: jax.Array, rows: Any, chosen: jax.Array) -> jax.Array:
    """PPO written anew over all rows of the rollout; `chosen` [B] is 1 for the transitions of one minibatch."""
    out = policy.outputs(flat, rows.inputs)
    log_prob = policy.heads.log_prob(out.params, out.raw, rows.action).sum(-1)
    ratio = jnp.exp(log_prob - rows.log_prob)
    gain = jnp.where(
        rows.advantage > 0, jnp.minimum(ratio, 1.2) * rows.advantage, jnp.maximum(ratio, 0.8) * rows.advantage
    )
    error = jnp.square(out.value[:, 0] - rows.target[:, 0])
    return (chosen * (0.5 * error - gain)).sum() / chosen.sum()


def test_uneven_minibatches_have_the_gradient_of_the_mean_over_their_real_rows(case: Case) -> None:
    """At learning rate 0 Adam's first moment is a known sum of the gradients of the eight minibatches."""
    train, metrics = after(case.many, case, learning_rate=0.0)
    assert int(metrics["updates"]) == PARTS * EPOCHS
    hyper = floats(BASE)
    rows = prepared_rows(case, UpdateSettings("ppo", 1, 1), case.rollout, hyper)
    gradient = jax.jit(jax.grad(lambda flat, chosen: hand_loss(case.policy, flat, rows, chosen)))
    moment = np.zeros(case.params.shape)
    for order in ORDERS:
        for index in np.split(order, [8, 16, 23]):
            chosen = np.isin(np.arange(B), index) * case.rollout.valid.reshape(-1)
            moment = 0.9 * moment + 0.1 * np.asarray(gradient(case.params, np.float32(chosen)))
    np.testing.assert_allclose(train.opt_state.mu, moment, rtol=1e-4, atol=1e-6)


def test_a_minibatch_cut_into_pieces_has_the_gradient_of_the_whole(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    # 30 rows in pieces of at most 8: 4 does not divide 30, 5 does.
    assert on_policy_update.piece_count(B, 8) == 5 and on_policy_update.piece_count(B, B) == 1
    assert on_policy_update.piece_count(31, 8) == 1  # a prime has no pieces
    settings, nothing = UpdateSettings("ppo", 1, 1, advantage_norm="minibatch"), np.zeros(1, bool)
    args = start_train_state(case.params, settings), case.rollout, STATS, BASE, ORDERS[:1]
    whole, packed = jax.jit(make_update(case.policy, settings, B, nothing))(*args)
    monkeypatch.setattr(on_policy_update, "PIECE_ROWS", 8)
    pieces, same = jax.jit(make_update(case.policy, settings, B, nothing))(*args)
    assert same.names == packed.names
    np.testing.assert_allclose(same.values, packed.values, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(pieces.opt_state.mu, whole.opt_state.mu, rtol=1e-4, atol=1e-7)


def test_a_kl_stop_ends_all_epochs_and_counts_the_updates_really_made(case: Case) -> None:
    train, metrics = after(case.many, case, kl_stop=1e-7)
    # The first minibatch has KL 0 and is learned from; the second is past the limit.
    assert int(metrics["updates"]) == int(train.updates) == int(train.opt_state.count) == 1
    assert float(metrics["kl"]) < 1e-7
    free, metrics = after(case.many, case)
    assert int(metrics["updates"]) == int(free.updates) == PARTS * EPOCHS
    some, metrics = after(case.many, case, kl_stop=float(metrics["kl"]))
    assert 1 < int(metrics["updates"]) == int(some.updates) < PARTS * EPOCHS
    assert len({np.asarray(x.params).tobytes() for x in (train, free, some)}) == 3


def test_the_kl_adaptive_rate_falls_above_its_aim_rises_below_it_and_is_kept(case: Case) -> None:
    down, metrics = after(case.many, case, kl_target=1e-9)
    assert float(down.learning_rate_factor) == pytest.approx(1.5**-EPOCHS)
    assert float(metrics["learning_rate"]) == pytest.approx(1e-2 * 1.5**-EPOCHS)
    up, _ = after(case.many, case, kl_target=1e3)
    assert float(up.learning_rate_factor) == pytest.approx(1.5**EPOCHS)
    # A stop after one update saw a KL that was too high: once down, and no further in epochs that did not happen.
    stopped, _ = after(case.many, case, kl_target=1e-9, kl_stop=1e-7)
    assert float(stopped.learning_rate_factor) == pytest.approx(1 / 1.5)


def test_the_value_rate_factor_moves_the_critic_alone(case: Case) -> None:
    critic = value_only_params(case.policy, jax.random.key(0))
    plain, frozen, double = (
        moved(case, after(case.one, case, value_rate_factor=factor)[0]) for factor in (1.0, 0.0, 2.0)
    )
    assert np.all(plain[critic] != 0)
    np.testing.assert_array_equal(frozen[critic], 0)
    np.testing.assert_array_equal(frozen[~critic], plain[~critic])
    np.testing.assert_allclose(double[critic], 2 * plain[critic], rtol=1e-4, atol=1e-7)


def test_weight_decay_pulls_parameters_to_0_by_rate_times_decay(case: Case) -> None:
    plain, decayed = (moved(case, after(case.one, case, weight_decay=x)[0]) for x in (0.0, 0.1))
    np.testing.assert_allclose(decayed - plain, -1e-2 * 0.1 * np.asarray(case.params), rtol=1e-3, atol=1e-6)


def test_warm_up_begins_with_a_share_of_the_rate(case: Case) -> None:
    plain, warm = (after(case.one, case, warmup_updates=x) for x in (0, 10))
    np.testing.assert_allclose(10 * moved(case, warm[0]), moved(case, plain[0]), rtol=1e-3, atol=1e-6)
    assert float(warm[1]["learning_rate"]) == pytest.approx(1e-3)


def test_gradients_are_clipped_to_their_norm(case: Case) -> None:
    train, metrics = after(case.one, case, max_grad_norm=0.01)
    assert float(metrics["gradient_norm"]) > 0.01
    assert np.linalg.norm(train.opt_state.mu) == pytest.approx(0.1 * 0.01, rel=1e-3)


def test_the_entropy_coefficient_raises_entropy(case: Case) -> None:
    before = float(after(case.one, case)[1]["entropy"])
    train, _ = after(case.one, case, entropy_coef=1e4)
    metrics = after(case.one, case._replace(params=train.params))[1]
    assert float(metrics["entropy"]) > before


def test_the_value_loss_learns_the_targets(case: Case) -> None:
    train, metrics = after(case.many, case, clip_range=0.0, value_weight=10.0, max_grad_norm=NO_LIMIT)
    again = after(case.many, case._replace(params=train.params), value_weight=10.0)[1]
    assert float(again["value_loss"]) < float(metrics["value_loss"])


def test_reset_within_the_step_bootstraps_from_the_final_observation(case: Case) -> None:
    """SAME_STEP engines: obs[t + 1] belongs to the next episode; the last one of an episode lies in final_obs."""
    rollout = case.rollout._replace(valid=np.ones((T, N), bool))
    final = np.full((T, N, 3), 0.5, np.float32)
    hyper = floats(BASE._replace(gae_lambda=0.0))
    settings = UpdateSettings("ppo", 1, 1, advantage_norm="none")
    rows = prepared_rows(case, settings, rollout._replace(final_obs=final), hyper)
    value = lambda obs: float(case.policy.outputs(case.params, case.policy.preprocess(obs, STATS)).value[0])  # noqa: E731
    target = np.asarray(rows.target)[:, 0].reshape(T, N)
    reward = rollout.reward[..., 0]
    # lambda 0: the target is r + 0.9 V(successor).
    assert target[2, 1] == pytest.approx(reward[2, 1] + 0.9 * value(final[2, 1]), rel=1e-5)  # truncated
    assert target[1, 0] == pytest.approx(reward[1, 0], rel=1e-5)  # terminated
    assert target[0, 0] == pytest.approx(reward[0, 0] + 0.9 * value(rollout.obs[1, 0]), rel=1e-5)


def test_rewards_are_divided_by_their_scale_and_targets_stand_on_the_learned_one(case: Case) -> None:
    settings = UpdateSettings("ppo", 1, 1, advantage_norm="none", baseline=False)
    base = BASE._replace(gamma=0.0)  # targets are rewards

    def rows(**changes: float) -> Any:
        hyper = floats(base._replace(**changes))
        return prepared_rows(case, settings, case.rollout, hyper)

    reward = case.rollout.reward.reshape(-1)
    np.testing.assert_allclose(rows(reward_scale=4.0).target[:, 0], reward / 4, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows(value_mean=2.0, value_std=4.0).target[:, 0], (reward - 2) / 4, rtol=1e-4, atol=1e-5)
    # Without a baseline the advantage is the return itself.
    np.testing.assert_allclose(rows().advantage, reward, rtol=1e-4, atol=1e-5)


def test_popart_keeps_the_outputs_when_the_statistics_move(case: Case) -> None:
    before = RunningMoments(np.float64(100.0), np.array([3.0]), np.array([400.0]))
    later = before.merge(50, [-40.0], [9000.0])
    train = start_train_state(case.params, UpdateSettings("ppo", 1, 1))
    kept = keep_outputs(case.policy, train, before, later)
    inputs = case.policy.preprocess(case.rollout.obs, STATS)

    def values(params: jax.Array, stats: RunningMoments) -> np.ndarray:
        return np.asarray(case.policy.outputs(params, inputs).value) * stats.std + stats.mean

    np.testing.assert_allclose(values(kept.params, later), values(case.params, before), rtol=1e-5, atol=1e-5)
    assert abs(values(case.params, later) - values(case.params, before)).max() > 1
    np.testing.assert_array_equal(
        case.policy.outputs(kept.params, inputs).raw, case.policy.outputs(case.params, inputs).raw
    )
