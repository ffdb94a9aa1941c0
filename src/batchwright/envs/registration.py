"""Importing this registers our own environments with Gymnasium; `batchwright.envs.registration:Moving-v0` works too."""

from __future__ import annotations

import gymnasium

from batchwright.envs.piano_registration import register_piano
from batchwright.envs.tasks import OWN_TASKS

REGISTERED = ("Moving-v0", "Sliding-v0", "Platform-v0", "Colony-v0")
"""Those that Gymnasium does not have itself; the identity tasks are for our own tests."""


def register() -> None:
    """Adds what is not there yet, so that it may be called again; an id that somebody else took stays theirs."""
    for name in REGISTERED:
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                "batchwright.envs.gymnasium_env:OwnEnv",
                max_episode_steps=OWN_TASKS[name].max_episode_steps,
                reward_threshold=OWN_TASKS[name].reward_threshold,
                kwargs={"task": name},
            )

    register_piano()


register()
