"""Claims about Moving, Sliding and Platform: hand figures of their dynamics and rewards."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batchwright.envs.tasks import OWN_TASKS
from batchwright.envs.tasks.moving import ACCELERATE, BRAKE, TURN, MovingState
from batchwright.envs.tasks.platforms import END, GROUND, HOP, LEAP, RUN, PlatformState

KEY = jax.random.key(0)


def _moving(name: str, choice: int, parameter: float = 0.0, **changes: Any) -> tuple[MovingState, float, bool]:
    """One step of an agent that rests at the origin, looks along x, with the target at (0.5, 0)."""
    task: Any = OWN_TASKS[name].load()
    zero = jnp.zeros(2)
    state = MovingState(zero, zero, jnp.float32(0), jnp.asarray((0.5, 0.0)), jnp.int32(0), jnp.bool_(False))
    state = state._replace(**{field: jnp.asarray(value) for field, value in changes.items()})
    action = {"choice": choice, "accelerate": jnp.asarray([parameter]), "turn": jnp.asarray([parameter])}
    after, reward, terminated = task.step(state, action, KEY)
    return after, float(reward), bool(terminated)


@pytest.mark.parametrize("name", ["Moving-v0", "Sliding-v0"])
def test_accelerating_from_rest_covers_half_a_unit_times_the_step(name: str) -> None:
    after, reward, terminated = _moving(name, ACCELERATE, 1.0)
    np.testing.assert_allclose(after.velocity, (0.5, 0.0), atol=1e-6)
    np.testing.assert_allclose(after.position, (0.0025, 0.0), atol=1e-7)
    # 0.0025 nearer, 0.001 for the step.
    assert reward == pytest.approx(0.0015, abs=1e-6) and not terminated


def test_a_turn_takes_the_velocity_along_only_where_nothing_slides() -> None:
    turned, _, _ = _moving("Moving-v0", TURN, 1.0, velocity=(0.4, 0.0))
    np.testing.assert_allclose(turned.velocity, (0.0, 0.4), atol=1e-6)
    slid, _, _ = _moving("Sliding-v0", TURN, 1.0, velocity=(0.4, 0.0))
    np.testing.assert_allclose(slid.velocity, (0.4, 0.0), atol=1e-6)
    assert float(slid.heading) == pytest.approx(math.pi / 2)


def test_sliding_adds_the_push_as_a_vector() -> None:
    after, _, _ = _moving("Sliding-v0", ACCELERATE, 0.8, velocity=(0.0, 0.3))
    np.testing.assert_allclose(after.velocity, (0.4, 0.3), atol=1e-6)


@pytest.mark.parametrize("name", ["Moving-v0", "Sliding-v0"])
def test_a_brake_takes_a_tenth_and_stops_what_is_slower(name: str) -> None:
    slower, _, _ = _moving(name, BRAKE, velocity=(0.5, 0.0))
    np.testing.assert_allclose(slower.velocity, (0.4, 0.0), atol=1e-6)
    stopped, reward, terminated = _moving(name, BRAKE, velocity=(0.09, 0.0))
    assert not np.any(stopped.velocity) and reward == pytest.approx(-0.001) and not terminated


@pytest.mark.parametrize("name", ["Moving-v0", "Sliding-v0"])
def test_stopping_inside_is_success_and_passing_through_is_not(name: str) -> None:
    task: Any = OWN_TASKS[name].load()
    after, reward, terminated = _moving(name, BRAKE, velocity=(0.05, 0.0), position=(0.45, 0.0))
    assert terminated and reward == pytest.approx(0.999) and bool(task.succeeded(after))
    after, _, terminated = _moving(name, BRAKE, velocity=(0.5, 0.0), position=(0.45, 0.0))
    assert not terminated and not bool(task.succeeded(after))


def test_leaving_the_field_and_the_step_after_200_cost_one() -> None:
    for changes in ({"position": (0.999, 0.0), "velocity": (1.0, 0.0)}, {"steps": 200}):
        after, reward, terminated = _moving("Moving-v0", ACCELERATE, 1.0, **changes)
        assert (reward, terminated, bool(after.stopped_inside)) == (-1.0, True, False)
    assert not _moving("Moving-v0", ACCELERATE, 1.0, steps=199)[2]


def test_the_observation_is_the_ten_numbers_of_the_public_task() -> None:
    after, _, _ = _moving("Moving-v0", TURN, 1.0, position=(0.5, 0.05), velocity=(0.0, 0.0), steps=49)
    obs = np.asarray(OWN_TASKS["Moving-v0"].load().observe(after))
    np.testing.assert_allclose(obs, (0.5, 0.05, 0, 0, 1, 0.5, 0, 0.05, 1, 0.25), atol=1e-6)


_STEP: Any = jax.jit(lambda state, action, key: OWN_TASKS["Platform-v0"].load().step(state, action, key))


def _platform(choice: int, power: float, key: Any = KEY, **changes: Any) -> tuple[PlatformState, float, bool]:
    task: Any = OWN_TASKS["Platform-v0"].load()
    state = task.init(KEY)._replace(**{field: jnp.asarray(value, jnp.float32) for field, value in changes.items()})
    part = jnp.asarray([power], jnp.float32)
    after, reward, terminated = _STEP(state, {"choice": choice, "run": part, "hop": part, "leap": part}, key)
    return after, float(reward), bool(terminated)


def test_a_run_at_full_power_covers_67_units_in_its_second() -> None:
    after, reward, terminated = _platform(RUN, 1.0)
    # Speeds 30, then 0.99 x 30 + 30 = 59.7, then the limit of 70 for 18 substeps of 0.05 s; slips only slow it.
    assert 66.8 < float(after.position[0]) < 67.5 and not terminated
    assert reward == pytest.approx(float(after.position[0]) / END, abs=1e-6)
    # The enemy turns at its edge in the first substep and walks back from the second on: 19 x 1.5.
    assert float(after.enemy[0]) == pytest.approx(230 - 28.5, abs=0.5)
    assert float(after.enemy[1]) == 730


def test_a_hop_from_rest_flies_in_an_arc_and_lands_at_rest() -> None:
    after, _, terminated = _platform(HOP, 1.0)
    # Speed 30 at most, losing 1% per substep over about 143 substeps: 150 (1 - 0.99^143) = 114.
    assert 90 < float(after.position[0]) < 115 and not terminated
    assert float(after.position[1]) == GROUND and not np.any(after.velocity)


def test_a_leap_too_short_for_the_gap_is_lost_with_the_way_covered_as_reward() -> None:
    after, reward, terminated = _platform(LEAP, 1.0, position=(240.0, GROUND), enemy=(100.0, 730.0))
    assert terminated and bool(after.lost) and not bool(after.arrived)
    assert reward == pytest.approx((float(after.position[0]) - 240) / END, abs=1e-6)


def test_an_enemy_ends_the_episode() -> None:
    after, _, terminated = _platform(RUN, 1.0, enemy=(50.0, 730.0))
    assert terminated and bool(after.lost) and float(after.position[0]) < 70


def test_returns_add_up_to_one_at_the_end() -> None:
    task: Any = OWN_TASKS["Platform-v0"].load()
    after, reward, terminated = _platform(RUN, 1.0, position=(1000.0, GROUND), velocity=(60.0, 0.0))
    assert terminated and bool(task.succeeded(after))
    assert 1000 / END + reward == pytest.approx(1.0)
