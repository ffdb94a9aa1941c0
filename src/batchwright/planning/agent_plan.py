"""Several agents in a plan: how many there are, and what they do not combine with."""

from __future__ import annotations

from batchwright.config.load import Resolved
from batchwright.config.schema import REPLAY
from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import TaskFacts
from batchwright.planning.quantity import counted

MOST_NAMED = 4


def num_agents_of(ledger: Ledger, task: TaskFacts) -> int:
    """Agents of each environment: those that it has, else as stated, else 1."""
    return len(task.agents) or int(ledger.stated("num_agents") or 1)


def settle_agents(ledger: Ledger, task: TaskFacts) -> str:
    """Writes down the agents, where there are any; returns the factor of the rollout as text, else nothing."""
    stated, count = ledger.stated("num_agents"), num_agents_of(ledger, task)
    if stated is not None:
        ledger.adopt("num_agents", count, "agents")
    elif task.agents:
        ledger.settle("num_agents", count, "agents", f"those of {task.name}: {named_agents(task.agents)}")
    else:
        return ""
    return f" x {counted(count, 'agent')}"


def named_agents(names: tuple[str, ...]) -> str:
    """`red, blue, green and 5 more`."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"


def refuse_agent_contradictions(resolved: Resolved, task: TaskFacts) -> None:
    """Refuses what an environment of several agents cannot be combined with."""
    if not task.agents:
        return
    config, count = resolved.config, counted(len(task.agents), "agent")
    stated = config.get("num_agents")
    if stated not in (None, len(task.agents)):
        raise UserError(
            f"{task.name} has {count} ({named_agents(task.agents)}); --num-agents {stated} contradicts it.",
            ["leave out --num-agents"],
        )
    if config.regime == REPLAY:
        raise UserError(
            f"{task.name} has {count}; {config.algo} learns from a replay buffer of environments with one.",
            ["--algo ppo", "--algo a2c"],
        )
    if config.experience.by_episodes:
        raise UserError(
            f"{task.name} has {count}, which leave at different times; whole episodes are rollouts of one agent.",
            ["--rollout-steps N and --total-steps N instead of episodes"],
        )
    if config.rewards.components or config.rewards.component_balance:
        raise UserError(
            f"{task.name} has {count}; reward components are those of environments with one.",
            ["leave out --components", "leave out --component-balance"],
        )
