"""Returns of random actions and of a solved task, in environments that many know: what a return is worth."""

from __future__ import annotations

from dataclasses import dataclass

RETURNS: dict[str, tuple[float, float]] = {
    "Acrobot": (-491.0, -100.0),
    "Ant": (-20.0, 6000.0),
    "BipedalWalker": (-103.0, 300.0),
    "CartPole": (24.0, 475.0),
    "FrozenLake": (0.01, 0.7),
    "HalfCheetah": (-249.0, 4800.0),
    "Hopper": (17.0, 3800.0),
    "InvertedDoublePendulum": (49.0, 9100.0),
    "InvertedPendulum": (5.2, 950.0),
    "LunarLander": (-192.0, 200.0),
    "LunarLanderContinuous": (-222.0, 200.0),
    "MountainCar": (-200.0, -110.0),
    "MountainCarContinuous": (-33.0, 90.0),
    "Pendulum": (-1219.0, -150.0),
    "Pusher": (-149.0, 0.0),
    "Reacher": (-43.0, -3.75),
    "Swimmer": (-1.6, 360.0),
    "Taxi": (-777.0, 8.0),
}
"""Mean return of 5 to 100 episodes of random actions, measured; and Gymnasium's `reward_threshold` of the newest
version, from which a task counts as solved (Pendulum, which has none: what `ppo-pendulum` and `sac-pendulum` reach)."""

SHORTER = frozenset({"CartPole-v0"})
"""Versions that another return solves."""


@dataclass(frozen=True)
class ReturnScale:
    """Two returns of one environment."""

    random: float
    solved: float

    def share(self, value: float) -> float:
        """How far a return lies from random (0) to solved (1)."""
        return (value - self.random) / (self.solved - self.random)


def return_scale(env: str) -> ReturnScale | None:
    """The scale of an environment by its name, whatever its version; None where it is unknown or has arguments."""
    name, _, version = env.rpartition("-v")
    found = RETURNS.get(name) if version.isdigit() and env not in SHORTER else None
    return None if found is None else ReturnScale(*found)
