"""Reward components: one that is dead, one that rules."""

from __future__ import annotations

from batchwright.doctor.finding import NOTE, WARNING, Finding, figure
from batchwright.doctor.run_history import RunHistory

SOURCE = "S4: components and their weights"
DOMINATING, DEAD = 0.95, 0.01


def shares(case: RunHistory) -> dict[str, float]:
    """The share of each component in the advantage that is learned from."""
    found = {}
    for name in case.names("component/"):
        _, component, what = (*name.split("/"), "", "")[:3]
        if what == "advantage":
            weight = case.typical(f"component/{component}/weight", 0.5)
            size = case.typical(name, 0.5)
            if size is not None:
                found[component] = abs(size) * (1.0 if weight is None else abs(weight))
    total = sum(found.values())
    return {name: size / total for name, size in found.items()} if total > 0 else {}


def dominating_component(case: RunHistory) -> Finding | None:
    """One component makes up nearly all of the advantage."""
    found = shares(case)
    if len(found) < 2:
        return None
    name, share = max(found.items(), key=lambda item: item[1])
    if share < DOMINATING:
        return None
    return Finding(
        "dominating-component",
        WARNING,
        0.8,
        f"component {name} makes up {share:.0%} of the advantage; the other {len(found) - 1} share the rest.",
        "its scale outweighs the others', which are learned by accident at best",
        SOURCE,
        ("--component-norm scale",),
        {"component": name, "share": share},
    )


def dead_component(case: RunHistory) -> Finding | None:
    """A component that gives no advantage at all."""
    found = shares(case)
    dead = [name for name, share in found.items() if share < DEAD]
    if len(found) < 2 or not dead:
        return None
    returned = case.typical(f"component/{dead[0]}/return")
    return Finding(
        "dead-component",
        NOTE,
        0.7,
        f"component {dead[0]} makes up {found[dead[0]]:.1%} of the advantage; its return is {figure(returned)}.",
        "it never varies, or its weight has gone to 0",
        SOURCE,
        evidence={"component": dead[0], "share": found[dead[0]], "return": returned},
    )
