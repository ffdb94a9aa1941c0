"""Reward components that a run learns from, their normalisation and their weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

from batchwright.core.errors import UserError, unknown
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.quantity import counted

NO_COMPONENTS, REST = "none", "rest"
"""`components` of a plan that trains on the plain sum of a vector reward."""
OTHERS = ("component_weights", "component_norm", "component_balance", "component_weighting", "component_target")
TOTAL, SUCCESS = "(total)", "(success)"
"""Targets of learned weights that are no component: the environment's reward, its success signal."""


def component_names(plan: Plan) -> tuple[str, ...]:
    """Reward components that a plan trains on; empty where the reward is one number or the plain sum is trained on."""
    text = plan.get("components")
    return () if text in (None, NO_COMPONENTS) else tuple(str(text).split(","))


def component_weights(plan: Plan) -> tuple[float, ...]:
    """The planned weight of each of `component_names`, in the same order."""
    text = plan.get("component_weights")
    return () if text is None else tuple(float(weight) for weight in str(text).split(","))


def component_target(plan: Plan) -> str:
    """What learned weights serve: TOTAL, SUCCESS or the name of a component; empty where weights are fixed."""
    target = plan.get("component_target")
    if target is None or target in component_names(plan):
        return target or ""
    return {"total": TOTAL, "success": SUCCESS}[str(target)]


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
    _refuse_one_scale(ledger)
    weighting = ledger.setting("component_weighting", "fixed", "the weights stay as given", unit="")
    target = None
    if weighting == "learned":
        _refuse_unlearnable(ledger, names, weights)
        target = _target(ledger, names, task)
    elif ledger.stated("component_target") is not None:
        raise UserError(
            f"{ledger.place('component_target')} is what learned weights serve; the weights are fixed.",
            ["--component-weighting learned", ledger.without("component_target")],
        )
    _balance(ledger, names, weights, task, target)


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
    if (*wanted, REST) == task.probed_components:
        ledger.adopt(
            "components", ",".join((*wanted, REST)), "", f"stated, and {REST}: what they leave out of the reward"
        )
        ledger.remark(
            f"{', '.join(wanted)} are not all of the reward; the component {REST} holds what they leave out. "
            f"--component-weights {REST}=0 does not train on it."
        )
        return (*wanted, REST)
    ledger.adopt("components", ",".join(wanted), "")
    left_out = [name for name in offered if name not in wanted]
    if left_out:
        ledger.remark(f"reward components not trained on: {', '.join(left_out)}. Evaluation counts all of the reward.")
    elif not offered and task.probed_components != wanted:
        ledger.remark(
            f"components are keys of info: other parts of the environment's reward are trained on where {REST} is "
            "named, too. The first rollouts show whether the sum is the reward; evaluation counts the reward itself."
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
        if names[-1] == REST and len(stated) == len(names) - 1:
            stated = (*stated, "1")
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


def _target(ledger: Ledger, names: tuple[str, ...], task: TaskFacts) -> str:
    target: str = ledger.setting("component_target", "total", "the environment's own reward", unit="")
    if target not in (*names, "total", "success"):
        raise unknown("component target", str(target), (*names, "total", "success"), "--component-target")
    left_out = [name for name in task.reward_names if name not in names]
    if target == "total" and "total" not in names and left_out:
        raise UserError(
            f"the total has {counted(len(left_out), 'component')} more than are trained on: {', '.join(left_out)}.",
            [f"--components {' '.join(task.reward_names)}", f"--component-target {names[0]}"],
        )
    return target


def _balance(ledger: Ledger, names: tuple[str, ...], weights: list[float], task: TaskFacts, target: str | None) -> None:
    """Whether components are balanced, how, and what that makes of one unit of each."""
    begins_balanced = target is not None and (target != "total" or "total" in names)
    reason = "the objective is the environment's reward"
    if begins_balanced:
        reason = f"the units of the reward say nothing about {target}: its weights begin balanced"
    if not ledger.setting("component_balance", begins_balanced, reason, unit=""):
        if ledger.stated("component_norm") is not None:
            raise UserError(
                f"{ledger.place('component_norm')} is the first tier of balancing, and components are not balanced.",
                ["--component-balance", ledger.without("component_norm")],
            )
        return
    norm = ledger.setting("component_norm", "scale", "each divided by the std of its return; signs stay", unit="")
    if norm in ("z-score", "min-max"):
        ledger.remark(
            f"component_norm {norm} shifts every step's reward: where episodes differ in length, this rewards "
            "or punishes length. --component-norm scale does not."
        )
    if ledger.quantities["normalize_rewards"].value:
        origin = ledger.resolved.origin("normalize_rewards")
        if origin is not None and origin.kind != "preset":
            raise UserError(
                "--normalize-rewards scales the sum, --component-balance each component: use one of them.",
                ["--no-component-balance", "--no-normalize-rewards", "--components none"],
            )
        ledger.settle("normalize_rewards", False, "", f"off: components are balanced one by one ({norm})")
    ledger.remark(_reweighting_text(names, weights, task))


def _reweighting_text(names: tuple[str, ...], weights: list[float], task: TaskFacts) -> str:
    spreads = task.component_spreads
    if task.probed_components != names:
        return "balancing changes what one unit of each component counts; the first rollouts show the figures."
    counts = [weight / spread if spread > 0 else 0.0 for weight, spread in zip(weights, spreads, strict=True)]
    text = reweighting(names, counts)
    if text is None:
        return f"balancing changes nothing by the {task.probed_steps:,} random steps that were tried."
    return f"balanced, by {task.probed_steps:,} random steps: {text}. The record follows it."


def reweighting(names: Sequence[str], counts: Sequence[float]) -> str | None:
    """The largest change of the trade-off in words; `counts` is what one unit of each component counts as."""
    known = [(abs(count), name) for count, name in zip(counts, names, strict=True) if count != 0]
    if len(known) < 2:
        return None
    (least, small), (most, large) = min(known), max(known)
    return None if small == large else f"1 unit of {large} counts as {most / least:.3g} of {small}"


def _refuse_one_scale(ledger: Ledger) -> None:
    """Refuses normalisers that use one scale for all values."""
    for name in ("popart", "value_clip"):
        if ledger.quantities[name].value:
            raise UserError(
                f"{ledger.place(name)} uses one scale; components have one each.",
                [ledger.without(name), "--components none"],
            )
