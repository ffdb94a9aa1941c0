"""Which learner trains a plan, and which policy it makes: the one place that knows all regimes."""

from __future__ import annotations

from typing import Any

from batchwright.config.schema import ON_POLICY, REPLAY
from batchwright.core.errors import UserError
from batchwright.envs.engines import Engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.nets.policy import NetworkMaker, Policy
from batchwright.on_policy.on_policy_factory import (
    make_on_policy_learner,
    make_on_policy_policy,
    refuse_untrainable_on_policy,
)
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.planning.network_plan import OWN_NETWORK
from batchwright.planning.plan import Plan
from batchwright.replay.replay_learner import ReplayLearner, make_replay_learner, make_replay_policy
from batchwright.replay.replay_settings import ReplaySettings, refuse_untrainable_replay
from batchwright.replay.reward_only_learner import RewardOnlyLearner, read_policy
from batchwright.runs.engine_learner import EngineLearner
from batchwright.runs.shared_programs import SharedPrograms


def make_learner(
    plan: Plan,
    env: str,
    on_event: OnEvent | None = None,
    network: NetworkMaker | None = None,
    programs: SharedPrograms | None = None,
) -> EngineLearner[Any]:
    """The learner of a plan; `network` replaces the built-in network of on-policy learning.

    Learners with the same `programs` share what they compile.
    """
    refuse_missing_network(plan, network)
    if plan.regime == ON_POLICY:
        return make_on_policy_learner(plan, env, on_event, network, programs)
    if plan.regime == REPLAY:
        return make_replay_learner(plan, env, on_event, _replay_kind(plan), programs)
    raise _no_learner(plan)


def make_trained_policy(plan: Plan, engine: Engine, network: NetworkMaker | None = None) -> Policy:
    """The policy that a plan's learner trains, with no parameters yet."""
    refuse_missing_network(plan, network)
    if plan.regime == ON_POLICY:
        return make_on_policy_policy(OnPolicySettings.from_plan(plan), engine, network)
    if plan.regime == REPLAY:
        return make_replay_policy(plan, engine)
    raise _no_learner(plan)


def refuse_untrainable(plan: Plan) -> None:
    """Refuses what can be planned and not trained; called before a run directory is made."""
    if plan.regime == REPLAY:
        refuse_untrainable_replay(plan)
        if ReplaySettings.from_plan(plan).collecting_run is not None:
            read_policy(ReplaySettings.from_plan(plan))
    refuse_untrainable_on_policy(plan)


def _replay_kind(plan: Plan) -> type[ReplayLearner]:
    return RewardOnlyLearner if ReplaySettings.from_plan(plan).reward_only else ReplayLearner


def refuse_missing_network(plan: Plan, network: NetworkMaker | None) -> None:
    if plan["hidden"] == OWN_NETWORK and network is None:
        raise UserError(
            "this run was trained with a network of your own.",
            ["batchwright.resume(run, network=...) in Python", "batchwright.load(run, network=...)"],
        )


def _no_learner(plan: Plan) -> UserError:
    return UserError(f"no learner trains {plan.algo} ({plan.regime}).", ["--algo ppo", "--algo sac"])
