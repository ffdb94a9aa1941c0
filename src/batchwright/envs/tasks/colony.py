"""Colony: a graph of nodes that crawls over a substrate of varying stiffness by spawning and deleting nodes.

The substrate stiffens from left to right, with stiff islands and soft pits at random places. Nodes within reach of
each other are linked; what is not linked to the foremost node is lost. A node on stiff ground reaches further.
"""

# M node slots, B bumps of the substrate.

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.envs.tasks import canvas
from batchwright.envs.tasks.jax_task import OwnTask

STAY, SPAWN, DELETE = 0, 1, 2
MAX_NODES = 8
START_NODES = 3
KEPT_NODES = 2
"""The foremost nodes that cannot be deleted."""
SUCCESS_NODES = 4
STIFF_ENOUGH = 0.8
"""Success: at least four nodes, each on ground this stiff; no island is."""

ISLANDS = 3
ISLAND_HEIGHT, ISLAND_RADIUS = 0.18, 0.07
ISLAND_AREA = ((0.2, 0.1), (0.6, 0.9))
PITS = 4
PIT_DEPTH, PIT_RADIUS = 0.32, 0.1
PIT_AREA = ((0.3, 0.0), (0.75, 1.0))
"""Corners of where the middles of bumps lie."""
SOFTEST, SLOPE = 0.1, 0.8
"""Stiffness without bumps is 0.1 + 0.8 x."""
LINK_DISTANCE = 0.15
MAX_REACH = 0.12
WEAKEST_REACH_SHARE = 0.25
"""What is left of the reach on ground of no stiffness."""
LANDING_NOISE = 0.005
MATURE_STEPS = 2
"""Steps that a node lives before it can spawn."""

MIGRATION_WEIGHT = 2.0
GROWTH_WEIGHT = 0.05
UPKEEP_WEIGHT = 0.004
SUCCESS_REWARD = 1.0

PROBE_DIRECTIONS = 8
PROBE_REACHES = (1.0, 2.0)
"""The foremost node feels the ground around it at one and two times the largest reach."""
FEATURES_PER_NODE = 7
OBSERVED_NUMBERS = MAX_NODES * FEATURES_PER_NODE + PROBE_DIRECTIONS * len(PROBE_REACHES) + 1

PICTURE_PIXELS = 300


class ColonyState(NamedTuple):
    """Nodes from the foremost (largest x) to the last, then empty slots; the bumps; and whether it succeeded."""

    place: jax.Array
    """[M, 2] x and y, from 0 to 1."""
    alive: jax.Array
    """[M] bool."""
    age: jax.Array
    """[M] int32, steps since the node appeared."""
    bump_place: jax.Array
    """[B, 2], islands first."""
    succeeded: jax.Array


class Colony(OwnTask):
    """Four disjoint rewards: migration, growth, upkeep, success (`_rewards`)."""

    frames_per_second = 8

    def init(self, key: Any) -> ColonyState:
        bumps, start, scatter = jax.random.split(key, 3)
        middle = jnp.stack((jnp.float32(0.1), jax.random.uniform(start, (), jnp.float32, 0.2, 0.8)))
        place = middle + jax.random.uniform(scatter, (MAX_NODES, 2), jnp.float32, -0.04, 0.04)
        alive = jnp.arange(MAX_NODES) < START_NODES
        state = ColonyState(
            place,
            alive,
            jnp.full(MAX_NODES, MATURE_STEPS, jnp.int32),
            jax.random.uniform(bumps, (ISLANDS + PITS, 2), jnp.float32, *_BUMP_CORNERS),
            jnp.bool_(False),
        )
        return _in_order(state)

    def step(self, state: ColonyState, action: Any, key: Any) -> tuple[ColonyState, Any, Any]:
        allowed = self.mask(state)["choice"]
        choice = jnp.stack([jnp.where(allowed[k][action["choice"][k]], action["choice"][k], STAY) for k in _SLOTS])
        survives = state.alive & (choice != DELETE)
        room = MAX_NODES - survives.sum()
        spawns = choice == SPAWN
        spawns &= jnp.cumsum(spawns) <= room
        daughters = _landing(state, action["spawn"], key)
        both = state._replace(
            place=jnp.concatenate((state.place, daughters)),
            alive=jnp.concatenate((survives, spawns)),
            age=jnp.concatenate((state.age + 1, jnp.zeros(MAX_NODES, jnp.int32))),
        )
        after = _in_order(both)
        after = _in_order(after._replace(alive=after.alive & _linked_to_front(after)))
        stiff = stiffness(after.place, after.bump_place) >= STIFF_ENOUGH
        success = (after.alive.sum() >= SUCCESS_NODES) & (stiff | ~after.alive).all()
        return after._replace(succeeded=success), _rewards(state, after, success), success

    def observe(self, state: ColonyState) -> Any:
        ground = stiffness(state.place, state.bump_place)
        slope = _slopes(state.place, state.bump_place)
        mature = (state.age >= MATURE_STEPS).astype(jnp.float32)
        nodes = jnp.concatenate(
            (jnp.ones((MAX_NODES, 1)), state.place, ground[:, None], jnp.clip(slope / 4, -1, 1), mature[:, None]), -1
        )
        nodes = jnp.where(state.alive[:, None], nodes, 0.0)
        probes = stiffness(state.place[0] + _PROBES, state.bump_place)
        count = state.alive.sum() / MAX_NODES
        return jnp.concatenate((nodes.ravel(), probes, count[None])).astype(jnp.float32)

    def mask(self, state: ColonyState) -> Any:
        """Empty slots only stay; a full colony and a young node do not spawn; the two foremost are not deleted."""
        may_spawn = state.alive & (state.age >= MATURE_STEPS) & (state.alive.sum() < MAX_NODES)
        may_delete = state.alive & (jnp.arange(MAX_NODES) >= KEPT_NODES)
        allowed = jnp.stack((jnp.ones(MAX_NODES, bool), may_spawn, may_delete), -1)
        return {"choice": tuple(allowed[k] for k in _SLOTS), "spawn": None}

    def succeeded(self, state: ColonyState) -> Any:
        return state.succeeded

    def draw(self, state: Any) -> np.ndarray:
        picture = canvas.Canvas(PICTURE_PIXELS, PICTURE_PIXELS, (-0.02, -0.02), PICTURE_PIXELS / 1.04)
        ground = np.asarray(_picture_ground(jnp.stack((picture.x, picture.y), -1), jnp.asarray(state.bump_place)))
        picture.shade(ground, (244, 240, 230), (96, 112, 128))
        picture.pixels[ground >= STIFF_ENOUGH] = canvas.PALE_GREEN
        place = [(float(x), float(y)) for x, y in np.asarray(state.place)[np.asarray(state.alive)]]
        for i, start in enumerate(place):
            for end in place[i + 1 :]:
                if math.dist(start, end) < LINK_DISTANCE:
                    picture.line(start, end, 0.006, canvas.INK)
        for i, middle in enumerate(place):
            picture.disc(middle, 0.02, canvas.RED if i == 0 else canvas.BLUE)
        return picture.image()


_SLOTS = range(MAX_NODES)
_BUMP_CORNERS = [
    np.concatenate((np.tile(island, (ISLANDS, 1)), np.tile(pit, (PITS, 1)))).astype(np.float32)
    for island, pit in zip(ISLAND_AREA, PIT_AREA, strict=True)
]
_ANGLES = 2 * math.pi * np.arange(PROBE_DIRECTIONS) / PROBE_DIRECTIONS
_PROBES = np.concatenate(
    [MAX_REACH * reach * np.stack((np.cos(_ANGLES), np.sin(_ANGLES)), -1) for reach in PROBE_REACHES]
).astype(np.float32)


def stiffness(place: Any, bump_place: Any) -> jax.Array:
    """Stiffness at places [..., 2]: the slope, plus the nearest island, minus the nearest pit; 0.1 to 0.9."""
    squared = ((place[..., None, :] - bump_place) ** 2).sum(-1)
    island = ISLAND_HEIGHT * jnp.exp(-0.5 * squared[..., :ISLANDS] / ISLAND_RADIUS**2)
    pit = PIT_DEPTH * jnp.exp(-0.5 * squared[..., ISLANDS:] / PIT_RADIUS**2)
    return SOFTEST + SLOPE * jnp.clip(place[..., 0], 0.0, 1.0) + island.max(-1) - pit.max(-1)


_slopes = jax.vmap(jax.grad(stiffness), in_axes=(0, None))
_picture_ground = jax.jit(stiffness)


def reach(ground: Any) -> Any:
    """How far a node on ground of the given stiffness can place a daughter."""
    return MAX_REACH * (WEAKEST_REACH_SHARE + (1 - WEAKEST_REACH_SHARE) * ground)


def _landing(state: ColonyState, spawn: Any, key: Any) -> jax.Array:
    """Where each node's daughter would land [M, 2]: direction in half turns, distance from -1 (near) to 1 (far)."""
    angle = math.pi * jnp.clip(spawn[:, 0], -1.0, 1.0)
    share = 0.5 + 0.5 * jnp.clip(spawn[:, 1], -1.0, 1.0)
    distance = share * reach(stiffness(state.place, state.bump_place))
    step = distance[:, None] * jnp.stack((jnp.cos(angle), jnp.sin(angle)), -1)
    landed = state.place + step + LANDING_NOISE * jax.random.normal(key, (MAX_NODES, 2))
    return jnp.clip(landed, 0.0, 1.0)


def _in_order(state: ColonyState) -> ColonyState:
    """The same colony with its first M living nodes from the foremost to the last, then empty slots."""
    order = jnp.argsort(jnp.where(state.alive, -state.place[:, 0], jnp.inf))[:MAX_NODES]
    return state._replace(place=state.place[order], alive=state.alive[order], age=state.age[order])


def _linked_to_front(state: ColonyState) -> jax.Array:
    """Which nodes [M] a chain of links joins to the foremost one."""
    squared = ((state.place[:, None] - state.place[None]) ** 2).sum(-1)
    links = (squared < LINK_DISTANCE**2) & state.alive[:, None] & state.alive[None]
    joined = jnp.arange(MAX_NODES) == 0
    for _ in range(MAX_NODES - 1):
        joined |= (links & joined[None]).any(-1)
    return joined


def _rewards(before: ColonyState, after: ColonyState, success: Any) -> jax.Array:
    """[migration, growth, upkeep, success]: change of the mean stiffness under the colony, change of its size,
    cost of every node (soft ground costs more), the end."""
    ground = stiffness(after.place, after.bump_place)
    migration = _mean(ground, after.alive) - _mean(stiffness(before.place, before.bump_place), before.alive)
    growth = after.alive.sum() - before.alive.sum()
    upkeep = -jnp.where(after.alive, 2.0 - ground, 0.0).sum()
    weights = jnp.asarray((MIGRATION_WEIGHT, GROWTH_WEIGHT, UPKEEP_WEIGHT, SUCCESS_REWARD), jnp.float32)
    return weights * jnp.stack((migration, growth * 1.0, upkeep, success * 1.0)).astype(jnp.float32)


def _mean(values: jax.Array, alive: jax.Array) -> jax.Array:
    return jnp.where(alive, values, 0.0).sum() / alive.sum()
