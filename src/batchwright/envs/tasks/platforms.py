"""Platform: run, hop and leap over two gaps and past two enemies (Masson, Ranchod, Konidaris 2016).

Constants and order of events are those of the domain's public code (C. Bester, gym-platform). One action is many
substeps: a run lasts one second, a hop or a leap until the player stands again or is lost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.tasks import canvas
from batchwright.envs.tasks.jax_task import OwnTask

RUN, HOP, LEAP = 0, 1, 2
FULL_POWER = {"run": 30.0, "hop": 720.0, "leap": 430.0}
"""What parameter 1 stands for: speed gained per substep for a run, distance aimed at for the others."""

LEFT = np.asarray((0.0, 475.0, 985.0), np.float32)
"""Left edges of the three platforms; gaps of 225 and 235 lie between."""
WIDTH = np.asarray((250.0, 275.0, 50.0), np.float32)
END = 1035.0
GROUND = 40.0
"""Height of every platform; a player below it is lost."""
BODY = (20.0, 30.0)
"""Width and height of the player and of an enemy."""

SUBSTEP_SECONDS = 0.05
RUN_SUBSTEPS = 20
MOST_SUBSTEPS = 160
"""A hop flies 2 x 35 / 9.8 s, which is 143 substeps."""
GRAVITY = 9.8
ENEMY_SPEED = 30.0
MAX_SPEED = 100.0
MAX_SPEED_ON_GROUND = 70.0
MAX_GAIN = 30.0
"""Most horizontal speed that one substep can add."""
SPEED_DECAY = 0.99
JUMP_SPEED = {"hop": 35.0, "leap": 25.0}
NOISE = 0.5 * SUBSTEP_SECONDS
JUMP_NOISE = 1.0

PICTURE_SIZE = (420, 120)


class PlatformState(NamedTuple):
    """Player's position [2] and velocity [2], enemies' places [2] and velocities [2], and how it ended."""

    position: jax.Array
    velocity: jax.Array
    enemy: jax.Array
    enemy_velocity: jax.Array
    lost: jax.Array
    arrived: jax.Array


class Platform(OwnTask):
    """Reward: the share of the way that the action covered; the return is where the player got to, 1 at the end."""

    frames_per_second = 2

    def init(self, key: Any) -> PlatformState:
        return PlatformState(
            jnp.asarray((0.0, GROUND), jnp.float32),
            jnp.zeros(2, jnp.float32),
            jnp.asarray(LEFT[:2] + WIDTH[:2] - BODY[0]),
            jnp.full(2, -ENEMY_SPEED, jnp.float32),
            jnp.bool_(False),
            jnp.bool_(False),
        )

    def step(self, state: PlatformState, action: Any, key: Any) -> tuple[PlatformState, Any, Any]:
        jump_key, key = jax.random.split(key)
        jump_noise = JUMP_NOISE * jnp.abs(jax.random.normal(jump_key, (2,)))
        # Drawn at once: 160 draws in the loop would cost more than the physics.
        noise = NOISE * jax.random.normal(key, (MOST_SUBSTEPS, 2))
        choice = action["choice"]
        power = jnp.stack([_power(action, name) for name in ("run", "hop", "leap")])[choice]

        def substep(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            at, count, _ = carry
            at = _act(at, choice, power, jump_noise, jnp.abs(noise[count, 0]))
            at = _move(at, noise[count, 1])
            at = at._replace(lost=_is_lost(at), arrived=at.position[0] >= END)
            goes_on = jnp.where(choice == RUN, count + 1 < RUN_SUBSTEPS, ~_stands(at.position))
            return at, count + 1, goes_on & ~at.lost & ~at.arrived & (count + 1 < MOST_SUBSTEPS)

        after, _, _ = jax.lax.while_loop(lambda carry: carry[2], substep, (state, jnp.int32(0), jnp.bool_(True)))
        reward = (jnp.minimum(after.position[0], END) - state.position[0]) / END
        return after, reward.astype(jnp.float32), after.lost | after.arrived

    def observe(self, state: PlatformState) -> Any:
        x = state.position[0]
        enemy = _nearest_enemy(x)
        platform = jnp.where(x < LEFT[1], 0, jnp.where(x < LEFT[2], 1, 2))
        platforms = jnp.asarray(
            ((WIDTH[0], WIDTH[1], 225.0, LEFT[0]), (WIDTH[1], WIDTH[2], 235.0, LEFT[1]), (WIDTH[2], 0, 0, LEFT[2])),
            jnp.float32,
        )[platform]
        return jnp.concatenate(
            (
                jnp.stack(
                    (
                        (x + BODY[0]) / (END + BODY[0]),
                        state.velocity[0] / MAX_SPEED,
                        state.enemy[enemy] / END,
                        (state.enemy_velocity[enemy] + ENEMY_SPEED) / (2 * ENEMY_SPEED),
                    )
                ),
                platforms / jnp.asarray((275.0, 275.0, 235.0, END), jnp.float32),
            )
        )

    def succeeded(self, state: PlatformState) -> Any:
        return state.arrived

    def draw(self, state: Any) -> np.ndarray:
        width, height = PICTURE_SIZE
        picture = canvas.Canvas(width, height, (-20.0, -60.0), width / (END + 40.0))
        for left, wide in zip(LEFT, WIDTH, strict=True):
            picture.rectangle((left, 0.0), (wide, GROUND), canvas.GREY)
        picture.rectangle((END - 8.0, GROUND), (8.0, 80.0), canvas.GREEN)
        for place in np.asarray(state.enemy, float):
            picture.rectangle((place, GROUND), BODY, canvas.RED)
        picture.rectangle(tuple(np.asarray(state.position, float)), BODY, canvas.BLUE)
        return picture.image()


def _power(action: Any, name: str) -> jax.Array:
    return FULL_POWER[name] * jnp.clip(action[name][0], 0.0, 1.0)


def _stands(position: jax.Array) -> jax.Array:
    """Whether the player's feet are on a platform; any overlap of widths holds."""
    over = (position[0] >= LEFT - BODY[0]) & (position[0] <= LEFT + WIDTH)
    return (position[1] == GROUND) & over.any()


def _act(state: PlatformState, choice: Any, power: Any, jump_noise: jax.Array, slip: jax.Array) -> PlatformState:
    """The velocity after the action (standing) or gravity (in the air); `slip` only ever slows."""
    stands = _stands(state.position)
    lift = jnp.where(choice == HOP, JUMP_SPEED["hop"], JUMP_SPEED["leap"])
    flight_seconds = 2.0 * lift / GRAVITY + 1.0
    jump_gain = jnp.clip(power / flight_seconds - state.velocity[0], -MAX_GAIN / SUBSTEP_SECONDS, 200.0 - lift)
    gain = jnp.where(choice == RUN, power, jump_gain - jump_noise[0])
    gain = jnp.where(stands, jnp.clip(gain, -MAX_GAIN, MAX_GAIN), 0.0)
    rise = jnp.where(stands, jnp.where(choice == RUN, 0.0, lift - jump_noise[1]), -GRAVITY * SUBSTEP_SECONDS)
    speed = jnp.clip(state.velocity[0] + gain - slip, 0.0, jnp.where(stands, MAX_SPEED_ON_GROUND, MAX_SPEED))
    return state._replace(velocity=jnp.stack((speed, state.velocity[1] + rise)))


def _move(state: PlatformState, enemy_noise: jax.Array) -> PlatformState:
    """One substep of motion; only the enemy of the player's part of the level moves."""
    position = state.position + SUBSTEP_SECONDS * state.velocity
    position = position.at[0].set(jnp.clip(position[0], 0.0, END))
    velocity = state.velocity * jnp.asarray((SPEED_DECAY, 1.0), jnp.float32)
    awake = jnp.arange(2) == _nearest_enemy(state.position[0])
    left, right = LEFT[:2], LEFT[:2] + WIDTH[:2] - BODY[0]
    at_edge = ~((left < state.enemy) & (state.enemy < right))
    pace = jnp.where(at_edge, -state.enemy_velocity, state.enemy_velocity) + enemy_noise
    pace = jnp.clip(pace, -ENEMY_SPEED, ENEMY_SPEED)
    place = jnp.clip(state.enemy + SUBSTEP_SECONDS * pace, left, right)
    for k in range(3):
        position, velocity = _push_out(position, velocity, k)
    return state._replace(
        position=position,
        velocity=velocity,
        enemy=jnp.where(awake, place, state.enemy),
        enemy_velocity=jnp.where(awake, pace, state.enemy_velocity),
    )


def _push_out(position: jax.Array, velocity: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """A player that overlaps platform k, moved out by the shorter way: landing on it, or thrown off its side."""
    x, y = position
    left, right = float(LEFT[k]), float(LEFT[k] + WIDTH[k])
    overlaps = (left - BODY[0] < x) & (x < right) & (-BODY[1] < y) & (y < GROUND)
    side = jnp.where(x < left, left - BODY[0], jnp.where(x > right - BODY[0], right, x))
    level = jnp.where(y < 0.0, -BODY[1], jnp.where(y > GROUND - BODY[1], GROUND, y))
    sideways = (side != x) & ((level == y) | (jnp.abs(x - side) < jnp.abs(y - level)))
    moved = jnp.where(sideways, jnp.stack((side, y)), jnp.stack((x, level)))
    # The forward speed is lost in either case: a player lands at rest.
    stopped = jnp.stack((0.0, jnp.where(sideways, velocity[1], 0.0)))
    return jnp.where(overlaps, moved, position), jnp.where(overlaps, stopped, velocity)


def _is_lost(state: PlatformState) -> Any:
    """Below the platforms, or touched by an enemy."""
    x, y = state.position
    touched = (state.enemy - BODY[0] < x) & (x < state.enemy + BODY[0]) & (y < GROUND + BODY[1])
    return (y < GROUND) | touched.any()


def _nearest_enemy(x: jax.Array) -> jax.Array:
    return jnp.where(x > LEFT[1], 1, 0)
