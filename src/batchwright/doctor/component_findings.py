"""Findings about reward components: one that dominates the advantage, one without effect."""

from __future__ import annotations

from batchwright.doctor.finding import NOTE, WARNING, Finding, figure
from batchwright.doctor.run_history import RunHistory
from batchwright.planning.quantity import counted

SOURCE = "docs/training/components.md#from-rewards-to-one-advantage"
DOMINATING, DEAD = 0.95, 0.01


def shares(history: RunHistory) -> dict[str, float]:
    """The share of each component in the total advantage."""
    found = {}
    for name in history.names("component/"):
        _, component, quantity = (*name.split("/"), "", "")[:3]
        if quantity == "advantage":
            weight = history.typical(f"component/{component}/weight", 0.5)
            size = history.typical(name, 0.5)
            if size is not None:
                found[component] = abs(size) * (1.0 if weight is None else abs(weight))
    total = sum(found.values())
    return {name: size / total for name, size in found.items()} if total > 0 else {}


def dominating_component(history: RunHistory) -> Finding | None:
    """One component contributes at least 95% of the advantage."""
    found = shares(history)
    if len(found) < 2:
        return None
    name, share = max(found.items(), key=lambda item: item[1])
    if share < DOMINATING:
        return None
    return Finding(
        "dominating-component",
        WARNING,
        0.8,
        f"component {name} makes up {share:.0%} of the advantage; the rest comes from "
        f"{counted(len(found) - 1, 'other component')}.",
        "its scale outweighs the others, which hardly influence the policy",
        SOURCE,
        ("--component-norm scale",),
        {"component": name, "share": share},
    )


def dead_component(history: RunHistory) -> Finding | None:
    """A component that contributes less than 1% of the advantage."""
    found = shares(history)
    dead = [name for name, share in found.items() if share < DEAD]
    if len(found) < 2 or not dead:
        return None
    returned = history.typical(f"component/{dead[0]}/return")
    return Finding(
        "dead-component",
        NOTE,
        0.7,
        f"component {dead[0]} makes up {found[dead[0]]:.1%} of the advantage; its return is {figure(returned)}.",
        "its reward never varies, or its weight is near 0",
        SOURCE,
        evidence={"component": dead[0], "share": found[dead[0]], "return": returned},
    )
