"""What `--hold` and `--scale-learning-rate` do, and the remark about num_envs changed alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from batchwright.config.load import Resolved
from batchwright.config.schema import flag_of
from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import DERIVED, Quantity

LARGEST_RATE_FACTOR = 4.0


@dataclass(frozen=True)
class Held:
    """Values of the plan without the command line that `--hold` keeps; all None where nothing is held."""

    rollout: int | None = None
    minibatch: int | None = None
    epochs: int | None = None
    total_steps: int | None = None
    reference_minibatch: int | None = None
    """The minibatch of that plan, for scaling the learning rate."""


def needs_reference(resolved: Resolved) -> bool:
    """Whether the plan depends on the one without flags; `--hold` with rollouts of whole episodes is refused."""
    hold = resolved.config.experience.hold
    if resolved.config.experience.by_episodes:
        if hold is not None:
            raise UserError(
                f"--hold {hold} needs rollouts counted in steps: the transitions of whole episodes vary.",
                ["--rollout-steps 256"],
            )
        return False
    return hold is not None or bool(resolved.config.learning.scale_learning_rate)


def without_flags(resolved: Resolved) -> Resolved:
    """Preset, file and defaults alone, for the same task and algorithm."""
    config = resolved.before_flags
    experience = replace(config.experience, hold=None, rollout_episodes=None, total_episodes=None)
    plain = replace(
        config,
        task=resolved.config.task,
        experience=experience,
        learning=replace(config.learning, scale_learning_rate=None),
    )
    origins = {name: origin for name, origin in resolved.before_origins.items() if plain.get(name) is not None}
    return Resolved(plain, origins, resolved.presets, (), plain)


def held_values(resolved: Resolved, before: Plan) -> Held:
    """What `--hold` keeps; `before` is the plan of `without_flags`."""
    hold = resolved.config.experience.hold
    held = Held(reference_minibatch=before["minibatch_transitions"])
    if hold == "transitions-per-update":
        _refuse_changed(resolved, "minibatch_transitions", before, hold)
        _refuse_stated(resolved, "minibatches", hold)
        return replace(held, rollout=before["rollout_transitions"], minibatch=before["minibatch_transitions"])
    if hold == "reuse":
        _refuse_changed(resolved, "epochs", before, hold)
        return replace(held, epochs=before["epochs"])
    if hold == "total-steps":
        _refuse_changed(resolved, "total_steps", before, hold)
        return replace(held, total_steps=before["total_steps"])
    return held


def _refuse_changed(resolved: Resolved, name: str, before: Plan, hold: str) -> None:
    origin, value = resolved.origin(name), resolved.config.get(name)
    if origin is not None and origin.kind == "flag" and value != before[name]:
        raise UserError(
            f"--hold {hold} keeps {name} at {before[name]}, and {flag_of(name)} {value} changes it.",
            [f"leave out {flag_of(name)}", f"leave out --hold {hold}"],
        )


def _refuse_stated(resolved: Resolved, name: str, hold: str) -> None:
    origin = resolved.origin(name)
    if origin is not None and origin.kind == "flag":
        raise UserError(
            f"--hold {hold} settles {name}, and {flag_of(name)} {resolved.config.get(name)} sets it too.",
            [f"leave out {flag_of(name)}", f"leave out --hold {hold}"],
        )


def changes_only_num_envs(ledger: Ledger) -> bool:
    """Whether the flags change num_envs and nothing else that shapes a rollout counted in steps."""
    flags = {name for name, origin in ledger.resolved.origins.items() if origin.kind == "flag"}
    shaping = {"rollout_steps", "rollout_episodes", "minibatch_transitions", "minibatches", "hold"}
    return "num_envs" in flags and not flags & shaping and not ledger.config.experience.by_episodes


def remark_num_envs(ledger: Ledger, before: Plan) -> None:
    """Remarks how another num_envs changes the learning, and which flag keeps it as in the plan `before`."""
    now: dict[str, Any] = {name: quantity.value for name, quantity in ledger.quantities.items()}
    if before["num_envs"] == now["num_envs"]:
        return
    per_million = [1e6 / p["rollout_transitions"] * p["updates_per_iteration"] for p in (before, now)]
    fewer = "fewer, steadier" if per_million[1] < per_million[0] else "more, noisier"
    ledger.remark(
        f"num_envs {before['num_envs']} -> {now['num_envs']} alone changes learning: "
        f"rollout {before['rollout_transitions']} -> {now['rollout_transitions']} transitions, "
        f"minibatch {before['minibatch_transitions']} -> {now['minibatch_transitions']}, "
        f"updates per million transitions {per_million[0]:.0f} -> {per_million[1]:.0f} ({fewer} updates). "
        "Keep it as it was: --hold transitions-per-update."
    )


def scale_learning_rate(ledger: Ledger, rate: float, held: Held) -> None:
    """Scales the learning rate with the minibatch, at most 4x either way, when asked; a remark reports it."""
    if not ledger.stated("scale_learning_rate"):
        return
    now, before = ledger.quantities["minibatch_transitions"].value, held.reference_minibatch
    if not isinstance(now, int) or not before:
        raise UserError(
            "--scale-learning-rate needs the size of a minibatch, and rollouts of whole episodes vary.",
            ["leave out --scale-learning-rate"],
        )
    factor = min(max(now / before, 1 / LARGEST_RATE_FACTOR), LARGEST_RATE_FACTOR)
    scaled = float(f"{rate * factor:.6g}")
    capped = " (capped at 4x)" if not math.isclose(factor, now / before) else ""
    reason = f"{rate:g} x {factor:.4g}: minibatch {before} -> {now}{capped}"
    ledger.quantities["learning_rate"] = Quantity("learning_rate", scaled, "", reason, DERIVED, "--scale-learning-rate")
    ledger.remark(f"learning rate scaled with the minibatch: {reason} = {scaled:g}.")
