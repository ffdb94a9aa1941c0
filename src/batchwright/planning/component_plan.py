"""Reward components that a run learns from, their normalisation and their weights."""

from __future__ import annotations

import math

from batchwright.core.errors import UserError, unknown
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.quantity import counted

NO_COMPONENTS = "none"
"""`components` of a plan that trains on the plain sum of a vector reward."""
OTHERS = ("component_weights", "component_norm", "component_balance", "component_weighting")


def component_names(plan: Plan) -> tuple[str, ...]:
    """Reward components that a plan trains on; empty where the reward is one number or the plain sum is trained on."""
    text = plan.get("components")
    return () if text in (None, NO_COMPONENTS) else tuple(str(text).split(","))


def component_weights(plan: Plan) -> tuple[float, ...]:
    """The planned weight of each of `component_names`, in the same order."""
    text = plan.get("component_weights")
    return () if text is None else tuple(float(weight) for weight in str(text).split(","))


def settle_components(ledger: Ledger, task: TaskFacts) -> None:
    """Writes names, weights and normalisation of reward components; nothing where the reward is one number."""
    names = _names(ledger, task)
    if not names:
        for name in OTHERS:
            if ledger.stated(name) is not None:
                what = "the plain sum is trained on" if task.reward_names else "the reward is one number"
                raise UserError(
                    f"{ledger.place(name)} is for reward components, and {what}.",
                    [f"--components {' '.join(task.reward_names) or 'KEY KEY (keys of info)'}", ledger.without(name)],
                )
        return
    weights = _weights(ledger, names)
    shown = ",".join(f"{weight:g}" for weight in weights)
    if ledger.stated("component_weights") is None:
        ledger.settle("component_weights", shown, "", "default: all equal", "default")
    else:
        ledger.adopt("component_weights", shown, "")
    norm = ledger.setting("component_norm", "scale", "each divided by the std of its return; signs stay", unit="")
    ledger.setting("component_balance", True, "factor median(std) / std within 0.1 to 10", unit="")
    weighting = ledger.setting("component_weighting", "fixed", "the weights stay as given", unit="")
    if weighting == "learned":
        _refuse_unlearnable(ledger, names, weights)
    _scales(ledger, norm)
    if norm in ("z-score", "min-max"):
        ledger.remark(
            f"component_norm {norm} shifts every step's reward: where episodes differ in length, this rewards "
            "or punishes length. --component-norm scale does not."
        )


def _names(ledger: Ledger, task: TaskFacts) -> tuple[str, ...]:
    wanted, offered = ledger.stated("components"), task.reward_names
    if wanted == (NO_COMPONENTS,):
        ledger.adopt("components", NO_COMPONENTS, "", f"stated: the sum of {', '.join(offered) or 'the reward'}")
        return ()
    if wanted is None:
        if offered:
            reason = f"the reward has {counted(len(offered), 'component')}; --components none trains on their sum"
            ledger.settle("components", ",".join(offered), "", reason)
        return offered
    if len(set(wanted)) < len(wanted) or any("=" in name for name in wanted):
        raise UserError(
            f"{ledger.place('components')}: each component is named once, without '='.",
            [f"--components {' '.join(dict.fromkeys(name.split('=')[0] for name in wanted))}"],
        )
    for name in wanted:
        if offered and name not in offered:
            raise unknown(f"reward component of {task.name}", name, offered, "--components")
    ledger.adopt("components", ",".join(wanted), "")
    left_out = [name for name in offered if name not in wanted]
    if left_out:
        ledger.remark(f"reward components not trained on: {', '.join(left_out)}. Evaluation counts all of the reward.")
    elif not offered:
        ledger.remark(
            "components are keys of info: other parts of the environment's reward are not trained on. The first "
            "rollouts show whether their sum is the reward; evaluation counts the reward itself."
        )
    return tuple(wanted)


def _weights(ledger: Ledger, names: tuple[str, ...]) -> list[float]:
    stated = ledger.stated("component_weights")
    if stated is None:
        return [1.0] * len(names)
    place = ledger.place("component_weights")
    if any("=" in word for word in stated):
        if not all("=" in word for word in stated):
            raise UserError(f"{place}: either all weights have names or none.", [_example(names)])
        pairs = [word.rsplit("=", 1) for word in stated]
        for name, _ in pairs:
            if name not in names:
                raise unknown("reward component in --component-weights", name, names)
        given = dict(pairs)
        if len(given) < len(pairs):
            raise UserError(f"{place}: a component has two weights.", [_example(names)])
        texts = [given.get(name, "1") for name in names]
    else:
        if len(stated) != len(names):
            raise UserError(
                f"{place}: {counted(len(stated), 'weight')} for {counted(len(names), 'component')} "
                f"({', '.join(names)}).",
                [_example(names)],
            )
        texts = list(stated)
    weights = [_number(text, place, names) for text in texts]
    if not any(weights):
        raise UserError(f"{place}: all weights are 0.", [_example(names)])
    return weights


def _number(text: str, place: str, names: tuple[str, ...]) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight) or abs(weight) > 1e9:
        raise UserError(f"{place}: {text[:40]!r} is not a number.", [_example(names)])
    return weight


def _example(names: tuple[str, ...]) -> str:
    return "--component-weights " + " ".join(f"{name}=1" for name in names)


def _refuse_unlearnable(ledger: Ledger, names: tuple[str, ...], weights: list[float]) -> None:
    if len(names) < 2:
        raise UserError("one component alone has no weight to learn.", ["--component-weighting fixed"])
    if min(weights) < 0:
        raise UserError(
            f"{ledger.place('component_weights')}: learned weights are shares, none is negative.",
            ["--component-weighting fixed"],
        )


def _scales(ledger: Ledger, norm: str) -> None:
    """Refuses or switches off normalisers that use one scale for all components."""
    if ledger.quantities["popart"].value or ledger.quantities["value_clip"].value:
        name = "popart" if ledger.quantities["popart"].value else "value_clip"
        raise UserError(
            f"{ledger.place(name)} uses one scale; components have one each.",
            [ledger.without(name), "--components none"],
        )
    if norm == "none" or not ledger.quantities["normalize_rewards"].value:
        return
    origin = ledger.resolved.origin("normalize_rewards")
    if origin is not None and origin.kind != "preset":
        raise UserError(
            f"--normalize-rewards scales the sum, --component-norm {norm} each component: use one of them.",
            ["--component-norm none", "--no-normalize-rewards", "--components none"],
        )
    ledger.settle("normalize_rewards", False, "", f"off: components are normalised one by one ({norm})")
