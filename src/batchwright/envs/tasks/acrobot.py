"""Acrobot with Gymnasium's dynamics: two links, torque at the elbow, swing the tip up (Sutton 1996)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batchwright.envs.tasks.jax_task import OwnTask

GRAVITY = 9.8
STEP_SECONDS = 0.2
# Both links: mass 1, length 1, centre of mass at 0.5, moment of inertia 1.
CENTRE = 0.5
MAX_SPIN = (4 * math.pi, 9 * math.pi)


class AcrobotState(NamedTuple):
    """Angles (0 hangs down; the second relative to the first) and angular velocities; scalars."""

    shoulder: jax.Array
    elbow: jax.Array
    shoulder_spin: jax.Array
    elbow_spin: jax.Array


class Acrobot(OwnTask):
    """Reward -1 per step until the tip is one link above the shoulder."""

    def init(self, key: Any) -> AcrobotState:
        return AcrobotState(*jax.random.uniform(key, (4,), jnp.float32, -0.1, 0.1))

    def step(self, state: AcrobotState, action: Any, key: Any) -> tuple[AcrobotState, Any, Any]:
        torque = jnp.asarray(action, jnp.float32) - 1.0
        shoulder, elbow, shoulder_spin, elbow_spin = _integrate(jnp.stack(state), torque)
        after = AcrobotState(
            _wrap(shoulder),
            _wrap(elbow),
            jnp.clip(shoulder_spin, -MAX_SPIN[0], MAX_SPIN[0]),
            jnp.clip(elbow_spin, -MAX_SPIN[1], MAX_SPIN[1]),
        )
        terminated = -jnp.cos(after.shoulder) - jnp.cos(after.shoulder + after.elbow) > 1.0
        return after, jnp.where(terminated, 0.0, -1.0).astype(jnp.float32), terminated

    def observe(self, state: AcrobotState) -> Any:
        shoulder, elbow, shoulder_spin, elbow_spin = state
        angles = (jnp.cos(shoulder), jnp.sin(shoulder), jnp.cos(elbow), jnp.sin(elbow))
        return jnp.stack((*angles, shoulder_spin, elbow_spin))


def _integrate(state: jax.Array, torque: jax.Array) -> jax.Array:
    """One Runge-Kutta step of fourth order."""
    first = _rates(state, torque)
    second = _rates(state + STEP_SECONDS / 2 * first, torque)
    third = _rates(state + STEP_SECONDS / 2 * second, torque)
    fourth = _rates(state + STEP_SECONDS * third, torque)
    return state + STEP_SECONDS / 6 * (first + 2 * second + 2 * third + fourth)


def _rates(state: jax.Array, torque: jax.Array) -> jax.Array:
    """Time derivatives by the equations of Sutton and Barto's book (not those of the NIPS paper)."""
    shoulder, elbow, shoulder_spin, elbow_spin = state
    sine, cosine = jnp.sin(elbow), jnp.cos(elbow)
    inertia_1 = CENTRE**2 + (1.0 + CENTRE**2 + 2 * CENTRE * cosine) + 2.0
    inertia_2 = CENTRE**2 + CENTRE * cosine + 1.0
    weight_2 = CENTRE * GRAVITY * jnp.sin(shoulder + elbow)
    weight_1 = (
        -CENTRE * elbow_spin**2 * sine
        - 2 * CENTRE * elbow_spin * shoulder_spin * sine
        + (CENTRE + 1.0) * GRAVITY * jnp.sin(shoulder)
        + weight_2
    )
    drive = torque + inertia_2 / inertia_1 * weight_1 - CENTRE * shoulder_spin**2 * sine - weight_2
    elbow_rate = drive / (CENTRE**2 + 1.0 - inertia_2**2 / inertia_1)
    shoulder_rate = -(inertia_2 * elbow_rate + weight_1) / inertia_1
    return jnp.stack((shoulder_spin, elbow_spin, shoulder_rate, elbow_rate))


def _wrap(angle: jax.Array) -> jax.Array:
    """The same angle between -pi and pi."""
    return (angle + math.pi) % (2 * math.pi) - math.pi
