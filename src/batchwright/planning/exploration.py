"""Numbers of the entropy bonus beside its schedule: weights and floors of each kind of head."""

from __future__ import annotations

from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.quantity import TaskFacts

KINDS = {"discrete": "choices", "continuous": "boxes"}


def settle_entropy(ledger: Ledger, task: TaskFacts) -> None:
    """Weights where there are both kinds or one is stated; floors where they are stated; nothing else is written."""
    if ledger.stated("entropy_episodes") is not None:
        if ledger.stated("entropy_anneal") is not None:
            raise UserError(
                f"{ledger.place('entropy_episodes')} and {ledger.place('entropy_anneal')} are two schedules.",
                [ledger.without("entropy_episodes"), ledger.without("entropy_anneal")],
            )
        ledger.adopt("entropy_episodes", ledger.stated("entropy_episodes"), "episodes")
        ledger.quantities.pop("entropy_anneal")
    for kind, parts in KINDS.items():
        for name in (f"entropy_weight_{kind}", f"entropy_floor_{kind}"):
            if ledger.stated(name) is not None and not _has(task, kind):
                raise UserError(
                    f"{ledger.place(name)} is about {parts}; the actions of {task.name or 'this task'} have none.",
                    [ledger.without(name)],
                )
    if task.hybrid:
        ledger.wish("entropy_weight_discrete", 1.0, "choices decide more than amounts", unit="")
        ledger.wish("entropy_weight_continuous", 0.5, "half of the choices' in mixed actions", unit="")
    else:
        for kind in KINDS:
            if ledger.stated(f"entropy_weight_{kind}") is not None:
                ledger.wish(f"entropy_weight_{kind}", 1.0, "", unit="")
    _floors(ledger)


def _floors(ledger: Ledger) -> None:
    floors = [f"entropy_floor_{kind}" for kind in KINDS if ledger.stated(f"entropy_floor_{kind}") is not None]
    for name in floors:
        ledger.adopt(name, ledger.stated(name), "nats")
    if floors:
        ledger.wish("entropy_floor_weight", 0.1, "ten times the usual bonus, and only below the floor", unit="")
    elif ledger.stated("entropy_floor_weight") is not None:
        raise UserError(
            f"{ledger.place('entropy_floor_weight')} needs a floor.",
            ["--entropy-floor-discrete 0.3", "--entropy-floor-continuous -1", ledger.without("entropy_floor_weight")],
        )


def _has(task: TaskFacts, kind: str) -> bool:
    if task.discrete is None or task.hybrid:
        return True
    return task.discrete == (kind == "discrete")
