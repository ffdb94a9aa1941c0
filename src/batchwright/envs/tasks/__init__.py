"""Our own environments: what each looks like, readable without JAX; the dynamics are in the files beside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from batchwright.envs.spaces import Box, DictSpace, Discrete, MultiDiscrete, box
from batchwright.envs.tasks.jax_task import TaskCard

__all__ = ["OWN_TASKS", "TaskCard"]


def _symmetric(*high: float) -> Box:
    return box(-np.asarray(high, np.float32), np.asarray(high, np.float32))


def _from_to(low: Sequence[float], high: Sequence[float]) -> Box:
    return box(np.asarray(low, np.float32), np.asarray(high, np.float32))


# Bounds as Gymnasium states them: a failing CartPole is still inside, at twice the limits of failure.
_CARTPOLE = _symmetric(4.8, np.inf, 24 * np.pi / 180, np.inf)
_ACROBOT = _symmetric(1, 1, 1, 1, 4 * np.pi, 9 * np.pi)
_CAR = box(np.asarray((-1.2, -0.07), np.float32), np.asarray((0.6, 0.07), np.float32))

# Speed: 201 steps of at most 0.5; a step at that speed is 0.5 long. Positions end as far outside.
_MOVING_HIGH = (1.51, 1.51, 101.0, 1.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.01)
_MOVING = _from_to((-1.51, -1.51, 0.0, -1.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0), _MOVING_HIGH)
_SLIDING = _from_to((*_MOVING.low, -101.0, -101.0), (*_MOVING.high, 101.0, 101.0))
_STEER = DictSpace(
    (("accelerate", box(0.0, 1.0, (1,))), ("choice", Discrete(3)), ("turn", box(-1.0, 1.0, (1,)))),
)
_JUMPS = DictSpace(
    (("choice", Discrete(3)), *((name, box(0.0, 1.0, (1,))) for name in ("hop", "leap", "run"))),
)
_NODES = DictSpace((("choice", MultiDiscrete((3,) * 8, (0,) * 8)), ("spawn", box(-1.0, 1.0, (8, 2)))))

_CARDS = (
    TaskCard(
        "CartPole-v1",
        _CARTPOLE,
        Discrete(2),
        500,
        "Gymnasium's dynamics in JAX",
        "cartpole",
        "CartPole",
        475.0,
    ),
    TaskCard(
        "Pendulum-v1",
        _symmetric(1, 1, 8),
        box(-2.0, 2.0, (1,)),
        200,
        "Gymnasium's dynamics in JAX",
        "pendulum",
        "Pendulum",
    ),
    TaskCard("Acrobot-v1", _ACROBOT, Discrete(3), 500, "Gymnasium's dynamics in JAX", "acrobot", "Acrobot", -100.0),
    TaskCard(
        "MountainCarContinuous-v0",
        _CAR,
        box(-1.0, 1.0, (1,)),
        999,
        "Gymnasium's dynamics in JAX",
        "mountain_car",
        "MountainCarContinuous",
        90.0,
    ),
    TaskCard(
        "IdentityDiscrete-v0",
        box(0.0, 1.0, (4,)),
        Discrete(4),
        16,
        "choose the shown one of 4: does it learn at all",
        "identity",
        "IdentityDiscrete",
        15.5,
    ),
    TaskCard(
        "IdentityContinuous-v0",
        box(-1.0, 1.0, (1,)),
        box(-1.0, 1.0, (1,)),
        16,
        "repeat the shown number: does it learn at all",
        "identity",
        "IdentityContinuous",
        -0.2,
    ),
    TaskCard(
        "IdentityImage-v0",
        box(0, 255, (36, 36, 1), np.uint8),
        Discrete(4),
        16,
        "choose the bright quarter of an image: are images learned from",
        "identity",
        "IdentityImage",
        15.5,
    ),
    TaskCard(
        "IdentityHybrid-v0",
        box(-1.0, 1.0, (4,)),
        DictSpace((("choice", Discrete(3)), ("amount", box(-1.0, 1.0, (1,))))),
        16,
        "choose the shown one of 3, one of the others forbidden; 2 of them use the shown amount",
        "small",
        "IdentityHybrid",
        15.0,
        action_activity={"amount": ("choice", (0, 1))},
    ),
    TaskCard(
        "TwoObjectives-v0",
        box(0.0, 1.0, (8,)),
        MultiDiscrete((4, 4)),
        16,
        "two reward components, one 1000 times the other",
        "small",
        "TwoObjectives",
        reward_names=("large", "small"),
    ),
    TaskCard(
        "Deceptive-v0",
        box(0.0, 1.0, (6,)),
        Discrete(2),
        8,
        "a reward of 0.8 at hand, one of 1 six steps away",
        "small",
        "Deceptive",
        0.95,
    ),
    TaskCard(
        "RecallCue-v0",
        box(0.0, 1.0, (5,)),
        Discrete(4),
        9,
        "choose the one of 4 that was shown 8 steps before: is anything remembered",
        "remembering",
        "RecallCue",
        0.95,
    ),
    TaskCard(
        "RecallImage-v0",
        box(0, 255, (16, 16, 1), np.uint8),
        Discrete(4),
        9,
        "as RecallCue, with images",
        "remembering",
        "RecallImage",
        0.95,
    ),
    TaskCard(
        "CartPolePositions-v0",
        _symmetric(4.8, 24 * np.pi / 180),
        Discrete(2),
        500,
        "CartPole that hides its velocities: they must be remembered from positions",
        "remembering",
        "CartPolePositions",
        475.0,
    ),
    TaskCard(
        "PendulumAngle-v0",
        _symmetric(1.0, 1.0),
        box(-2.0, 2.0, (1,)),
        200,
        "Pendulum that hides its speed: it must be remembered from angles",
        "remembering",
        "PendulumAngle",
    ),
    TaskCard(
        "Moving-v0",
        _MOVING,
        _STEER,
        201,
        "accelerate, turn or brake: stop inside the disc",
        "moving",
        "Moving",
        action_activity={"accelerate": ("choice", (0,)), "turn": ("choice", (1,))},
    ),
    TaskCard(
        "Sliding-v0",
        _SLIDING,
        _STEER,
        201,
        "as Moving, with inertia: turning does not turn the velocity",
        "moving",
        "Sliding",
        action_activity={"accelerate": ("choice", (0,)), "turn": ("choice", (1,))},
    ),
    TaskCard(
        "Platform-v0",
        box(0.0, 1.0, (8,)),
        _JUMPS,
        200,
        "run, hop or leap over gaps and enemies",
        "platforms",
        "Platform",
        0.9,
        action_activity={"run": ("choice", (0,)), "hop": ("choice", (1,)), "leap": ("choice", (2,))},
    ),
    TaskCard(
        "Colony-v0",
        box(-1.0, 1.0, (73,)),
        _NODES,
        60,
        "grow, shrink and crawl to stiff ground; masks, four reward components",
        "colony",
        "Colony",
        reward_names=("migration", "growth", "upkeep", "success"),
        action_activity={"spawn": ("choice", (1,))},
    ),
)

OWN_TASKS: dict[str, TaskCard] = {card.name: card for card in _CARDS}
