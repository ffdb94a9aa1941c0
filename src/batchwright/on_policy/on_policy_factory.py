"""Builds on-policy learners and their policies from a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from batchwright.core.errors import UserError
from batchwright.envs.engines import Engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.envs.masks import Activity
from batchwright.envs.reward_components import NO_COMPONENTS
from batchwright.envs.spaces import Spec
from batchwright.nets.grouped_policy import make_grouped_policy
from batchwright.nets.head_layout import make_heads
from batchwright.nets.networks import Inputs
from batchwright.nets.policy import NetworkMaker, Policy
from batchwright.nets.policy_factory import make_policy
from batchwright.nets.recurrent_policy import make_recurrent_policy
from batchwright.on_policy.episode_learner import EpisodeLearner
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.on_policy.recurrent_learner import RecurrentLearner
from batchwright.on_policy.remedies import refuse_unable_to_act
from batchwright.on_policy.sharded_learner import ShardedLearner, ShardedRecurrentLearner, share_of
from batchwright.planning.network_plan import OWN_NETWORK
from batchwright.planning.plan import Plan
from batchwright.runs.process_group import current_group
from batchwright.runs.shared_programs import SharedPrograms, make_shared_engine


def make_on_policy_learner(
    plan: Plan,
    env: str,
    on_event: OnEvent | None = None,
    network: NetworkMaker | None = None,
    programs: SharedPrograms | None = None,
) -> OnPolicyLearner:
    """The learner of a plan; programs are compiled on first use, spaces that cannot be learned are refused here."""
    refuse_untrainable_on_policy(plan)
    settings = OnPolicySettings.from_plan(plan)
    group = replace(current_group(), devices=plan.get("devices", 1))
    settings = share_of(settings, group) if group.shards > 1 else settings
    engine = make_shared_engine(
        programs,
        env,
        settings.num_envs,
        settings.engine,
        num_threads=settings.num_threads,
        on_event=on_event,
        components=settings.update.components or NO_COMPONENTS,
        step_timeout=settings.run.step_timeout,
        info_keys=settings.run.log_info,
        agent_groups=settings.run.agent_groups,
    )
    policy = make_on_policy_policy(settings, engine, network)
    kind = OnPolicyLearner if settings.rollout_episodes is None else EpisodeLearner
    kind = RecurrentLearner if settings.network.memory is not None else kind
    shared = programs if network is None else None  # a network of the caller's has no key
    if group.shards > 1:
        sharded = ShardedLearner if settings.network.memory is None else ShardedRecurrentLearner
        return sharded(plan, settings, env, engine, policy, on_event, None, group)
    return kind(plan, settings, env, engine, policy, on_event, shared)


def make_on_policy_policy(settings: OnPolicySettings, engine: Engine, network: NetworkMaker | None = None) -> Policy:
    """The policy for an engine's spaces, with one value per reward component, and one for success if it is a target."""
    num_values, layout = max(1, len(engine.reward_names)) + settings.update.success_head, engine.layout
    if layout is None or len(layout.groups) == 1:
        spaces = engine.observation, engine.action
        return _policy_for(settings, *spaces, num_values, network, engine.action_activity)
    groups = {
        group.name: _policy_for(settings, group.observation, group.action, num_values, network, {})
        for group in layout.groups
    }
    return make_grouped_policy(layout, groups)


def _policy_for(
    settings: OnPolicySettings,
    observation: Spec,
    action: Spec,
    num_values: int,
    network: NetworkMaker | None,
    activity: Mapping[str, Activity],
) -> Policy:
    memory = settings.network.memory
    if memory is not None:
        return make_recurrent_policy(
            Inputs(observation),
            make_heads(action, activity),
            num_values,
            memory.kind,
            memory.size,
            hidden=settings.network.hidden,
            activation=settings.network.activation,
            log_std_start=settings.network.log_std_start,
        )
    return make_policy(
        observation,
        action,
        num_values=num_values,
        hidden=settings.network.hidden,
        activation=settings.network.activation,
        log_std_start=settings.network.log_std_start,
        network=network,
        activity=activity,
    )


def refuse_untrainable_on_policy(plan: Plan) -> None:
    """Refuses plans that are made for other trainers; called before a run directory is made."""
    refuse_unable_to_act(plan)
    if plan.get("num_agents", 1) > 1 and not plan.task.agents:
        raise UserError(
            f"{plan.task.name} has one agent; --num-agents {plan['num_agents']} is planned for other trainers only.",
            ["leave out --num-agents", "--for rl_games", "an environment of PettingZoo: mpe2:simple_spread_v3"],
        )
    if plan.get("memory") is None and plan.get("seq_length", 1) > 1:
        raise UserError(
            "--seq-length cuts rollouts into sequences, and the policy has no memory that would learn from them.",
            ["--memory gru", "leave out --seq-length", "--for rl_games"],
        )
    if plan.get("memory") is not None and plan["hidden"] == OWN_NETWORK:
        raise UserError(
            "--memory is a part of the built-in networks; a network that you bring has none.",
            ["leave out --memory", "leave out network="],
        )
