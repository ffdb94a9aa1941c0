"""No setting is read and ignored: every number of learning changes what is learned, or says why not."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from batchwright.config.schema import Learning, Rewards
from batchwright.on_policy.on_policy_factory import make_on_policy_learner
from batchwright.on_policy.on_policy_learner import OnPolicyLearner
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.runs.engine_learner import digest
from run_batchwright import plan

BASE: dict[str, Any] = {
    "env": "MountainCarContinuous-v0",
    "engine": "jax",
    "num_envs": 3,
    "rollout_steps": 8,
    "minibatches": 2,
    "epochs": 2,
    "hidden": (4,),
    "total_steps": 24 * 3,
    "learning_rate": 0.01,
}
HYBRID = {"env": "IdentityHybrid-v0"}
OBJECTIVES = {"env": "TwoObjectives-v0"}
BALANCED = {**OBJECTIVES, "component_balance": True}
WRONG = {**OBJECTIVES, "component_weights": ("0.01", "10")}
# Field -> what is changed, against what (beside BASE) it is compared.
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "learning_rate": (0.02, {}),
    "learning_rate_schedule": ("linear", {}),
    "warmup_updates": (5, {}),
    "gamma": (0.5, {}),
    "gae_lambda": (0.1, {}),
    "clip_range": (1e-4, {}),
    "clip_schedule": ("linear", {"clip_range": 1e-3}),
    "entropy_start": (0.1, {}),
    "entropy_end": (0.3, {"entropy_anneal": 1.0}),
    "entropy_anneal": (1.0, {"entropy_start": 0.5}),
    "entropy_episodes": (1, {"entropy_start": 0.5, **HYBRID}),
    "entropy_weight_discrete": (0.1, {"entropy_start": 0.5, **HYBRID}),
    "entropy_weight_continuous": (0.1, {"entropy_start": 0.5, **HYBRID}),
    "entropy_floor_discrete": (5.0, HYBRID),
    "entropy_floor_continuous": (4.0, {}),
    "entropy_floor_weight": (1.0, {"entropy_floor_continuous": 4.0}),
    "components": (("small",), OBJECTIVES),
    "component_weights": (("0.9", "0.1"), OBJECTIVES),
    "component_balance": (True, OBJECTIVES),
    "component_norm": ("min-max", BALANCED),
    "component_weighting": ("learned", WRONG),
    "component_target": ("small", {**WRONG, "component_weighting": "learned"}),
    "value_weight": (0.1, {}),
    "value_rate_factor": (0.5, {}),
    "value_clip": (1e-4, {}),
    "advantage_norm": ("none", {}),
    "baseline": (False, {}),
    "normalize_obs": (False, {}),
    "normalize_rewards": (False, {}),
    "popart": (True, {"normalize_rewards": False}),
    "kl_stop": (1e-8, {}),
    "kl_target": (1e-8, {"learning_rate_schedule": "kl-adaptive"}),
    "max_grad_norm": (1e-4, {}),
    "weight_decay": (0.1, {}),
    "adam_beta2": (0.9, {}),
    "adam_eps": (1e-2, {}),
    "hidden": ((5,), {}),
    "memory": ("gru", {"minibatches": 1}),
    "memory_size": (5, {"memory": "gru", "minibatches": 1}),
    "activation": ("relu", {}),
    "log_std_start": (-1.0, {}),
}
COMPILED_IN = (
    "hidden",
    "memory",
    "memory_size",
    "activation",
    "log_std_start",
    "normalize_obs",
    "normalize_rewards",
    "gamma",
)
"""What a learner compiles beside its `UpdateSettings`; everything else is a number that each iteration is given."""
NOT_LEARNED = {
    "scale_learning_rate": "a rule of the planner: it changes learning_rate, which is in the list",
}


LEARNERS: dict[str, OnPolicyLearner] = {}
COLLECT: dict[str, Any] = {}
"""Programs that collect: settings of the update are not in them."""


def parameters(**wishes: Any) -> str:
    """A digest of the parameters after three iterations; plans that compile to the same programs share them."""
    made = plan(**(BASE | wishes))
    settings = OnPolicySettings.from_plan(made)
    factor_matters = made["value_rate_factor"] != 1.0
    named = {name: made.get(name) for name in COMPILED_IN} | {"env": made.task.name}
    key = repr((settings.update, factor_matters, settings.components, named))
    if key not in LEARNERS:
        LEARNERS[key] = made_learner = make_on_policy_learner(made, str(made.task.name))
        made_learner.session.collect = COLLECT.setdefault(
            repr((settings.components, named)), made_learner.session.collect
        )
    learner = LEARNERS[key]
    learner.on_policy_settings = settings
    state = learner.start()
    for _ in range(3):
        state, _ = learner.iterate(state)
    return digest(state.train.params)


@pytest.fixture(scope="module")
def digests() -> dict[str, str]:
    """Digests by the changes that made them, so that no base is trained twice."""
    return {}


def test_the_list_is_whole() -> None:
    assert CHANGES.keys() | NOT_LEARNED.keys() == {field.name for cls in (Learning, Rewards) for field in fields(cls)}


@pytest.mark.parametrize("name", CHANGES)
def test_the_field_changes_what_is_learned(name: str, digests: dict[str, str]) -> None:
    value, base = CHANGES[name]
    key = repr(base)
    if key not in digests:
        digests[key] = parameters(**base)
    assert parameters(**(base | {name: value})) != digests[key]


def test_advantages_normalised_by_minibatch_are_another_choice_again(digests: dict[str, str]) -> None:
    assert parameters(advantage_norm="minibatch") not in {
        digests.get(repr({})) or parameters(),
        parameters(advantage_norm="none"),
    }
