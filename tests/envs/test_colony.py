"""Claims about Colony: hand figures of growth, links, masks, rewards and success; and its two rules."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.envs.tasks import OWN_TASKS
from batchwright.envs.tasks.colony import (
    DELETE,
    ISLAND_AREA,
    ISLANDS,
    LINK_DISTANCE,
    MATURE_STEPS,
    MAX_NODES,
    PITS,
    SPAWN,
    STAY,
    ColonyState,
    reach,
    stiffness,
)

KEY = jax.random.key(0)
FAR_AWAY = np.full((ISLANDS + PITS, 2), 50.0, np.float32)
"""Bumps so far off that stiffness is 0.1 + 0.8 x."""
TASK: Any = OWN_TASKS["Colony-v0"].load()
_STEP = jax.jit(TASK.step)


def _colony(*places: tuple[float, float], age: int = MATURE_STEPS) -> ColonyState:
    filled = np.zeros((MAX_NODES, 2), np.float32)
    filled[: len(places)] = places
    return ColonyState(
        jnp.asarray(filled),
        jnp.arange(MAX_NODES) < len(places),
        jnp.full(MAX_NODES, age, jnp.int32),
        jnp.asarray(FAR_AWAY),
        jnp.bool_(False),
    )


def _act(choices: dict[int, int], direction: float = 0.0, distance: float = 1.0) -> dict[str, Any]:
    choice = np.full(MAX_NODES, STAY, np.int32)
    for slot, what in choices.items():
        choice[slot] = what
    return {"choice": jnp.asarray(choice), "spawn": jnp.tile(jnp.asarray((direction, distance)), (MAX_NODES, 1))}


def test_stiffness_is_the_slope_plus_islands_minus_pits() -> None:
    bumps = FAR_AWAY.copy()
    bumps[0] = (0.5, 0.5)
    bumps[ISLANDS] = (0.25, 0.5)
    # On top of the island 0.5 + 0.18 (the pit's middle is 2.5 radii off: 0.32 exp(-3.125) = 0.014).
    np.testing.assert_allclose(stiffness(np.float32((0.5, 0.5)), bumps), 0.68 - 0.014, atol=1e-3)
    np.testing.assert_allclose(stiffness(np.float32((0.25, 0.5)), bumps), 0.3 - 0.32, atol=1e-3)
    np.testing.assert_allclose(stiffness(np.float32((0.9, 0.1)), FAR_AWAY), 0.82, atol=1e-6)


def test_a_daughter_lands_within_reach_in_the_given_direction() -> None:
    state = _colony((0.5, 0.5), (0.45, 0.5))
    after, _, _ = _STEP(state, _act({0: SPAWN}, direction=0.5), KEY)
    # Straight up; on ground of 0.5 the reach is 0.12 (0.25 + 0.75 x 0.5) = 0.075; landing noise is 0.005.
    assert int(after.alive.sum()) == 3
    added = np.asarray(after.place)[np.asarray(after.alive) & (np.asarray(after.age) == 0)]
    np.testing.assert_allclose(added, [(0.5, 0.575)], atol=0.02)
    assert float(reach(0.5)) == pytest.approx(0.075)


def test_slots_are_kept_from_the_foremost_node_to_the_last() -> None:
    after, _, _ = _STEP(_colony((0.5, 0.5), (0.45, 0.5)), _act({1: SPAWN}, direction=0.0), KEY)
    x = np.asarray(after.place)[np.asarray(after.alive), 0]
    assert list(x) == sorted(x, reverse=True) and bool(after.alive[:3].all())


def test_what_is_cut_off_from_the_foremost_node_is_lost() -> None:
    gap = LINK_DISTANCE - 0.01
    chain = _colony((0.6, 0.5), (0.6 - gap / 2, 0.5), (0.6 - gap, 0.5), (0.6 - 2 * gap, 0.5))
    assert int(_STEP(chain, _act({}), KEY)[0].alive.sum()) == 4
    # The third node holds the fourth: without it the fourth is 1.5 gaps away from the second.
    after, _, _ = _STEP(chain, _act({2: DELETE}), KEY)
    assert int(after.alive.sum()) == 2


def test_masks_hold_for_empty_slots_young_nodes_full_colonies_and_the_front() -> None:
    def allowed(state: ColonyState) -> np.ndarray:
        return np.stack([np.asarray(part) for part in TASK.mask(state)["choice"]])

    three = allowed(_colony((0.5, 0.5), (0.45, 0.5), (0.4, 0.5)))
    np.testing.assert_array_equal(three[:4], [(1, 1, 0), (1, 1, 0), (1, 1, 1), (1, 0, 0)])
    assert not allowed(_colony((0.5, 0.5), (0.45, 0.5), age=MATURE_STEPS - 1))[:, SPAWN].any()
    full = _colony(*((0.5 - 0.01 * k, 0.5) for k in range(MAX_NODES)))
    assert not allowed(full)[:, SPAWN].any()


def test_a_forbidden_choice_changes_nothing() -> None:
    state = _colony((0.5, 0.5), (0.45, 0.5))
    after, _, _ = _STEP(state, _act({0: DELETE, 1: DELETE, 5: SPAWN}), KEY)
    np.testing.assert_array_equal(after.place[:2], state.place[:2])
    np.testing.assert_array_equal(after.alive, state.alive)


def test_no_more_daughters_live_than_there_is_room() -> None:
    seven = _colony(*((0.5 - 0.01 * k, 0.5) for k in range(MAX_NODES - 1)))
    after, reward, _ = _STEP(seven, _act(dict.fromkeys(range(7), SPAWN)), KEY)
    assert int(after.alive.sum()) == MAX_NODES
    assert float(reward[1]) == pytest.approx(0.05)


def test_the_four_rewards_are_those_worked_out_by_hand() -> None:
    state = _colony((0.5, 0.5), (0.45, 0.5), (0.4, 0.5))
    _, reward, terminated = _STEP(state, _act({2: DELETE}), KEY)
    # Mean stiffness from 0.46 to 0.48, one node less, two nodes on 0.5 and 0.46, no end.
    by_hand = (2 * 0.02, -0.05, -0.004 * (1.5 + 1.54), 0.0)
    np.testing.assert_allclose(reward, by_hand, atol=1e-6)
    assert not bool(terminated)


def test_success_needs_four_nodes_all_on_stiff_ground() -> None:
    stiff = [(0.95 - 0.02 * k, 0.5) for k in range(4)]
    after, reward, terminated = _STEP(_colony(*stiff), _act({}), KEY)
    assert bool(terminated) and bool(TASK.succeeded(after)) and float(reward[3]) == 1.0
    for nodes in (stiff[:3], [*stiff, (0.8, 0.5)]):
        after, reward, terminated = _STEP(_colony(*nodes), _act({}), KEY)
        assert not bool(terminated) and not bool(TASK.succeeded(after)) and float(reward[3]) == 0.0


def test_no_island_is_stiff_enough_for_success() -> None:
    bumps = FAR_AWAY.copy()
    bumps[0] = ISLAND_AREA[1]
    x = np.linspace(0.0, 0.8, 200, dtype=np.float32)
    ground = stiffness(np.stack((x, np.full_like(x, ISLAND_AREA[1][1])), -1), bumps)
    assert 0.75 < float(ground.max()) < 0.8


def test_the_greedy_rule_beats_the_random_one_and_fails_often() -> None:
    from batchwright.envs.tasks.colony_rules import greedy_rule, play, random_rule

    greedy, random = (play(rule, episodes=12, seed=0) for rule in (greedy_rule, random_rule))
    assert np.mean(greedy["returns"]) > np.mean(random["returns"]) + 0.3
    assert np.mean(greedy["successes"]) < 0.5 and not np.any(random["successes"])
