"""Findings about reward components: what their weighting does to the objective and to the evaluation."""

from __future__ import annotations

import numpy as np

from batchwright.doctor.finding import NOTE, WARNING, Finding, figure
from batchwright.doctor.run_history import Column, RunHistory
from batchwright.planning.quantity import counted

SOURCE = "docs/training/components.md"
OBJECTIVE, BALANCE = f"{SOURCE}#from-rewards-to-one-advantage", f"{SOURCE}#balancing"
LEARNED, MEASURED = f"{SOURCE}#learned-weights", f"{SOURCE}#measured"
DOMINATING, DEAD = 0.95, 0.01
LARGEST_REWEIGHTING = 10.0
WANDERED = 0.3
LEAST_ITERATIONS, LEAST_EVALUATIONS = 10, 4
FELL, ROSE = 0.25, 0.1
"""Shares of the range of evaluations and of weighted returns that count as a fall and as a rise."""


def of_components(history: RunHistory, quantity: str) -> dict[str, str]:
    """{component: metric} of a quantity, e.g. `share`, of each component."""
    prefix, suffix = "component/", f"/{quantity}"
    found = [name for name in history.names(prefix) if name.endswith(suffix)]
    return {name.removeprefix(prefix).removesuffix(suffix): name for name in found}


def typical(history: RunHistory, quantity: str) -> dict[str, float]:
    """The median of a quantity over the second half, of each component that has one."""
    found = {name: history.typical(metric, 0.5) for name, metric in of_components(history, quantity).items()}
    return {name: value for name, value in found.items() if value is not None}


def is_reweighted(history: RunHistory) -> bool:
    """Whether the run changes the trade-off that the weights state."""
    return bool(history.facts.get("component_balance")) or history.facts.get("component_weighting") == "learned"


def undo_flags(history: RunHistory) -> tuple[str, ...]:
    """Flags that bring the stated trade-off back."""
    learned = history.facts.get("component_weighting") == "learned"
    return ("--component-weighting fixed",) if learned else ("--no-component-balance",)


def dominating_component(history: RunHistory) -> Finding | None:
    """One component contributes at least 95% of the advantage."""
    found = typical(history, "share")
    if len(found) < 2:
        return None
    name, share = max(found.items(), key=lambda item: item[1])
    if share < DOMINATING:
        return None
    # Without reweighting it is the environment's own trade-off, and may be meant.
    reweighted = is_reweighted(history)
    return Finding(
        "dominating-component",
        WARNING if reweighted else NOTE,
        0.8,
        f"component {name} makes up {share:.0%} of the advantage; the rest comes from "
        f"{counted(len(found) - 1, 'other component')}.",
        "the weighting leaves the others without influence on the policy"
        if reweighted
        else "in the units of the reward the others are small; if they have another unit, they can be balanced",
        OBJECTIVE,
        undo_flags(history) if reweighted else ("--component-balance",),
        {"component": name, "share": share},
    )


def dead_component(history: RunHistory) -> Finding | None:
    """A component that contributes less than 1% of the advantage."""
    found = typical(history, "share")
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
        OBJECTIVE,
        evidence={"component": dead[0], "share": found[dead[0]], "return": returned},
    )


def implied_reweighting(history: RunHistory) -> Finding | None:
    """Balancing or learned weights that change the stated trade-off between two components by more than 10:1."""
    counts, stated = typical(history, "weight"), _stated_weights(history)
    ratio = {name: counts[name] / abs(stated[name]) for name in counts if counts[name] > 0 and stated.get(name)}
    if len(ratio) < 2 or not is_reweighted(history):
        return None
    large, small = max(ratio, key=lambda name: ratio[name]), min(ratio, key=lambda name: ratio[name])
    change = ratio[large] / ratio[small]
    if change <= LARGEST_REWEIGHTING:
        return None
    balanced = bool(history.facts.get("component_balance"))
    return Finding(
        "implied-reweighting",
        WARNING,
        0.6,
        f"1 unit of {large} counts as {figure(counts[large] / counts[small])} of {small}; by the stated weights it "
        f"counts as {figure(abs(stated[large] / stated[small]))}.",
        "balancing brings components to one spread, whatever their unit"
        if balanced
        else "the learned weights have moved far from the stated ones",
        BALANCE if balanced else LEARNED,
        undo_flags(history),
        {"component": large, "other": small, "change": change},
    )


def wandering_share(history: RunHistory) -> Finding | None:
    """A learned share that still moves by 0.3 and more in the second half of the run."""
    moved = {}
    for name, metric in of_components(history, "product").items():
        late = _second_half(history.column(metric))
        if len(late) >= LEAST_ITERATIONS // 2:
            moved[name] = (float(late.min()), float(late.max()), float(late[0]), float(late[-1]))
    if not moved or history.length < LEAST_ITERATIONS or history.share_done < 0.5:
        return None
    name, (low, high, first, last) = max(moved.items(), key=lambda item: item[1][1] - item[1][0])
    if high - low < WANDERED:
        return None
    return Finding(
        "wandering-share",
        WARNING,
        0.7,
        f"the learned share of component {name} was between {low:.2f} and {high:.2f} in the second half of the run "
        f"({first:.2f} in its middle, {last:.2f} at its end).",
        "the target says too little about the weights, or its own objective changes with the policy",
        LEARNED,
        ("--component-weighting fixed",),
        {"component": name, "low": low, "high": high},
    )


def evaluation_against_weights(history: RunHistory) -> Finding | None:
    """Evaluations fall while the return by the run's own weights rises."""
    evaluated = history.column("eval_mean")
    at = np.flatnonzero(np.isfinite(evaluated))
    weighted = _weighted_returns(history)
    if len(at) < LEAST_EVALUATIONS or weighted is None or not is_reweighted(history):
        return None
    best = int(at[np.argmax(evaluated[at])])
    late = at[-max(1, len(at) // 4) :]
    span = float(np.ptp(evaluated[at]))
    fell = float(evaluated[best] - evaluated[late].mean())
    around, end = weighted[: best + 1], weighted[late[0] :]
    around, end = around[np.isfinite(around)], end[np.isfinite(end)]
    if not len(around) or not len(end) or span <= 0 or fell < FELL * span:
        return None
    rose = float(np.median(end) - np.median(around[-max(1, len(end)) :]))
    if rose < ROSE * float(np.nanmax(weighted) - np.nanmin(weighted)):
        return None
    return Finding(
        "evaluation-against-weights",
        WARNING,
        0.8,
        f"evaluations fell from {figure(float(evaluated[best]))} in iteration {history.iteration_at(best)} to "
        f"{figure(float(evaluated[late].mean()))}, while the return by the weights of the run rose by {figure(rose)}.",
        "the weighted components reward something else than the environment does",
        MEASURED,
        undo_flags(history),
        {"best": float(evaluated[best]), "last": float(evaluated[late].mean()), "weighted_rise": rose},
        history.iteration_at(best),
    )


def _weighted_returns(history: RunHistory) -> Column | None:
    """The sum of the components' returns by the weights of the second half."""
    weights = typical(history, "weight")
    names = of_components(history, "return")
    if not weights or not set(weights) <= set(names):
        return None
    stated = _stated_weights(history)
    signed = {name: np.sign(stated.get(name, 1.0)) * weight for name, weight in weights.items()}
    total: Column = np.sum([weight * history.column(names[name]) for name, weight in signed.items()], axis=0)
    return total


def _stated_weights(history: RunHistory) -> dict[str, float]:
    names, weights = (str(history.facts.get(key) or "") for key in ("components", "component_weights"))
    pairs = zip(names.split(","), weights.split(","), strict=False)
    return {name: float(weight) for name, weight in pairs if name and weight}


def _second_half(column: Column) -> Column:
    late = column[len(column) // 2 :]
    return late[np.isfinite(late)]
