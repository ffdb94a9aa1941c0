"""Several agents in a plan: how many there are, and what they do not combine with."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

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


def match_groups(
    names: tuple[str, ...], patterns: Sequence[str], env: str | None
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, agents) of each group that a pattern such as `red_*` states; none where nothing is stated."""
    found = []
    for pattern in patterns:
        agents = tuple(name for name in names if fnmatchcase(name, pattern))
        if not agents:
            raise UserError(
                f"--agent-groups {pattern}: no agent of {env} has such a name; it has {named_agents(names)}.",
                [f"--agent-groups {' '.join(names)}"],
            )
        found.append((pattern.replace("*", "").rstrip("_") or "all", agents))
    groups = [group for group, _ in found]
    for name in names if patterns else ():
        mine = [pattern for pattern, (_, agents) in zip(patterns, found, strict=True) if name in agents]
        if len(mine) != 1:
            what = "in no group" if not mine else f"in {len(mine)} groups ({', '.join(mine)})"
            raise UserError(f"--agent-groups: {name} of {env} is {what}; every agent is in one.", [*_each(names)])
    if len(set(groups)) < len(groups):
        raise UserError(f"--agent-groups gives two groups one name: {', '.join(groups)}.", [*_each(names)])
    return tuple(found)


def _each(names: tuple[str, ...]) -> list[str]:
    return [f"--agent-groups {' '.join(names)} (one policy each)", "leave out --agent-groups"]


def group_patterns(text: str | None) -> tuple[str, ...]:
    """The patterns of a plan, which holds them as one text."""
    return tuple(filter(None, (text or "").split(",")))


def settle_groups(ledger: Ledger, task: TaskFacts) -> None:
    """Writes down the policies, where agents have more than one."""
    stated = ledger.stated("agent_groups")
    if stated is not None:
        if not task.agents:
            raise UserError(
                f"{ledger.place('agent_groups')} groups agents, and {task.name or 'this task'} names none.",
                [ledger.without("agent_groups")],
            )
        groups = match_groups(task.agents, stated, task.name)
        ledger.adopt("agent_groups", ",".join(stated), "")
        texts = [f"{name} ({named_agents(agents)})" for name, agents in groups]
        ledger.settle("num_policies", len(groups), "policies", f"one for each group of agents: {', '.join(texts)}")
    elif len(task.agent_groups) > 1:
        reason = f"one for each group of agents with equal spaces: {', '.join(task.agent_groups)}"
        ledger.settle("num_policies", len(task.agent_groups), "policies", reason)
    policies = ledger.quantities.get("num_policies")
    if policies is not None and int(policies.value or 1) > 1:
        _refuse_with_groups(ledger)


def _refuse_with_groups(ledger: Ledger) -> None:
    """Refuses what several policies cannot be combined with."""
    if ledger.stated("memory") is not None:
        count = ledger.quantities["num_policies"].value
        raise UserError(
            f"{ledger.place('memory')}: agents have {count} policies; a memory is that of one network.",
            [ledger.without("memory"), '--agent-groups "*" (one policy, where all agents have equal spaces)'],
        )


def named_agents(names: tuple[str, ...]) -> str:
    """`red, blue, green and 5 more`."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"


def refuse_agents_elsewhere(task: TaskFacts, trainer: str) -> None:
    """Refuses a plan for another trainer where the environment has agents that it does not train with one policy."""
    if task.agents and (trainer != "rl_games" or len(task.agent_groups) > 1):
        groups = f" in {len(task.agent_groups)} groups" if len(task.agent_groups) > 1 else ""
        raise UserError(
            f"{task.name} has {counted(len(task.agents), 'agent')}{groups}; {trainer} is not planned for them.",
            [f"batchwright train {task.name}", *(["--for rl_games"] if not groups else [])],
        )


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
