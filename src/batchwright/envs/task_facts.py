"""What the planner needs to know of an environment."""

from __future__ import annotations

from dataclasses import replace

from batchwright.config.load import Resolved
from batchwright.config.schema import ON_POLICY
from batchwright.envs import spaces
from batchwright.envs.agent_groups import GROUP
from batchwright.envs.catalog import TaskSpec
from batchwright.envs.component_probe import probe_components
from batchwright.planning.agent_plan import named_agents
from batchwright.planning.plan import TaskFacts


def task_facts(spec: TaskSpec) -> TaskFacts:
    """What the planner needs of an environment."""
    found = spaces.leaves(spec.observation)
    if len(found) == 1:
        shape, dtype = spaces.leaf_shape(found[0][1]) or (1,), spaces.stored_dtype(found[0][1]).name
    else:  # a tree of arrays: its bytes are what a plan counts
        shape, dtype = (spaces.observation_bytes(spec.observation),), "uint8"
    return TaskFacts(
        name=spec.name,
        discrete=spaces.is_discrete(spec.action),
        action_size=spaces.action_size(spec.action),
        obs_shape=shape,
        obs_dtype=dtype,
        real_observations=any(spaces.is_numeric(leaf) for _, leaf in found),
        wide_observations=any(spaces.is_wide(leaf) for _, leaf in found),
        episode_steps=spec.max_episode_steps,
        hybrid=len({isinstance(leaf, spaces.Box) for path, leaf in spaces.leaves(spec.action) if path != (GROUP,)}) > 1,
        reward_names=spec.reward_names,
        stacked_frames=spec.stacked_frames if len(found) == 1 else 1,
        simulator=spec.simulator,
        agents=spec.agents,
        agent_groups=tuple(f"{group.name} ({named_agents(group.agents)})" for group in spec.agent_groups),
    )


def with_probed_components(resolved: Resolved, facts: TaskFacts) -> TaskFacts:
    """The facts with what random actions show of components: where keys of info are named, or balance is asked."""
    rewards, wanted = resolved.config.rewards, resolved.config.rewards.components
    named = bool(wanted) and not facts.reward_names
    unwanted = resolved.config.regime != ON_POLICY or not (named or rewards.component_balance)
    if facts.name is None or facts.agents or unwanted:  # agents are refused with components by the plan
        return facts
    probe = probe_components(facts.name, wanted, resolved.config.learning.gamma or 0.99)
    if probe is None:
        return facts
    return replace(facts, probed_components=probe.names, component_spreads=probe.spreads, probed_steps=probe.steps)
