"""Threads of the compiled update: XLA takes their number from NPROC when it starts, once in a process."""

from __future__ import annotations

import os
from dataclasses import replace

from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import PINNED, counted

NPROC = "NPROC"


def take_threads(plan: Plan) -> int:
    """The threads that this process has: the plan's, unless NPROC was set before by the user or by another run."""
    planned = int(plan.get("learner_threads") or 1)
    stated = os.environ.setdefault(NPROC, str(planned))
    return int(stated) if stated.isdigit() and int(stated) else planned


def with_threads(plan: Plan) -> Plan:
    """The plan with the threads that this process has; a stated number that it does not have is refused."""
    threads, planned = take_threads(plan), plan.quantities["learner_threads"]
    if threads == planned.value:
        return plan
    if planned.source == PINNED:
        raise UserError(
            f"this process gives updates {counted(threads, 'thread')} ({NPROC}={os.environ[NPROC]}), "
            f"{planned.origin} asks for {planned.value}.",
            [f"unset {NPROC}", f"--learner-threads {threads}", "train in a process of its own"],
        )
    own = replace(planned, value=threads, reason=f"{NPROC}={os.environ[NPROC]} in the environment of this process")
    return replace(plan, quantities={**plan.quantities, planned.name: own})
