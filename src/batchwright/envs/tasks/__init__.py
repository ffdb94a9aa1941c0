"""Our own environments: what each looks like, readable without JAX; the dynamics are in the files beside."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from batchwright.envs.spaces import Box, Discrete, Spec, box

if TYPE_CHECKING:
    from batchwright.envs.tasks.base import JaxTask


@dataclass(frozen=True)
class TaskCard:
    """One of our tasks: its spaces, its time limit, and the class that holds its dynamics."""

    name: str
    observation: Spec
    action: Spec
    max_episode_steps: int
    note: str
    module: str
    class_name: str
    reward_threshold: float | None = None

    def load(self) -> JaxTask:
        """The task itself; this imports JAX."""
        module = importlib.import_module(f"batchwright.envs.tasks.{self.module}")
        task: JaxTask = getattr(module, self.class_name)(self)
        return task


def _symmetric(*high: float) -> Box:
    return box(-np.asarray(high, np.float32), np.asarray(high, np.float32))


# Bounds as Gymnasium states them: a failing CartPole is still inside, at twice the limits of failure.
_CARTPOLE = _symmetric(4.8, np.inf, 24 * np.pi / 180, np.inf)
_ACROBOT = _symmetric(1, 1, 1, 1, 4 * np.pi, 9 * np.pi)
_CAR = box(np.asarray((-1.2, -0.07), np.float32), np.asarray((0.6, 0.07), np.float32))

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
)

OWN_TASKS: dict[str, TaskCard] = {card.name: card for card in _CARDS}
