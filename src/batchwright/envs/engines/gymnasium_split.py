"""Gymnasium environments in worker processes and in this one, which steps a share while the workers step theirs."""

from __future__ import annotations

from batchwright.envs.engines.gymnasium_async import GymnasiumAsync

LOOK_SECONDS = 2e-3
"""Several times what the policy takes between two steps, a small part of an update, during which workers sleep."""


class GymnasiumSplit(GymnasiumAsync):
    """As many processes as cores, the trainer's own among them: nobody waits to be woken.

    With one core or one environment nothing is left to deal, and there are no workers.
    """

    name = "gymnasium-split"
    keeps_share = True
    spin_seconds = LOOK_SECONDS
