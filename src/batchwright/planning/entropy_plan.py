"""Entropy weights and floors of discrete and continuous heads."""

from __future__ import annotations

from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import TaskFacts

KINDS = ("discrete", "continuous")


def settle_entropy(ledger: Ledger, task: TaskFacts) -> None:
    """Writes weights of hybrid actions or stated ones, and stated floors."""
    if ledger.stated("entropy_episodes") is not None:
        if ledger.stated("entropy_anneal") is not None:
            raise UserError(
                f"{ledger.place('entropy_episodes')} and {ledger.place('entropy_anneal')} are rival schedules.",
                [ledger.without("entropy_episodes"), ledger.without("entropy_anneal")],
            )
        ledger.adopt("entropy_episodes", ledger.stated("entropy_episodes"), "episodes")
        ledger.quantities.pop("entropy_anneal")
    for kind in KINDS:
        for name in (f"entropy_weight_{kind}", f"entropy_floor_{kind}"):
            if ledger.stated(name) is not None and not _has(task, kind):
                raise UserError(
                    f"{ledger.place(name)} is for {kind} actions; {task.name or 'this task'} has none.",
                    [ledger.without(name)],
                )
    if task.hybrid:
        ledger.setting("entropy_weight_discrete", 1.0, "discrete choices matter more than amounts", unit="")
        ledger.setting("entropy_weight_continuous", 0.5, "half of the discrete weight in hybrid actions", unit="")
    else:
        for kind in KINDS:
            if ledger.stated(f"entropy_weight_{kind}") is not None:
                ledger.setting(f"entropy_weight_{kind}", 1.0, "", unit="")
    _floors(ledger)


def _floors(ledger: Ledger) -> None:
    floors = [f"entropy_floor_{kind}" for kind in KINDS if ledger.stated(f"entropy_floor_{kind}") is not None]
    for name in floors:
        ledger.adopt(name, ledger.stated(name), "nats")
    if floors:
        ledger.setting("entropy_floor_weight", 0.1, "ten times a common bonus, and only below the floor", unit="")
    elif ledger.stated("entropy_floor_weight") is not None:
        raise UserError(
            f"{ledger.place('entropy_floor_weight')} needs a floor.",
            ["--entropy-floor-discrete 0.3", "--entropy-floor-continuous -1", ledger.without("entropy_floor_weight")],
        )


def _has(task: TaskFacts, kind: str) -> bool:
    if task.discrete is None or task.hybrid:
        return True
    return task.discrete == (kind == "discrete")
