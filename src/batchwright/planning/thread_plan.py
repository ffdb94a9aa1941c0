"""Threads of the compiled update: one, unless its matrix products are large enough to split."""

from __future__ import annotations

import math
from itertools import pairwise

from batchwright.core.machine import Machine
from batchwright.planning.ledger import Ledger
from batchwright.planning.network_plan import parse_hidden
from batchwright.planning.plan import TaskFacts
from batchwright.planning.replay_learning import REPLAY_DEFAULTS

WIDE_MEGAFLOPS = 200.0
"""From here on two threads are faster than one: 1.1 times at 146, 1.4 at 293, 1.5 at 585 (docs/adr/0023)."""
MEASURED_THREADS = 2
"""More were not measured."""


def settle_replay_threads(ledger: Ledger, task: TaskFacts, machine: Machine) -> None:
    """Threads of a replay update, by the cost of its matrix products."""
    threads, why = 1, ""
    flops = _megaflops(ledger, task)
    work = "images" if flops is None else f"{flops:,.0f} MFLOP of matrix products in one update"
    if machine.gpus:
        why = "the update runs on the GPU"
    elif flops is not None and flops < WIDE_MEGAFLOPS:
        why = f"{work}: too few to split, two threads are faster from {WIDE_MEGAFLOPS:g} on"
    else:
        threads = min(MEASURED_THREADS, machine.cores)
        why = f"{work}, {machine.cores} usable cores; more than {MEASURED_THREADS} were not measured"
    ledger.setting("learner_threads", threads, why)


def _megaflops(ledger: Ledger, task: TaskFacts) -> float | None:
    """MFLOP of one update's matrix products; None for images, whose convolutions always cost enough."""
    hidden = parse_hidden(str(ledger.quantities["hidden"].value))
    if hidden is None:
        return None
    inputs = math.prod(task.obs_shape or (0,)) + (task.action_size or 0)
    weights = sum(a * b for a, b in pairwise((inputs, *hidden)))
    rows = int(ledger.quantities["transitions_per_update"].value or 0) * REPLAY_DEFAULTS[ledger.config.algo].passes
    if "reward_learning_rate" in ledger.quantities:  # its own step, and the rewards of the policy's transitions
        timesteps = ledger.quantities.get("rrd_timesteps_per_update")
        rows += 3 * int(timesteps.value or 0) if timesteps is not None else 0
        rows += int(ledger.quantities["transitions_per_update"].value or 0)
    return 2e-6 * rows * weights
