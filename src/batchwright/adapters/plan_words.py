"""What the adapters of on-policy trainers share: which plans they can write, and how settings are printed."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Settings as flags of a command line, one on a line."""
    return " \\\n".join(f"  --{name.replace('_', '-')} {yaml_scalar(value)}" for name, value in settings.items())
