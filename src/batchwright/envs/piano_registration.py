"""Registers PianoReach-G1-v0 with Gymnasium; needs neither JAX nor MuJoCo until the environment is made."""

from __future__ import annotations

import gymnasium

PIANO, PIANO_STEPS = "PianoReach-G1-v0", 80
"""Its limit of steps is 1.2 seconds."""


def register_piano() -> None:
    """Adds it where it is not there yet."""
    if PIANO not in gymnasium.registry:
        gymnasium.register(PIANO, "batchwright.envs.piano_reach:PianoReach", max_episode_steps=PIANO_STEPS)
