"""Policies with memory: cells by hand figures, sequences against single steps, gradients, and what is forgotten."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.envs.spaces import Discrete, box
from batchwright.nets.head_layout import make_heads
from batchwright.nets.networks import Inputs
from batchwright.nets.param_roles import param_roles, value_only_params
from batchwright.nets.recurrent_networks import gru_step, lstm_step
from batchwright.nets.recurrent_policy import RecurrentPolicy, SequenceInputs, make_recurrent_policy

Q, L, UNITS = 2, 4, 3
FRESH = np.zeros((Q, L), bool)
FRESH[0, 2] = True
"""An episode begins at step 2 of the first sequence; the second is from the middle of one."""
KINDS = ("gru", "lstm")


def make(memory: str, observation: Any = None) -> tuple[RecurrentPolicy, jax.Array]:
    """A policy of two observed numbers and two choices, its parameters shaken so that every one matters."""
    space = box(-1.0, 1.0, (2,)) if observation is None else observation
    policy = make_recurrent_policy(Inputs(space), make_heads(Discrete(2)), 1, memory, UNITS, hidden=(4, 4))
    flat = policy.init(jax.random.key(0))
    return policy, flat + 0.2 * np.random.default_rng(1).standard_normal(flat.shape).astype(np.float32)


def sequences(policy: RecurrentPolicy, key: int = 2) -> SequenceInputs:
    rng = np.random.default_rng(key)
    inputs, memory = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((Q, L, 2), (Q, policy.network.state_size))
    )
    return SequenceInputs(jnp.asarray(inputs), jnp.asarray(memory), jnp.asarray(FRESH))


def by_hand(policy: RecurrentPolicy, flat: jax.Array, rows: SequenceInputs) -> tuple[jax.Array, jax.Array]:
    """(raw outputs, values) [Q, L], one sequence and one step after the other, as a policy acts."""
    raw, values = [], []
    for q in range(Q):
        memory = rows.memory[q][None]
        for t in range(L):
            memory = jnp.zeros_like(memory) if FRESH[q, t] else memory
            out, memory = policy.step(flat, rows.inputs[q, t][None], memory)
            raw.append(out.raw[0])
            values.append(out.value[0])
    return jnp.stack(raw).reshape(Q, L, -1), jnp.stack(values).reshape(Q, L, -1)


def test_a_gru_is_the_one_of_the_paper_by_hand_figures() -> None:
    # One unit. Reset: sigmoid(0) = 0.5. Keep: sigmoid(ln 3) = 0.75. Candidate: tanh(1 + 0.5 x (2 x 0.5 + 1)) = tanh(2).
    cell = {"u": jnp.float32([[0.0, 0.0, 2.0]]), "c": jnp.float32([0.0, 0.0, 1.0])}
    after = gru_step(cell, jnp.float32([[0.5]]), jnp.float32([[0.0, np.log(3.0), 1.0]]))
    assert float(after[0, 0]) == pytest.approx(0.75 * 0.5 + 0.25 * np.tanh(2.0), abs=1e-6)


def test_an_lstm_is_the_one_of_the_paper_by_hand_figures() -> None:
    # One unit that read 0.5 and holds 2. Enter 0.5, forget 0.75, show 0.5; candidate tanh(1 x 0.5 + 0.5) = tanh(1).
    cell = {"u": jnp.float32([[0.0, 0.0, 0.0, 1.0]]), "c": jnp.zeros(4)}
    after = lstm_step(cell, jnp.float32([[0.5, 2.0]]), jnp.float32([[0.0, np.log(3.0), 0.0, 0.5]]))
    inside = 0.75 * 2.0 + 0.5 * np.tanh(1.0)
    np.testing.assert_allclose(after[0], [0.5 * np.tanh(inside), inside], rtol=1e-6)


@pytest.mark.parametrize("memory", KINDS)
def test_sequences_give_the_outputs_of_single_steps(memory: str) -> None:
    policy, flat = make(memory)
    rows = sequences(policy)
    out, (raw, value) = jax.jit(lambda flat: (policy.outputs(flat, rows), by_hand(policy, flat, rows)))(flat)
    np.testing.assert_allclose(out.raw, raw, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out.value, value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("memory", KINDS)
def test_the_gradient_of_sequences_is_the_one_unrolled_by_hand(memory: str) -> None:
    policy, flat = make(memory)
    rows = sequences(policy)
    weight = np.random.default_rng(7).standard_normal((Q, L, 3)).astype(np.float32)

    def loss(flat: jax.Array, unrolled: bool) -> jax.Array:
        raw, value = by_hand(policy, flat, rows) if unrolled else policy.outputs(flat, rows)[:2]
        return (jnp.tanh(jnp.concatenate([raw, value], -1)) * weight).sum()

    found, wanted = jax.jit(lambda flat: [jax.grad(loss)(flat, unrolled) for unrolled in (False, True)])(flat)
    assert float(jnp.abs(wanted).max()) > 0.1
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", KINDS)
def test_nothing_before_the_start_of_an_episode_changes_what_comes_after(memory: str) -> None:
    policy, flat = make(memory)
    rows = sequences(policy)
    other = rows._replace(memory=rows.memory + 1.0, inputs=rows.inputs.at[0, :2].add(1.0))
    before, after = jax.jit(lambda flat: [policy.outputs(flat, given).raw for given in (rows, other)])(flat)
    np.testing.assert_array_equal(before[0, 2:], after[0, 2:])
    assert (np.abs(before[0, :2] - after[0, :2]).max(-1) > 1e-3).all()
    assert (np.abs(before[1] - after[1]).max(-1) > 1e-4).all(), "the memory does not matter: nothing is tested"


def test_a_last_observation_is_valued_with_what_led_to_it() -> None:
    policy, flat = make("lstm")
    rng = np.random.default_rng(4)
    last_TN, memory_TNS = (jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in ((3, 2, 2), (3, 2, 6)))
    found = policy.final_values(policy.unravel(flat), last_TN, memory_TNS)
    wanted = policy.step(flat, last_TN[1], memory_TNS[1])[0].value
    np.testing.assert_allclose(found[1], wanted, rtol=1e-5, atol=1e-6)


def test_images_are_unrolled_as_vectors_are() -> None:
    policy, flat = make("gru", box(0, 255, (8, 8, 1), np.uint8))
    images = jnp.asarray(np.random.default_rng(3).integers(0, 256, (2, 3, 8, 8, 1), np.uint8))
    fresh = jnp.zeros((2, 3), bool).at[1, 1].set(True)
    rows = SequenceInputs({"images": [images]}, policy.initial_memory(2), fresh)

    @jax.jit
    def both(flat: jax.Array) -> Any:
        memory, raw = policy.initial_memory(2), []
        for t in range(3):
            memory = jnp.where(fresh[:, t, None], 0.0, memory)
            out, memory = policy.step(flat, {"images": [images[:, t]]}, memory)
            raw.append(out.raw)
        return policy.outputs(flat, rows).raw, jnp.stack(raw, 1)

    np.testing.assert_allclose(*both(flat), rtol=1e-4, atol=1e-5)


def test_towers_have_roles_and_the_memory_has_none() -> None:
    policy, flat = make("gru")
    roles, tree = param_roles(policy), policy.unravel(flat)["net"]
    sizes = {name: sum(leaf.size for leaf in jax.tree.leaves(tree[name])) for name in ("actor", "critic")}
    assert sum(b - a for a, b in roles.policy) == sizes["actor"]
    assert sum(b - a for a, b in roles.value) == sizes["critic"] + 2  # with the affine map on the values
    assert int(value_only_params(policy, jax.random.key(0)).sum()) >= sizes["critic"]
