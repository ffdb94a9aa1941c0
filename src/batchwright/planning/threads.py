"""Threads of the compiled update: one, unless the products of an update are large enough to be shared."""

from __future__ import annotations

import math
from itertools import pairwise

from batchwright.core.machine import Machine
from batchwright.planning.ledger import Ledger
from batchwright.planning.quantity import TaskFacts

PASSES = {"sac": 16, "dqn": 5}
"""Times that an update sends its rows through a network of `hidden`, forwards or backwards."""
WIDE_MEGAFLOPS = 200.0
"""From here on two threads are quicker than one: 1.1 times at 146, 1.4 at 293, 1.5 at 585 (docs/adr/0023)."""
MEASURED_THREADS = 2
"""More were not measured."""


def settle_replay_threads(ledger: Ledger, task: TaskFacts, machine: Machine) -> None:
    """Replay updates: by the products of one of them."""
    threads, why = 1, ""
    flops = _megaflops(ledger, task)
    work = "images" if flops is None else f"{flops:,.0f} MFLOP of products in one update"
    if machine.gpus:
        why = "the update runs on the GPU"
    elif flops is not None and flops < WIDE_MEGAFLOPS:
        why = f"{work}: too few to share, from {WIDE_MEGAFLOPS:g} on two are quicker"
    else:
        threads = min(MEASURED_THREADS, machine.cores)
        why = f"{work}, {machine.cores} usable cores; more than {MEASURED_THREADS} were not measured"
    ledger.wish("learner_threads", threads, why)


def _megaflops(ledger: Ledger, task: TaskFacts) -> float | None:
    """Products of one update's layers; None for images, whose convolutions are always many."""
    hidden = str(ledger.quantities["hidden"].value)
    if not hidden[:1].isdigit():
        return None
    inputs = math.prod(task.obs_shape or (0,)) + (task.action_size or 0)
    weights = sum(a * b for a, b in pairwise((inputs, *map(int, hidden.split(",")))))
    rows = int(ledger.quantities["transitions_per_update"].value or 0) * PASSES[ledger.config.algo]
    if "reward_learning_rate" in ledger.quantities:  # its own step, and the rewards of the policy's transitions
        timesteps = ledger.quantities.get("rrd_timesteps_per_update")
        rows += 3 * int(timesteps.value or 0) if timesteps is not None else 0
        rows += int(ledger.quantities["transitions_per_update"].value or 0)
    return 2e-6 * rows * weights
