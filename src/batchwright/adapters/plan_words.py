"""What the adapters of on-policy trainers share: which plans they can write, and how settings are printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan


def refuse_other_plans(plan: Plan, title: str) -> None:
    """Refuses plans that are not PPO over a fixed number of steps by one agent without memory."""
    if plan.algo != "ppo":
        raise UserError(f"a plan of {plan.algo} cannot be written for {title}; one of ppo can.", ["--algo ppo"])
    if plan.get("rollout_episodes"):
        raise UserError(
            f"{title} rolls out a fixed number of steps, not whole episodes.",
            ["--rollout-steps 256 (without --rollout-episodes)"],
        )
    for name, flag in (("num_agents", "--num-agents"), ("seq_length", "--seq-length")):
        if plan.get(name, 1) > 1:
            raise UserError(f"plans with {name} are not written for {title}.", [f"leave out {flag}"])


def constant_entropy(plan: Plan, word: str) -> list[str]:
    """The note where the plan anneals an entropy bonus that the trainer keeps."""
    start, end = plan["entropy_start"], plan["entropy_end"]
    return [f"{word} stays at {start}; the plan anneals it to {end}."] if start != end else []


NEUTRAL = {
    "learning_rate_schedule": "constant",
    "clip_schedule": "constant",
    "value_clip": 0,
    "popart": False,
    "normalize_obs": False,
    "normalize_rewards": False,
    "kl_stop": 0,
    "value_rate_factor": 1,
    "warmup_updates": 0,
    "weight_decay": 0,
    "entropy_floor_weight": 0,
    "component_weighting": "fixed",
    "component_balance": False,
    "baseline": True,
}
"""Settings that a trainer may lack, with the value that changes nothing."""


def not_carried(
    plan: Plan, carried: Iterable[str], advantages_over: str = "", adam_eps: float | None = None
) -> list[str]:
    """A note for each part of the plan that the trainer leaves out.

    `carried` are the names of `NEUTRAL` that it has a setting for; `advantages_over` is what it normalises advantages
    over, `adam_eps` the epsilon that is fixed there.
    """
    have = set(carried)
    found = [
        f"{name} {plan[name]} has no counterpart there."
        for name, value in NEUTRAL.items()
        if name not in have and plan.get(name) not in (None, value)
    ]
    over = plan.get("advantage_norm")
    if advantages_over and over not in (None, "none", advantages_over):
        each = {"minibatch": "each minibatch", "rollout": "the rollout"}
        found.append(f"advantages are normalised over {each[advantages_over]} there, over {each[over]} in the plan.")
    if adam_eps is not None and plan.get("adam_eps") not in (None, adam_eps):
        found.append(f"adam_eps is {adam_eps} there, {plan['adam_eps']} in the plan.")
    return [*found, *(["the reward is one number there: it has no components."] if plan.get("components") else [])]


def yaml_lines(settings: Mapping[str, Any], notes: list[str], depth: int = 0) -> str:
    """Settings as YAML, sections indented, notes above."""
    lines = [f"# note: {note}" for note in notes]
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += [f"{'  ' * depth}{name}:", yaml_lines(value, [], depth + 1)]
        else:
            lines.append(f"{'  ' * depth}{name}: {yaml_scalar(value)}")
    return "\n".join(lines)


def yaml_scalar(value: object) -> str:
    # PyYAML reads 1e-05 as text: a float needs its point.
    if isinstance(value, float):
        shown = repr(value)
        return shown.replace("e", ".0e") if "e" in shown and "." not in shown else shown
    return str(value)


def flag_words(settings: Mapping[str, Any]) -> str:
    """Settings as flags of a command line, one on a line; a truth is --name or --no-name."""
    lines = []
    for name, value in settings.items():
        word = name.replace("_", "-")
        if isinstance(value, bool):
            lines.append(f"  --{word}" if value else f"  --no-{word}")
        else:
            lines.append(f"  --{word} {yaml_scalar(value)}")
    return " \\\n".join(lines)
